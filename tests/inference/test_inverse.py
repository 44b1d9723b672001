"""Runs with inverse relations: their reports, resumed ones, and that no reader takes one for a real one."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, LoadedGraph, NumericGraph
from numcoke_jax.inference.audit import FAULT, FINE, audit
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.frames import ask_heads
from numcoke_jax.inference.impute import impute
from numcoke_jax.inference.predict import AnswerSettings
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.unseen import NewEntities, extended_graph, rank_held_out
from tests.inference.decided_runs import decided
from tests.inference.imputed import Holes, run_of
from tests.tiny_runs import (
    assert_same_outcome,
    call_before,
    compiled_fast,
    config_of,
    outcome,
    stopped,
    terminate,
    train,
    untrained,
    with_report,
    write_folder,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("inverse") / "graph", entities=10)


@pytest.fixture(scope="module")
def straight(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The workdir of a finished run, and its report."""
    workdir = tmp_path_factory.mktemp("straight")
    train(config_of(folder, data__inverse=True, train__batch_size=8), workdir)
    return workdir, json.loads((workdir / "report.json").read_text())


def test_the_report_has_both_sides_of_the_facts_of_the_data(
    folder: Path, straight: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _, report = straight
    train(config_of(folder, train__epochs=1), tmp_path)
    without = json.loads((tmp_path / "report.json").read_text())
    assert report["protocol"]["facts"] == without["protocol"]["facts"], "inverse facts are no facts"
    assert report["protocol"]["inverse_relations"] and report["protocol"]["ranked"] == "tails and heads"
    assert report["environment"]["data_sha256"] == without["environment"]["data_sha256"]
    for split in ("valid", "test"):
        heads, tails, both = report[split]["heads"], report[split], report[split]["both"]
        assert both["count"] == 2 * tails["count"] == 2 * heads["count"] > 0
        assert both["mrr"] == pytest.approx((heads["mrr"] + tails["mrr"]) / 2)
        assert "both" not in without[split]
    assert list(report["relations"]) == ["higher"] and "unseen_relations" not in report
    assert sum(found["count"] for found in report["cardinalities"].values()) == report["test"]["count"]


def test_a_resumed_run_has_the_same_bits(
    folder: Path, straight: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    workdir, _ = straight
    run = create_run(config_of(folder, data__inverse=True, train__batch_size=8))

    @dataclasses.dataclass(frozen=True)
    class Stopping(type(run)):  # type: ignore[misc]
        """The run, with SIGTERM at its fourth step."""

        before: Any = dataclasses.field(default_factory=lambda: call_before(4, terminate, lambda: None))

        def step(self, *given: Any) -> Any:
            self.before()
            return super().step(*given)

    parts = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    stopped(Stopping(**parts), tmp_path)
    assert not (tmp_path / "report.json").exists()
    train(run, tmp_path)
    assert_same_outcome(outcome(run, tmp_path), outcome(run, workdir))


@pytest.mark.parametrize("selection", ["seen", "reversed"])
def test_the_audit_counts_both_sides_and_finds_no_fault(folder: Path, selection: str) -> None:
    config = config_of(folder, data__inverse=True, eval__selection=selection, train__negatives="reversed")
    trained = with_report(untrained(config))
    findings = {finding.check: finding for finding in audit(trained, sample=1000)}
    assert {name for name, found in findings.items() if found.verdict == FAULT} == set()
    graph = trained.run.graph
    assert findings["ranks"].verdict == FINE
    assert findings["ranks"].looked_at == 2 * (len(graph.valid) + len(graph.test))
    assert findings["training labels"].looked_at == len(graph.train) // 2


def test_an_inverse_fact_of_the_test_in_training_is_found_by_the_audit(folder: Path) -> None:
    trained = with_report(untrained(config_of(folder, data__inverse=True)))
    graph = trained.run.graph
    told = np.concatenate([graph.train, graph.inverse_facts(graph.test[:1])])
    loaded = dataclasses.replace(trained.run.loaded, graph=dataclasses.replace(graph, train=told))
    leaking = dataclasses.replace(trained, run=dataclasses.replace(trained.run, loaded=loaded))
    assert "splits" in {f.check for f in audit(leaking, sample=5) if f.verdict == FAULT}


def test_heads_are_asked_by_the_inverse_as_they_were_ranked(folder: Path) -> None:
    trained = untrained(config_of(folder, data__inverse=True))
    graph, predictor = trained.run.graph, trained.predictor()
    ranks = trained.run.evaluator.sides(trained.params, "test")["heads"].all
    names = graph.vocabulary.entities
    for (head, relation, tail), rank in zip(graph.test.tolist(), ranks, strict=True):
        every = graph.known("train", "valid", "test").tolist()
        known = {fact[0] for fact in every if fact[1:] == [relation, tail]}
        candidates = np.array([c for c in range(len(names)) if c == head or c not in known])
        settings = AnswerSettings(top=len(names), known="mark", candidates=candidates)
        frame = ask_heads(predictor, tail, relation, settings).set_index("head")
        assert frame.loc[names[head], "rank"] == rank and frame.loc[names[head], "known"] == "test"
        inverse = ask_heads(predictor, head, relation + graph.own_relations, AnswerSettings(known="mark"))
        assert dict(zip(inverse["head"], inverse["known"], strict=True))[names[tail]] == "test"
    head, relation, tail = graph.test[0].tolist()
    with compiled_fast():
        assert explain(trained, tail, relation + graph.own_relations, head)["known"] == "test"
    assert explain(trained, head, relation, tail)["known"] == "test"


@functools.cache
def runs_of_holes() -> tuple[Trained, Trained]:
    """A graph of comparisons that an order core decides, without and with inverses."""
    holes = Holes.drawn(0, count=40)
    relations = {"above": holes.pairs(0, 300), "other": holes.pairs(1, 300)}
    return decided(holes, relations), decided(holes, relations, data__inverse=True)


def test_an_inverse_of_a_comparison_costs_nothing_and_is_the_same_scale_downwards() -> None:
    plain, both = runs_of_holes()
    assert set(both.run.sizes.decided) == {0, 1, 2, 3} and both.run.nothing_to_train
    order, mirrored = plain.params["order_core"], both.params["order_core"]
    for name in order.keys() - {"field_weight"}:
        np.testing.assert_array_equal(order[name], mirrored[name], err_msg=name)
    np.testing.assert_array_equal(mirrored["field_weight"][2:], -mirrored["field_weight"][:2])
    heads = np.arange(both.run.graph.num_entities)
    for relation in (0, 1):
        scores = {
            r: np.concatenate([part for _, part in both.run.scorer.scored_heads(both.params, heads, r)])
            for r in (relation, relation + 2)
        }
        apart = ~np.eye(len(heads), dtype=bool)
        # (t, inverse, h) has the score of (h, r, t) up to the membership, which is that of the tail.
        members = np.asarray(mirrored["entity_membership"])[:, relation] > 0.99
        pairs = apart & members & members[:, None]
        np.testing.assert_allclose(
            scores[relation + 2].T[pairs], scores[relation][pairs], rtol=1e-3, atol=1e-2
        )
        assert pairs.sum() > 500


def test_the_mirrored_scale_is_the_one_that_is_fitted_to_turned_facts() -> None:
    """A graph that has "below" alone, whose facts are those of "above" turned around."""
    holes = Holes.drawn(3, count=40)
    pairs = holes.pairs(0, 300)
    both = decided(holes, {"above": pairs}, data__inverse=True)
    below = decided(holes, {"below": pairs[:, ::-1]})
    fitted, mirrored = (trained.params["order_core"] for trained in (below, both))
    np.testing.assert_allclose(fitted["entity_position"], -mirrored["entity_position"], atol=1e-3)
    np.testing.assert_allclose(fitted["entity_width"], mirrored["entity_width"], atol=1e-3)
    heads = np.arange(40)
    (_, expected), (_, found) = (
        next(trained.run.scorer.scored_heads(trained.params, heads[:3], relation))
        for trained, relation in ((below, 0), (both, 1))
    )
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3)


def test_imputation_reads_each_fact_once() -> None:
    holes = Holes.drawn(1, count=30)
    graph = holes.graph({"above": holes.pairs(0, 80)})
    found, expected = (impute(run_of(graph, data__inverse=inverse)) for inverse in (True, False))
    assert found == expected and found["fields"]["a"]["relations"] == ["above"]


def test_facts_of_new_entities_come_with_their_inverses() -> None:
    _, both = runs_of_holes()
    graph = both.run.graph
    new = graph.num_entities
    facts = np.array([[new, 0, 1], [2, 3, new]], np.int32)  # 3: "inverse of other"
    told = NewEntities(("n",), np.zeros((1, 2)), np.zeros((1, 2), bool), facts)
    more = extended_graph(graph, told).train[len(graph.train) :]
    assert {tuple(fact) for fact in more.tolist()} == {(new, 0, 1), (1, 2, new), (2, 3, new), (new, 1, 2)}


@pytest.mark.parametrize("name", ["rgcn", "kbln", "simgcl", "wgcn"])
def test_models_that_read_facts_are_told_each_once(folder: Path, name: str) -> None:
    """Both directions are made by the model; under an inverse KBLN has the centre with its sign changed."""
    runs = {
        inverse: create_run(config_of(folder, model__name=name, data__inverse=inverse))
        for inverse in (False, True)
    }
    np.testing.assert_array_equal(runs[True].literals.facts, runs[False].literals.facts)
    params = untrained(runs[True].config, runs[True]).params
    encoded = runs[True].scorer.encode(params, 1), runs[True].scorer.encode(params, 0)
    if name == "kbln":
        inverse, own = (part.numeric for part in encoded)
        np.testing.assert_allclose(inverse.centre, -own.centre, rtol=1e-6)
        np.testing.assert_allclose(inverse.width, own.width, rtol=1e-6)
        assert np.abs(own.centre).max() > 0.01
    if name == "rgcn":
        assert runs[True].sizes.relations == 2
        mixes = [leaf for path, leaf in jax.tree.leaves_with_path(params) if "mix" in str(path)]
        assert mixes and {len(mix) for mix in mixes} == {2}, "both directions of one relation"


def test_held_out_entities_are_ranked_with_inverses_too(folder: Path) -> None:
    config = config_of(folder, data__inverse=True, eval__inductive=0.3)
    run = create_run(config)
    assert run.held_out is not None
    held, graph = run.held_out.facts, run.graph
    assert held[:, RELATION].max() < graph.own_relations
    assert max(graph.train[:, HEAD].max(), graph.train[:, TAIL].max()) < graph.num_entities
    with compiled_fast():
        found = rank_held_out(run, untrained(config, run).params)
    assert found["count"] == len(held)


def test_a_class_of_values_has_no_inverse_that_is_read_off_a_value() -> None:
    """(entity, is, high) is read off the value; who is high is left to the encoder."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=40), np.zeros(2)])[:, None]
    observed = np.arange(42)[:, None] < 40
    facts = np.array([(e, 0, 40 + int(values[e, 0] > 0)) for e in range(40)], np.int32)
    names = Holes(values, observed).graph({"is": np.zeros((3, 2), np.int32)})
    graph = NumericGraph(names.vocabulary, facts[4:], facts[:2], facts[2:4], facts[:0], values, observed)
    config = config_of(Path("memory"), score__order_core=True, model__name="numcoke", data__inverse=True)
    config.attention.heads = 2
    run = create_run(config, LoadedGraph(graph, [], "memory"))
    assert run.sizes.classes == (0,) and not run.nothing_to_train
