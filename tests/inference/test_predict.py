"""Answers: known facts left out or marked, ranks of the evaluation, files, names that do not exist."""

import functools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from numcoke_jax.cli import use
from numcoke_jax.cli.query_files import read_queries
from numcoke_jax.data.graph import HEAD, RELATION, TAIL
from numcoke_jax.data.tail_index import TailIndex
from numcoke_jax.evaluation.calibration import Calibration
from numcoke_jax.evaluation.ranking import filtered_ranks
from numcoke_jax.inference import predict
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.inference.predict import AnswerSettings, Predictor, answer_columns, mean_ranks
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.system.errors import UserError
from tests.inference.conftest import Program
from tests.tiny_runs import config_of, train

pytestmark = pytest.mark.usefixtures("one_label_is_enough")
KNOWN_OF_QUAY = {"kiln": "train", "mast": "valid", "rope": "test"}


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run on case D10."""
    place = tmp_path_factory.mktemp("predict") / "run"
    case = Path(__file__).parents[1] / "cases" / "D10_predict_excludes_known"
    train(config_of(case, train__relations_per_step=2, train__epochs=2), place)
    return place


@pytest.fixture(scope="module")
def trained(workdir: Path) -> Trained:
    return load_trained(workdir, pytest.fail)


@pytest.fixture(scope="module")
def predictor(trained: Trained) -> Predictor:
    return trained.predictor()


def frame_of(predictor: Predictor, head: str, relation: str, **settings: Any) -> pd.DataFrame:
    names = predictor.graph.vocabulary
    query = np.array([[names.entities.index(head), names.relations.index(relation)]])
    return pd.DataFrame(answer_columns(predictor.answer(query, AnswerSettings(**settings)), query, names))


def test_known_facts_are_left_out_or_named_with_their_split(predictor: Predictor) -> None:
    """Case D10: of 8 entities, quay is known to be heavier than 3."""
    new = frame_of(predictor, "quay", "heavier_than")
    assert len(new) == 5 and not set(new["tail"]) & set(KNOWN_OF_QUAY) and set(new["known"]) == {""}
    shown = frame_of(predictor, "quay", "heavier_than", known="mark")
    assert len(shown) == 8
    marks = dict(zip(shown["tail"], shown["known"], strict=True))
    assert {tail: mark for tail, mark in marks.items() if mark} == KNOWN_OF_QUAY
    without_test = frame_of(predictor, "quay", "heavier_than", splits=("train", "valid"))
    assert set(without_test["tail"]) - set(new["tail"]) == {"rope"}
    assert "quay" not in set(frame_of(predictor, "quay", "heavier_than", exclude_self=True)["tail"])


def test_ranks_are_those_of_the_evaluation(trained: Trained, predictor: Predictor) -> None:
    graph, scorer = predictor.graph, trained.run.scorer
    sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
    for splits in ((), ("train",), ("train", "valid")):
        known = TailIndex.from_triples(*(graph.split(split) for split in splits), **sizes)
        ranks = filtered_ranks(
            functools.partial(scorer.encode, trained.params),
            functools.partial(scorer.score, trained.params),
            graph.test,
            known,
            graph.num_entities,
            scorer.chunk,
        )
        settings = AnswerSettings(splits=splits)
        answers = predictor.answer(graph.test[:, [HEAD, RELATION]], settings)
        for number, fact in enumerate(graph.test):
            mine = answers.rank[(answers.query == number) & (answers.tail == fact[TAIL])]
            assert mine.tolist() == [ranks.all[number]]


def test_answers_to_many_queries_are_those_to_each(predictor: Predictor) -> None:
    graph = predictor.graph
    rng = np.random.default_rng(0)
    queries = np.stack([rng.integers(graph.num_entities, size=40), rng.integers(2, size=40)], axis=1)
    settings = AnswerSettings(top=3)
    whole = pd.DataFrame(answer_columns(predictor.answer(queries, settings), queries, graph.vocabulary))
    parts = [
        pd.DataFrame(answer_columns(predictor.answer(query[None], settings), query[None], graph.vocabulary))
        for query in queries
    ]
    pd.testing.assert_frame_equal(whole, pd.concat(parts, ignore_index=True))


@pytest.mark.parametrize(("cells", "rows"), [(1, 1), (23, 2), (2**22, 3)])
def test_few_rows_are_ordered_at_once_and_their_number_changes_no_answer(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch, cells: int, rows: int
) -> None:
    """Of 8 entities 3 are scored at a time (eval.chunk): 23 numbers are two whole rows of them."""
    graph = predictor.graph
    queries = np.array([[head, relation] for head in range(graph.num_entities) for relation in (0, 1)])
    whole, ordered = predictor.answer(queries, AnswerSettings()), []

    def seen(descending: np.ndarray) -> np.ndarray:
        ordered.append(descending.shape)
        return mean_ranks(descending)

    monkeypatch.setattr(predict, "CELLS_RANKED", cells)
    monkeypatch.setattr(predict, "mean_ranks", seen)
    found = predictor.answer(queries, AnswerSettings())
    assert max(ordered) == (rows, 8)
    for name, column in vars(whole).items():
        np.testing.assert_array_equal(getattr(found, name), column)


def test_candidates_limit_the_answers_and_their_ranks(predictor: Predictor) -> None:
    names = predictor.graph.vocabulary.entities
    asked = np.array([names.index(name) for name in ("nail", "lamp", "kiln")])
    found = frame_of(predictor, "quay", "heavier_than", candidates=asked)
    assert set(found["tail"]) == {"nail", "lamp"}, "kiln is known"
    assert sorted(found["rank"]) in ([1, 2], [1.5, 1.5])


@given(arrays(np.int8, (3, 6), elements=st.integers(0, 3)))
def test_mean_ranks_by_loops(scores: np.ndarray) -> None:
    ordered = -np.sort(-scores.astype(float), axis=1)
    expected = [[1 + np.sum(row > x) + (np.sum(row == x) - 1) / 2 for x in row] for row in ordered]
    assert mean_ranks(ordered).tolist() == expected


def test_probabilities_are_the_calibrated_scores(
    trained: Trained, predictor: Predictor, workdir: Path
) -> None:
    stored = json.loads((workdir / "report.json").read_text())["calibration"]
    scale = stored["relations"]["heavier_than"]
    found = frame_of(predictor, "quay", "heavier_than", known="mark").set_index("tail")
    expected = 1 / (1 + np.exp(-(found["score"] - scale["shift"]) / scale["temperature"]))
    assert np.isnan(found["probability"]["kiln"]), "a training fact"
    told = found.drop(index="kiln")
    np.testing.assert_allclose(told["probability"], expected[told.index], rtol=1e-12)


def test_probabilities_are_unknown_of_new_entities_and_of_heads_unlike_those_of_validation(
    predictor: Predictor,
) -> None:
    names, stored = predictor.graph.vocabulary, predictor.calibration
    relation, quay = names.relations.index("heavier_than"), names.entities.index("quay")
    lamp = np.array([names.entities.index("lamp")])
    trained = predictor.graph.train[predictor.graph.train[:, RELATION] == relation, HEAD]
    idle = next(entity for entity in range(len(names.entities)) if entity not in trained)
    scale = stored.relations[relation]
    for entities, first, asked, known in (
        (8, 0, quay, True),
        (8, 0, idle, False),
        (8, 1, idle, True),
        (0, 1, idle, False),
    ):
        predictor.calibration = Calibration({relation: scale._replace(first=first)}, False, entities)
        try:
            found = predictor.probabilities(np.zeros(1), np.array([asked]), lamp, relation)
        finally:
            predictor.calibration = stored
        assert np.isfinite(found[0]) == known


def test_data_that_are_not_there_any_more_are_told_with_their_key(
    workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative data.path, from another folder; no flag of these modes could give another one."""
    moved = shutil.copytree(workdir, tmp_path / "run")
    stored = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps({**stored, "data.path": "graphs/quay"}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"config.json: there is nothing at data.path=graphs/quay, seen from /"
    ):
        load_trained(moved, pytest.fail)


