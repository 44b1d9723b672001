"""Entities without training: taken out whole, ranked by attributes, the unknown vector in their place."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.files.numbers import Reading
from numcoke_jax.data.graph import HEAD, SPLITS, TAIL, LoadedGraph, NumericGraph, Vocabulary
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.variants import hold_out
from numcoke_jax.inference.new_entities import read_new_entities
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.runs import unseen
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.unseen import extended_graph, extended_params, rule_scores, rule_values
from numcoke_jax.system.errors import UserError
from tests.examples import compiled, config_with, facts, literals, model_and_parameters
from tests.tiny_runs import compiled_fast, config_of, untrained, write_folder

MODELS = ("numcoke", "rakge", "literale", "transe")


def ordered_graph(entities: int = 8) -> NumericGraph:
    """All pairs of a strict order by `size`, split over the three splits."""
    facts = np.array([[i, 0, j] for i in range(entities) for j in range(i)], np.int32)
    values = np.stack([np.arange(entities) * 1.5, np.arange(entities) % 3], axis=1)
    observed = np.ones(values.shape, bool)
    observed[0, 0] = False
    names = tuple(f"e{i}" for i in range(entities))
    return NumericGraph(
        Vocabulary(names, ("size_comp",), ("size", "noise")),
        facts[::2], facts[1::4], facts[3::4], facts[:2, [2, 1, 0]], np.where(observed, values, 0), observed,
    )  # fmt: skip


def named(graph: NumericGraph, facts: np.ndarray, names: tuple[str, ...]) -> set[tuple[str, str]]:
    return {(names[head], names[tail]) for head, _, tail in facts.tolist()}


@given(st.floats(0.13, 0.3), st.integers(0, 20))
def test_held_out_entities_leave_no_trace_and_no_fact_is_lost(share: float, seed: int) -> None:
    graph = ordered_graph()
    reduced, lost = hold_out(graph, share, seed)
    kept, out = set(reduced.vocabulary.entities), set(lost.names)
    assert kept | out == set(graph.vocabulary.entities) and not kept & out and len(out) == int(share * 8)
    assert list(reduced.vocabulary.entities) == sorted(kept)
    order = (*reduced.vocabulary.entities, *lost.names)
    whole = set().union(*(named(graph, graph.split(split), graph.vocabulary.entities) for split in SPLITS))
    left = set().union(*(named(reduced, reduced.split(split), order[: len(kept)]) for split in SPLITS))
    assert left == {pair for pair in whole if not out & set(pair)}
    assert named(graph, lost.facts, order) == whole - left
    for number, name in enumerate(order):
        values = np.concatenate([reduced.values, lost.values])[number]
        assert values.tolist() == graph.values[graph.vocabulary.entities.index(name)].tolist()


@pytest.mark.parametrize("share", [0.05, 0.99])
def test_a_share_that_leaves_one_side_empty_is_refused(share: float) -> None:
    with pytest.raises(
        UserError, match=rf"^eval\.inductive={share} holds out \d of 8 .*: give another share"
    ):
        hold_out(ordered_graph(), share, 0)


def test_the_rule_compares_raw_values_in_the_facts_direction() -> None:
    graph = ordered_graph()
    scores = np.asarray(rule_scores(rule_values(graph, 0), np.array([3, 0])))
    assert scores.tolist() == [[0, 1, 1, 0, -1, -1, -1, -1], [0] * 8], "0 has no value"
    turned = dataclasses.replace(graph, train=graph.train[:, [TAIL, 1, HEAD]])
    assert np.asarray(rule_scores(rule_values(turned, 0), np.array([3])))[0].tolist() == [
        0,
        -1,
        -1,
        0,
        1,
        1,
        1,
        1,
    ]


@functools.cache
def scored(name: str, unseen: int, dropout: float = 0.0) -> tuple[Any, np.ndarray]:
    """Parameters of a model of 5 entities, and its scores [5 + unseen, 5 + unseen] once extended."""
    size = {"model__dim": 12} if name == "conve" else {}  # an image that holds its filters
    config = config_with(model__name=name, train__entity_dropout=dropout, **size)
    _, params = model_and_parameters(config, GraphSizes(5, 2, 3))
    if dropout:
        params["unknown_entity"] = jax.numpy.arange(4.0)
    sizes = GraphSizes(5 + unseen, 2, 3)
    model: Any = create_model(config, sizes)
    model = model.clone(unseen=unseen) if hasattr(model, "unseen") else model
    drawn = dataclasses.replace(literals(sizes), facts=None)
    values = jax.tree.map(lambda leaf: leaf.at[:5].set(getattr_leaf(leaf)), drawn)
    values = dataclasses.replace(values, facts=facts(GraphSizes(5, 2, 3)))
    ids = np.arange(5 + unseen, dtype=np.int32)[None]
    call = functools.partial(model.apply, train=False)
    more = extended_params(params, unseen)
    logits, _ = compiled(call)({"params": more}, np.zeros(1, np.int32), ids, values)
    return more, np.asarray(logits[0])


def getattr_leaf(leaf: Any) -> Any:
    """The rows of the first five entities, the same for every number of entities."""
    rng = np.random.default_rng(leaf.shape[1])
    rows = rng.random((5, *leaf.shape[1:]))
    return (rows > 0.3) if leaf.dtype == bool else rows.astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_new_entities_change_no_score_between_the_others(name: str) -> None:
    _, before = scored(name, 0)
    more, after = scored(name, 2)
    np.testing.assert_allclose(after[:5, :5], before, rtol=1e-5, atol=1e-5)
    table = more["entity_embedding"] if "entity_embedding" in more else more["entities"]["embedding"]
    np.testing.assert_allclose(table[5:], np.tile(table[:5].mean(axis=0), (2, 1)), rtol=1e-6)


def test_the_unknown_vector_stands_for_new_entities_only() -> None:
    _, before = scored("numcoke", 0, 0.3)
    _, after = scored("numcoke", 2, 0.3)
    _, mean = scored("numcoke", 2)
    np.testing.assert_allclose(after[:5, :5], before, rtol=1e-5, atol=1e-5)
    assert np.abs(after[:, 5:] - mean[:, 5:]).max() > 0.01


def test_a_table_of_new_entities_is_read_by_the_names_of_its_columns() -> None:
    graph = ordered_graph()
    table = TableFile("new.csv", {"who": ["a", "b"], "color": ["x", "y"], "size": ["3", ""]})
    new, notices = read_new_entities(table, graph)
    assert new.names == ("a", "b") and notices == ["columns that are not fields of the graph: color"]
    related = TableFile("new.csv", {"who": ["a", "b"], graph.vocabulary.relations[0]: ["x", "y"]})
    with pytest.raises(
        UserError,
        match="^new.csv: no value of a field of the graph; its fields are .*; columns that are relations of "
        f"the graph, not read: {graph.vocabulary.relations[0]}; a new entity is known by its fields",
    ):
        read_new_entities(related, graph)
    assert new.values.tolist() == [[3.0, 0.0], [0.0, 0.0]]
    assert new.observed.tolist() == [[True, False], [False, False]]
    more = extended_graph(graph, new)
    assert more.vocabulary.entities[8:] == ("a", "b") and more.values[8].tolist() == [3.0, 0.0]
    assert read_new_entities(table, graph, ["who"])[0].names == new.names
    several = TableFile("new.csv", {"who": ["a", "a"], "year": ["7", "8"], "size": ["3", "4"]})
    new, notices = read_new_entities(several, graph, ["who", "year"])
    assert new.names == ("a, 7", "a, 8") and new.values[:, 0].tolist() == [3.0, 4.0] and notices == []
    behind = TableFile("new.csv", {"size": ["3", ""], "who": ["a", "b"]})
    assert read_new_entities(behind, graph, ["who"])[0].names == ("a", "b")


def test_a_column_of_a_hidden_field_says_what_hides_it(tmp_path: Path) -> None:
    trained = untrained(config_of(write_folder(tmp_path / "graph"), data__hide=("size",)))
    assert trained.names.fields.hidden == {"size": "data.hide"}
    with trained.run.config.unlocked():
        trained.run.config.data.hide = ()  # as where `NumericKG.from_facts` hides it
    assert dataclasses.replace(trained).names.fields.hidden == {"size": "the graph that it was given"}
    graph, hidden = ordered_graph(), {"mass": "data.hide"}
    columns = {"who": ["a"], "mass": ["7"], "size": ["3"]}
    new, notices = read_new_entities(TableFile("new.csv", columns), graph, hidden=hidden)
    assert notices == ["fields that are hidden from the model, not read: mass (by data.hide)"]
    assert new.values.tolist() == [[3.0, 0.0]]
    del columns["size"]
    with pytest.raises(
        UserError, match=r"no value of a field of the graph; .*; fields that are hidden .*: mass"
    ):
        read_new_entities(TableFile("new.csv", columns), graph, hidden=hidden)
    with pytest.raises(UserError, match="must name the entities but is 'mass', a field of the graph"):
        read_new_entities(TableFile("new.csv", {"mass": ["7"], "who": ["a"]}), graph, hidden=hidden)


def test_cells_are_read_as_the_table_says() -> None:
    """Written numbers and dates are none unless asked for, and then counted."""
    columns = {"who": ["a", "b"], "size": ["1,065", "$12"], "noise": ["2001-05-06", "1999"]}
    table = TableFile("new.csv", columns, reading=Reading("year", "numbers"))
    new, notices = read_new_entities(table, ordered_graph())
    assert new.values.tolist() == [[1065.0, 2001.0], [12.0, 1999.0]] and new.observed.all()
    assert len(notices) == 3 and notices[2] == "new.csv: noise: 1 of 2 values converted (dates read as years)"
    for reading, column in ((Reading("year"), "size"), (Reading(parse="numbers"), "noise")):
        with pytest.raises(UserError, match=f"^new.csv: column '{column}' must hold plain numbers"):
            read_new_entities(dataclasses.replace(table, reading=reading), ordered_graph())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"who": ["a", "a"], "size": [1, 2]}, "data row 2 ('a') repeats a name"),
        ({"who": ["e1"], "size": [1]}, "data row 1 ('e1') is in the graph already"),
        ({"who": [""], "size": [1]}, "data row 1 ('') has no name"),
        ({"who": ["a"], "size": ["tall"]}, "column 'size' must hold plain numbers or empty cells"),
        ({"who": ["a"], "size": ["1,065"]}, "; parse=numbers reads them"),
        ({"who": ["a"], "size": ["2001-05-06"]}, "(a date); dates=year or dates=days read them"),
        (
            {"size": [1, 2], "who": ["a", "b"]},
            "must name the entities but is 'size', a field of the graph; put",
        ),
        ({"who": ["a"], "siz": [1]}, "no value of a field of the graph; its fields are 'size', 'noise'"),
    ],
)
def test_a_wrong_table_is_told_by_row_or_column(columns: dict[str, list], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_new_entities(TableFile("new.csv", columns), ordered_graph())
    assert str(caught.value).startswith("new.csv: ") and message in str(caught.value)


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("", "has no title"),
        ("Unnamed: 0", "is called 'Unnamed: 0'"),
        ("__index_level_0__", "is called '__index_level_0__'"),
    ],
)
def test_row_numbers_that_pandas_saved_are_no_names(title: str, said: str) -> None:
    """They are what `DataFrame.to_csv` writes in front unless told otherwise."""
    table = TableFile("new.csv", {title: ["0", "1"], "who": ["a", "b"], "size": ["3", ""]})
    with pytest.raises(UserError) as caught:
        read_new_entities(table, ordered_graph())
    message = str(caught.value)
    assert message.startswith(f"new.csv: the first column must name the entities but {said}, like the row")
    assert "to_csv(..., index=False)" in message and "\n" not in message
    new, notices = read_new_entities(table, ordered_graph(), ["who"])
    assert new.names == ("a", "b") and notices == []
    if title:
        assert read_new_entities(table, ordered_graph(), [title])[0].names == ("0", "1")


@pytest.mark.slow
def test_ten_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a table to answers, with few epochs; then the model is loaded again and asked about a new car."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code = readme.partition("```python\n")[2].partition("```")[0]
    assert 0 < len([line for line in code.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    from numcoke_jax.config import presets

    short = {"train.epochs": 1, "model.dim": 8, "model.attribute_dim": 8}
    monkeypatch.setitem(presets.PRESETS, "numeric", {**presets.PRESETS["numeric"], **short})
    scope: dict[str, Any] = {}
    with compiled_fast():
        exec(compile(code, "README.md", "exec"), scope)
    answers = scope["answers"]
    assert isinstance(answers, pd.DataFrame) and len(answers) > 0
    assert list(answers.columns) == ["head", "relation", "rank", "tail", "score", "probability", "known"]
    loaded = scope["Model"].load(scope["model"].trained.run.config.data.path.removesuffix("/graph"))
    relation = answers["relation"][0]
    again = loaded.predict(head=answers["head"][0], relation=relation, top=len(answers))
    pd.testing.assert_frame_equal(again, answers)
    field = relation.removesuffix("_comp")
    new = loaded.predict(
        relation=relation, new_entities=pd.DataFrame({"Name": ["mine"], field: [100]}), top=3
    )
    assert set(new["head"]) == {"mine"} and len(new) == 3
    with pytest.raises(UserError, match="there is no entity 'frod pinto'; the closest: 'ford "):
        loaded.predict(head="frod pinto", relation=relation)


def test_facts_of_every_kept_split_are_no_rivals_of_held_out_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ordered_graph()
    config = config_of(Path(), eval__inductive=0.13)
    run = create_run(config, LoadedGraph(graph, [], "ordered"))
    assert run.held_out is not None and len(run.held_out.names) == 1
    masked: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    right = unseen.filtered_ranks

    def listened(encode: Any, score: Any, queries: np.ndarray, known: Any, *sizes: int) -> Any:
        heads = np.arange(graph.num_entities)
        masked.append((heads, known.mask(heads, np.zeros(len(heads), int), graph.num_entities), queries))
        return right(encode, score, queries, known, *sizes)

    monkeypatch.setattr(unseen, "filtered_ranks", listened)
    unseen.rank_held_out(run, untrained(config, run).params)
    order = (*run.graph.vocabulary.entities, *run.held_out.names)
    whole = set().union(*(named(graph, graph.split(split), graph.vocabulary.entities) for split in SPLITS))
    assert len(masked) == 2, "the model and the rule"
    for _, mask, queries in masked:
        assert {(order[head], order[tail]) for head, tail in np.argwhere(mask).tolist()} == whole
        assert len(queries) and named(graph, queries, order) < whole
    for split in SPLITS:
        assert len(run.graph.split(split)), "each of them is in the filter for nothing else"
