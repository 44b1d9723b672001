"""Heads of a tail and scores of given triples, against the whole matrix of scores."""

import functools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from numcoke_jax.api import Model
from numcoke_jax.cli.main import main
from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL
from numcoke_jax.inference.frames import ask_heads, score_triples
from numcoke_jax.inference.predict import AnswerSettings, Predictor
from numcoke_jax.inference.questions import SCORE_COLUMNS
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.system.errors import UserError
from tests.inference.conftest import Program
from tests.tiny_runs import config_of, train, write_folder

ENTITIES = 14


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs on a comparison with two upsets and a ring: the shipped settings, and TransE."""
    place = tmp_path_factory.mktemp("questions")
    folder = write_folder(place / "graph", entities=ENTITIES, relation="beat")
    with open(folder / "train.txt", "a") as file:
        file.write("e0\tbeat\te12\ne1\tbeat\te9\n")
        file.writelines(f"e{i}\tnext\te{(i + 1) % ENTITIES}\n" for i in range(ENTITIES))
    config = config_of(folder, train__epochs=1)
    train(config, place / "transe")
    options = ["--model.dim=8", "--model.attribute_dim=8", "--train.epochs=1", "--experts.count=1"]
    assert main(["train", str(folder), f"--workdir={place / 'core'}", *options]) == 0
    return {"core": place / "core", "transe": place / "transe"}


@pytest.fixture(scope="module", params=["core", "transe"])
def predictor(request: pytest.FixtureRequest, workdirs: dict[str, Path]) -> Predictor:
    return load_trained(workdirs[request.param], lambda _: None).predictor()


def matrix_of(predictor: Predictor, relation: int) -> np.ndarray:
    """Scores [N, N] of all pairs (head, tail)."""
    heads = np.arange(predictor.graph.num_entities)
    return np.concatenate([block for _, block in predictor.scored_heads(heads, relation)])


@pytest.mark.parametrize("relation", [0, 1])
@pytest.mark.parametrize(
    ("known", "splits"), [("exclude", SPLITS), ("exclude", ("train",)), ("mark", SPLITS)]
)
def test_heads_are_ranked_as_counting_says(
    predictor: Predictor, relation: int, known: str, splits: tuple[str, ...]
) -> None:
    graph, scores = predictor.graph, matrix_of(predictor, relation)
    names = graph.vocabulary.entities
    settings = AnswerSettings(top=4, known=known, splits=splits)
    for tail in range(graph.num_entities):
        split_of = {
            int(fact[HEAD]): split
            for split in SPLITS[::-1]
            if split in splits
            for fact in graph.split(split)
            if fact[RELATION] == relation and fact[TAIL] == tail
        }
        asked = [head for head in range(len(names)) if known == "mark" or head not in split_of]
        column = scores[asked, tail]
        ranks = {
            names[head]: 1
            + np.sum(column > scores[head, tail])
            + (np.sum(column == scores[head, tail]) - 1) / 2
            for head in asked
        }
        frame = ask_heads(predictor, tail, relation, settings)
        assert len(frame) == min(4, len(asked)) and (np.diff(frame["score"]) <= 0).all()
        for row in frame.itertuples():
            head = names.index(row.head)
            assert row.rank == ranks[row.head] and row.score == pytest.approx(
                float(scores[head, tail]), rel=1e-6
            )
            assert row.known == split_of.get(head, "") and row.tail == names[tail]
        expected = score_triples(
            predictor, np.array([(names.index(h), relation, tail) for h in frame["head"]])
        )
        np.testing.assert_allclose(frame["probability"], expected["probability"])


def test_candidates_and_the_tail_itself(predictor: Predictor) -> None:
    settings = AnswerSettings(known="mark", candidates=np.array([2, 5]), exclude_self=True)
    assert set(ask_heads(predictor, 5, 0, settings)["head"]) == {predictor.graph.vocabulary.entities[2]}


def test_triples_have_the_scores_of_the_matrix_in_their_own_order(predictor: Predictor) -> None:
    rng = np.random.default_rng(0)
    triples = rng.integers((0, 0, 0), (ENTITIES, 2, ENTITIES), size=(200, 3))  # many of them repeat
    frame = score_triples(predictor, triples)
    assert list(frame.columns) == list(SCORE_COLUMNS) and len(frame) == 200
    matrices = [matrix_of(predictor, relation) for relation in (0, 1)]
    expected = [matrices[r][h, t] for h, r, t in triples]
    np.testing.assert_allclose(frame["score"], expected, rtol=1e-6)
    assert frame["relation"].tolist() == [("beat", "next")[r] for _, r, _ in triples]
    one = pd.concat([score_triples(predictor, triple[None]) for triple in triples[:10]], ignore_index=True)
    pd.testing.assert_frame_equal(frame[:10], one)
    assert len(score_triples(predictor, np.zeros((0, 3), int))) == 0


def test_the_likelier_one_of_a_comparison_is_the_same_both_ways(
    predictor: Predictor, request: pytest.FixtureRequest
) -> None:
    pairs = np.array([(h, 0, t) for h in range(ENTITIES) for t in range(ENTITIES)])
    frame, backwards = (score_triples(predictor, part) for part in (pairs, pairs[:, ::-1]))
    assert frame["likelier"].tolist() == backwards["likelier"].tolist()
    itself = frame["head"] == frame["tail"]
    assert (frame["likelier"][itself] == "").all()
    wins = frame["likelier"] == frame["head"]
    if "core" in request.node.name:
        total = frame["probability"] + backwards["probability"]
        np.testing.assert_allclose(total[~itself], 1.0)
        assert (wins[~itself] == (frame["probability"][~itself] > 0.5)).all()
    else:
        assert (wins[~itself] == (frame["score"] > backwards["score"])[~itself]).all()
    ring = score_triples(predictor, np.array([(h, 1, t) for h in range(3) for t in range(3)]))
    assert set(ring["likelier"]) == {""}, "a ring compares nothing"


# --- the command, and Python


@pytest.fixture
def command(workdirs: dict[str, Path], program: Program) -> Program:
    return functools.partial(program, "predict", f"--workdir={workdirs['core']}")


def test_a_tail_or_a_pair_is_answered_on_the_screen(command: Program) -> None:
    code, out, err = command("--tail=e4", "--relation=beat", "--known=mark", "--top=3")
    assert (code, err) == (0, "") and "?  beat  e4" in out and out.count("%") == 3
    code, out, err = command("--head=e8", "--tail=e0", "--relation=beat")
    assert (code, err) == (0, "") and "1 pair under beat  likelier: the likelier head of the two" in out
    assert [line.split()[:2] for line in out.splitlines() if "%" in line] == [["e8", "e0"]]
    code, out, _ = command("--head=e8", "--tail=e0", "--relation=next")
    assert code == 0 and "of the two" not in out


def test_at_most_20_pairs_are_shown(command: Program, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("".join(f"e{i % 9}\te{i % 7}\n" for i in range(23)))
    code, out, _ = command(f"--pairs={tmp_path / 'p.tsv'}", "--relation=beat")
    assert code == 0 and "23 pairs" in out and out.count("%") == 20
    assert "and 3 more: --out=FILE writes all" in out


def test_a_relation_has_a_column_only_beside_others(command: Program, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("e1\tbeat\te2\ne1\tnext\te2\n")
    code, out, _ = command(f"--pairs={tmp_path / 'p.tsv'}")
    assert code == 0 and [line.split()[1] for line in out.splitlines()[1:] if "e1" in line] == [
        "beat",
        "next",
    ]
    assert "2 pairs under" not in out


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("p.tsv", "e1\te2\r\n\ne8\te0\ne1\te2\n", ["--relation=beat"]),
        ("p.tsv", "\ufeffe1\tbeat\te2\ne8\tbeat\te0\ne1\tbeat\te2", []),
        ("p.csv", 'head,tail\n"e1",e2\ne8,e0\ne1,e2\n', ["--relation=beat"]),
        ("p.csv", "e1,beat,e2\ne8,beat,e0\ne1,beat,e2\n", []),
    ],
)
def test_a_file_of_pairs_is_scored_in_every_format(
    command: Program, workdirs: dict[str, Path], tmp_path: Path, suffix: str,
    name: str, text: str, more: list[str],
) -> None:  # fmt: skip
    (tmp_path / name).write_text(text, encoding="utf-8")
    out = tmp_path / f"a.{suffix}"
    assert command(f"--pairs={tmp_path / name}", f"--out={out}", *more)[0] == 0
    read = {
        "csv": functools.partial(pd.read_csv, keep_default_na=False),
        "json": pd.read_json,
        "jsonl": functools.partial(pd.read_json, lines=True),
        "parquet": pd.read_parquet,
    }[suffix]
    expected = Model.load(workdirs["core"]).score(
        [("e1", "beat", "e2"), ("e8", "beat", "e0"), ("e1", "beat", "e2")]
    )
    pd.testing.assert_frame_equal(read(out), expected, check_dtype=False, check_exact=False)
    if suffix == "json":
        assert list(json.loads(out.read_text())[0]) == list(SCORE_COLUMNS)


def test_mistakes_are_one_line(command: Program, tmp_path: Path) -> None:
    files = {
        "name.tsv": "e1\te2\ne1\tE3\n",
        "three.tsv": "e1\tbeat\te2\n",
        "mixed.tsv": "e1\tbeat\te2\n\ne1\te2\n",
        "relation.tsv": "e1\tbeats\te2\n",
        "one.tsv": "e1 beat e2\n",
        "empty.tsv": " \n",
        "quote.csv": 'e1,"e2\n',
        "titles.csv": "winner,loser\ne1,e2\n",
        "titles.tsv": "winner\tloser\ne1\te2\n",
        "half.csv": "e1,loser\n",
        "table.parquet": "PAR1",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    at, beat = f"--pairs={tmp_path}/", "--relation=beat"
    for arguments, part in (
        ([f"{at}name.tsv", beat], "name.tsv:2: there is no entity 'E3'; the closest: 'e3'"),
        ([f"{at}name.tsv"], "name.tsv:1: a pair has 2 columns (head, tail): give --relation=NAME as well"),
        ([f"{at}three.tsv", beat], "three.tsv:1: has 3 columns, with its relation: leave --relation out"),
        ([f"{at}mixed.tsv"], "mixed.tsv:3: a pair has 2 columns"),
        ([f"{at}relation.tsv"], "relation.tsv:1: there is no relation 'beats'; the closest: 'beat'"),
        ([f"{at}one.tsv", beat], "one.tsv:1: needs 2 or 3 tab-separated columns (head, tail, or"),
        ([f"{at}empty.tsv", beat], "empty.tsv: the file has no pairs"),
        ([f"{at}quote.csv", beat], "quote.csv:1: unexpected end of data; quote names as csv does"),
        ([f"{at}titles.csv", beat], "neither an entity 'winner' nor 'loser'; if these are the columns"),
        ([f"{at}titles.tsv", beat], "titles.tsv:1: there is neither an entity 'winner' nor 'loser'"),
        ([f"{at}half.csv", beat], "half.csv:1: there is no entity 'loser'"),
        ([f"{at}table.parquet", beat], "table.parquet: only text is read here, not .parquet; save it"),
        ([f"{at}absent.tsv", beat], "absent.tsv: cannot be read (No such file"),
        ([f"{at}name.tsv", "--relation=beet"], "--relation: there is no relation 'beet'; the closest"),
        ([f"{at}name.tsv", "--head=e1"], "--head has no meaning with --pairs=FILE, which has heads and"),
        ([f"{at}name.tsv", "--queries=x"], "--queries has no meaning with --pairs=FILE"),
        ([f"{at}name.tsv", f"--out={tmp_path / 'x.txt'}"], "the name must end in one of .csv, .json"),
        (["--tail=e77", beat], "--tail: there is no entity 'e77'; the closest: 'e7'"),
        (["--tail=e4"], "--relation is missing: a query is --head=NAME --relation=NAME"),
        ([beat], "--head is missing"),
        (["--head=e1", "--tail=e4", beat, "--candidates=e1"], "--candidates has no meaning with both"),
        (["--entities=x.csv", beat, "--level=0.5"], "--level has no meaning with a query"),
        ([f"{at}name.tsv", beat, "--level=0.5"], "--level has no meaning with a query"),
        (["--entities=x.csv", "--candidates=e1"], "--candidates has no meaning without --relation"),
        (["--entities=x.csv", "--exclude_self"], "--exclude_self has no meaning without --relation"),
        ([], "(or --tail and --relation, which ranks heads, or --pairs=FILE)"),
    ):  # fmt: skip
        code, shown, err = command(*arguments)
        assert (code, shown) == (2, ""), arguments
        assert part in err and err.count("\n") == 1, (arguments, err)


def test_the_same_from_python(workdirs: dict[str, Path]) -> None:
    model = Model.load(workdirs["core"])
    heads = model.predict(tail="e4", relation="beat", top=3)
    assert len(heads) == 3 and set(heads["tail"]) == {"e4"}
    table = pd.DataFrame({"tail": ["e0", "e2"], "head": ["e8", "e1"], "relation": "beat", "odds": 1.0})
    scored = model.score(table)
    pd.testing.assert_frame_equal(scored, model.score([("e8", "beat", "e0"), ("e1", "beat", "e2")]))
    assert scored["likelier"][0] == "e8" and scored["probability"][0] > 0.5
    for wrong, said in (
        ([("e1", "beat")], r"score: row 1 needs head, relation and tail, got \('e1', 'beat'\)"),
        (["e12"], "score: row 1 needs head, relation and tail, got 'e12'"),
        (table[["head", "tail"]], "score: no column 'relation'; needs head, relation, tail"),
        ([("e1", "beat", "E2")], "there is no entity 'E2'; the closest: 'e2'"),
    ):
        with pytest.raises(UserError, match=said):
            model.score(wrong)
    with pytest.raises(UserError, match="give a head or a tail; score"):
        model.predict("e1", "beat", tail="e2")
    with pytest.raises(UserError, match="give a head, a tail, or new_entities"):
        model.predict(relation="beat")