def test_a_run_without_a_report_warns(workdir: Path, tmp_path: Path) -> None:
    (workdir / "report.json").rename(tmp_path / "report.json")
    try:
        warnings: list[str] = []
        assert not load_trained(workdir, warnings.append).calibration.relations
        assert len(warnings) == 1 and warnings[0].endswith("are unknown; numcoke eval writes it")
    finally:
        (tmp_path / "report.json").rename(workdir / "report.json")


def test_a_report_of_an_earlier_version_warns(workdir: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(workdir, tmp_path / "run")
    report = json.loads((moved / "report.json").read_text())
    report["calibration"] = {"kind": "global", "temperature": 1.0, "shift": 0.0, "relations": {}}
    (moved / "report.json").write_text(json.dumps(report))
    warnings: list[str] = []
    assert not load_trained(moved, warnings.append).calibration.relations
    assert len(warnings) == 1 and "of an earlier version: probabilities of scores are unknown" in warnings[0]


# --- the command


@pytest.fixture
def command(workdir: Path, program: Program) -> Program:
    """Runs --mode=predict on the run."""
    return functools.partial(program, "--mode=predict", f"--workdir={workdir}")


def test_a_query_is_answered_in_a_table_of_80_columns(command: Program) -> None:
    code, out, err = command("--head=quay", "--relation=heavier_than", "--known=mark", "--top=8")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert {"rank", "tail", "score", "probability", "known"} <= set(out.split())
    assert [line.split()[-1] for line in out.splitlines() if "kiln" in line] == ["train"]


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_a_file_of_queries_is_answered_in_every_format(
    command: Program, predictor: Predictor, tmp_path: Path, suffix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("numcoke_jax.cli.query_files.BLOCK", 2)  # several blocks
    queries, out = tmp_path / "q.tsv", tmp_path / f"a.{suffix}"
    queries.write_text("quay\theavier_than\r\n\nlamp\tnear\nquay\theavier_than\n")
    assert command(f"--queries={queries}", f"--out={out}", "--top=2")[0] == 0
    read = {
        "csv": functools.partial(pd.read_csv, keep_default_na=False, na_values={"probability": [""]}),
        "json": pd.read_json,
        "jsonl": functools.partial(pd.read_json, lines=True),
        "parquet": pd.read_parquet,
    }[suffix]
    parts = [
        frame_of(predictor, head, relation, top=2)
        for head, relation in (("quay", "heavier_than"), ("lamp", "near"), ("quay", "heavier_than"))
    ]
    expected = pd.concat(parts, ignore_index=True)
    pd.testing.assert_frame_equal(read(out), expected, check_dtype=False, check_exact=False)
    if suffix == "json":
        assert len(json.loads(out.read_text())) == len(expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", "q.tsv"]


def test_one_answer_is_of_one_query(command: Program, tmp_path: Path) -> None:
    queries, out = tmp_path / "q.tsv", tmp_path / "a.csv"
    queries.write_text("quay\theavier_than\n")
    assert f"answers to 1 query are in {out}" in command(f"--queries={queries}", f"--out={out}")[1]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("quay\tnear\n\nqu\u00e4y\tnear\n".encode("latin-1"), "3: byte 0xe4 at byte 3"),
        (b"quay\tnear\rlamp\tn\xc3\r", "2: byte 0xc3 at byte 7"),
        ("\u00e4".encode() + b"\xff\tnear\n", "1: byte 0xff at byte 3"),
        ("quay\tnear\n".encode("utf-16"), "1: byte 0xff at byte 1"),
    ],
)
def test_a_byte_of_another_encoding_is_told_with_its_line(
    command: Program, tmp_path: Path, content: bytes, place: str
) -> None:
    queries, out = tmp_path / "q.tsv", tmp_path / "a.csv"
    queries.write_bytes(content)
    code, _, err = command(f"--queries={queries}", f"--out={out}")
    assert (code, out.exists()) == (2, False)
    assert err.startswith(f"error: {queries}:{place} is not UTF-8; save the file as UTF-8")
    assert err.count("\n") == 1


def test_queries_may_come_through_a_pipe(command: Program, tmp_path: Path) -> None:
    """What `--queries=<(grep heavier queries.tsv)` gives can be read only once."""
    read, write = os.pipe()
    os.write(write, b"quay\theavier_than\nlamp\tnear\n")
    os.close(write)
    out = tmp_path / "a.csv"
    assert command(f"--queries=/dev/fd/{read}", f"--out={out}", "--top=2")[0] == 0
    os.close(read)
    assert pd.read_csv(out)["head"].tolist() == ["quay", "quay", "lamp", "lamp"]


def test_names_in_files_are_kept_to_the_letter(tmp_path: Path) -> None:
    from numcoke_jax.cli.answer_files import answer_writer
    from numcoke_jax.inference.predict import COLUMNS

    row = ('a "quoted", name', "r\u2028", 1.0, "\u00e9", 0.5, 0.25, "")
    frame = pd.DataFrame([row], columns=list(COLUMNS))
    for suffix in ("csv", "json", "jsonl", "parquet"):
        with answer_writer(tmp_path / f"x.{suffix}", COLUMNS) as write:
            write({name: frame[name].to_numpy() for name in COLUMNS})
    assert json.loads((tmp_path / "x.json").read_text()) == [dict(zip(COLUMNS, row, strict=True))]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "x.csv", keep_default_na=False), frame)


def test_lines_of_names_end_where_those_of_a_graph_do(tmp_path: Path) -> None:
    """LF, CRLF and CR, mixed; other separators belong to names; white space alone is blank."""
    names, file = ("a\u2028b", "c\x85d", "e\x0cf", " g "), tmp_path / "names.txt"
    file.write_bytes(b"\xef\xbb\xbf" + "a\u2028b\r\nc\x85d\re\x0cf\n \t \n\n g ".encode())
    found = use._names(["h", f"@{file}"])
    assert [name for name, _ in found] == ["h", *names]
    assert [where.rpartition(":")[2] for _, where in found[1:]] == ["1", "2", "3", "6"]
    file.write_bytes("".join(f"{name}\tr\r\n" for name in names).encode() + b" \t\r\n")
    entities, relations = NameIndex("entity", names), NameIndex("relation", ("r",))
    assert [block.tolist() for block in read_queries(file, entities, relations)] == [
        [[i, 0] for i in range(4)]
    ]


def test_mistakes_are_one_line_with_code_2(command: Program, tmp_path: Path) -> None:
    bad, missing, out = tmp_path / "bad.tsv", tmp_path / "absent.tsv", tmp_path / "out.csv"
    bad.write_text("quay\theavier_than\nquai\theavier_than\n")
    short, taken = tmp_path / "short.tsv", tmp_path / "taken.csv"
    short.write_text("quay heavier_than\n")
    (tmp_path / "none.txt").write_text(" \n\n")
    taken.write_text("mine")
    one = ["--head=quay", "--relation=near"]
    for arguments, part in (
        (["--head=Quay", "--relation=near"], "--head: there is no entity 'Quay'; the closest: 'quay'"),
        (["--head=quay", "--relation=heavier"], "no relation 'heavier'; the closest: 'heavier_than'"),
        (["--head=zzzz", "--relation=near"], "none of the 8 is similar; examples: 'kiln', 'lamp', 'mast'"),
        (["--head=quay"], "--relation is missing"),
        ([], "give either --head and --relation, or --queries=FILE"),
        ([*one, "--name=x"], "--name has no meaning without --entities=FILE"),
        ([*one, "--dates=year"], "--dates has no meaning without --entities=FILE, whose cells it reads"),
        ([*one, "--parse=numbers"], "--parse has no meaning without --entities=FILE, whose cells it reads"),
        ([*one, "--overwrite"], "--overwrite has no meaning without --out=FILE: nothing is written"),
        ([*one, "--top=0"], "--top: needs an integer >= 1, got 0"),
        ([*one, "--tpo=3"], "--tpo=3 is not a flag of numcoke predict; did you mean --top?"),
        ([*one, "--config.seed=1"], "--config.seed has no meaning with numcoke predict"),
        ([*one, "--known_splits=trian"], "trian is not one of train, valid, test"),
        ([*one, "--candidates=nial"], "--candidates: there is no entity 'nial'"),
        ([*one, f"--candidates=@{missing}"], "cannot be read (No such file"),
        ([*one, f"--candidates=@{tmp_path / 'none.txt'}"], "none.txt: the file has no names"),
        ([f"--queries={bad}"], "--queries needs --out=FILE"),
        ([f"--queries={bad}", f"--out={out}"], f"{bad}:2: there is no entity 'quai'; the closest: 'quay'"),
        ([f"--queries={short}", f"--out={out}"], "needs 2 tab-separated columns (head, relation), found 1"),
        ([f"--queries={missing}", f"--out={out}"], "cannot be read (No such file or directory)"),
        ([f"--queries={bad}", "--out=x.txt"], "--out=x.txt: the name must end in one of .csv, .json"),
        ([f"--queries={bad}", f"--out={taken}"], "already exists; give another name, or --overwrite"),
        ([*one, "--workdir=nowhere"], "nowhere: there is no such folder"),
        ([*one, f"--workdir={out.parent}"], "holds no run, no config.json; give that of a finished one"),
    ):  # fmt: skip
        code, shown, err = command(*arguments)
        assert (code, shown) == (2, ""), arguments
        assert part in err and err.startswith("error: ") and err.count("\n") == 1, (arguments, err)
    assert not out.exists() and taken.read_text() == "mine"


def test_the_closest_names_come_first() -> None:
    names = NameIndex("entity", ["amc gremlin", "ford pinto (1971)", "ford pinto (1974)", "FORD", "x"])
    assert names.closest("ford pinto")[:2] == ["ford pinto (1971)", "ford pinto (1974)"]
    assert names.closest("ford")[0] == "FORD"
    assert names.closest("amc gremlim") == ["amc gremlin"]
    with pytest.raises(UserError, match="^the entity is missing; give one of 5: 'amc gremlin', 'ford pinto"):
        names.id("")
    with pytest.raises(UserError, match="there is none$"):
        NameIndex("field", []).id("a")
