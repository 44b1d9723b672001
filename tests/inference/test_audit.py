"""The audit of a run: silent about a sound one, and every fault that is put in is found by its own check."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.data.load import load_graph
from numcoke_jax.evaluation import evaluator, ranking
from numcoke_jax.inference import audit as audit_module
from numcoke_jax.inference.audit import FAULT, FINE, UNKNOWN, Finding, audit, counted_rank, metrics_of
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models.numcoke import NumCoKE
from numcoke_jax.runs import create as create_module
from numcoke_jax.runs.create import create_run
from tests.tiny_runs import config_of, numcoke, train, untrained, with_report, write_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("audit") / "graph", entities=14, relation="size_comp")


def audited(trained: Trained) -> dict[str, Finding]:
    return {finding.check: finding for finding in audit(trained, sample=30)}


def faults(trained: Trained) -> set[str]:
    return {name for name, finding in audited(trained).items() if finding.verdict == FAULT}


def leaking(monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: Any) -> Trained:
    """A run on the folder's graph with other arrays, as if its loader had a fault."""
    loaded = load_graph(config_of(folder).data)
    changed = dataclasses.replace(loaded, graph=dataclasses.replace(loaded.graph, **changes))
    config = config_of(folder)
    return with_report(untrained(config, create_run(config, changed)))


@pytest.mark.parametrize("selection", ["seen", "reversed"])
def test_a_sound_run_has_no_fault(folder: Path, selection: str) -> None:
    findings = audited(with_report(untrained(config_of(folder, eval__selection=selection))))
    assert {name for name, found in findings.items() if found.verdict == FAULT} == set()
    assert findings["ranks"].verdict == FINE and findings["ranks"].looked_at > 30
    assert findings["hidden fields"].verdict == UNKNOWN


@pytest.mark.parametrize(
    ("scores", "target", "left_out", "rank", "ties"),
    [
        ([3.0, 2.0, 1.0], 0, set(), 1.0, 0),
        ([3.0, 2.0, 1.0], 2, {0}, 2.0, 0),
        ([1.0, 1.0, 1.0, 1.0], 1, set(), 2.5, 3),
        ([1.0, 1.0, 2.0, 1.0], 1, {3}, 2.5, 1),
    ],
)
def test_ranks_counted_by_hand(
    scores: list[float], target: int, left_out: set[int], rank: float, ties: int
) -> None:
    assert counted_rank(scores, target, left_out) == (rank, ties)


def test_metrics_by_hand() -> None:
    found = metrics_of([1.0, 2.0, 4.0, 20.0])
    assert found["mrr"] == pytest.approx((1 + 0.5 + 0.25 + 0.05) / 4)
    assert (found["count"], found["mr"], found["hits@1"], found["hits@3"]) == (4, 6.75, 0.25, 0.5)


def test_a_filter_that_forgets_a_split_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ranking.selection_filter
    monkeypatch.setattr(
        evaluator, "selection_filter", lambda graph, rule: right(graph, "seen" if rule == "all" else rule)
    )
    assert {"filter: ranks", "ranks"} <= faults(with_report(untrained(config_of(folder))))


@pytest.mark.parametrize("rule", ["seen", "reversed"])
def test_a_selection_that_sees_the_test_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    right = ranking.selection_filter

    def leaks(graph: Any, asked: str) -> Any:
        told = dataclasses.replace(graph, train=np.concatenate([graph.train, graph.test]))
        return right(graph if asked == "all" else told, asked)

    monkeypatch.setattr(evaluator, "selection_filter", leaks)
    assert faults(with_report(untrained(config_of(folder, eval__selection=rule)))) == {"filter: selection"}


def test_a_selection_by_the_test_is_told(folder: Path) -> None:
    assert faults(with_report(untrained(config_of(folder, eval__selection="all")))) == {"filter: selection"}


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_ties_at_their_best_or_worst_rank_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    right = evaluator.filtered_ranks

    def unfair(encode: Any, score: Callable, *args: Any) -> Any:
        ranks = right(encode, score, *args)
        return ranks._replace(all=np.floor(ranks.all) if not share else np.ceil(ranks.all))

    trained = untrained(config_of(folder))
    tied = Trained(trained.run, jax.tree.map(jnp.zeros_like, trained.params))
    assert audited(with_report(tied))["ties"].verdict == FINE
    monkeypatch.setattr(evaluator, "filtered_ranks", unfair)
    assert {"ties", "ranks"} <= faults(with_report(tied))


def test_an_embellished_report_is_found(folder: Path) -> None:
    trained = with_report(untrained(config_of(folder)))
    assert trained.report and trained.report["test"]["mrr"]
    trained.report["test"]["mrr"] += 1e-6
    assert faults(trained) == {"report: test"}


def test_leaked_test_facts_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph(config_of(folder).data).graph
    train_too = np.concatenate([graph.train, graph.test[:2]])
    assert "splits" in faults(leaking(monkeypatch, folder, train=train_too))
    negatives = np.concatenate([graph.negatives, graph.test[:2]])
    assert "negatives: held-out facts" in faults(leaking(monkeypatch, folder, negatives=negatives))
    right = create_module.TrainBatches
    monkeypatch.setattr(
        create_module,
        "TrainBatches",
        lambda graph, **settings: right(dataclasses.replace(graph, train=graph.test), **settings),
    )
    assert faults(with_report(untrained(config_of(folder)))) == {"training labels"}


def test_a_negative_that_only_a_masked_value_gives_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_graph(config_of(folder).data).graph
    ids = {name: place for place, name in enumerate(graph.vocabulary.entities)}
    seen = set(map(tuple, graph.train.tolist()))
    masked = next(
        (ids["e4"], 0, ids[f"e{upper}"])
        for upper in range(5, 14)
        if (ids[f"e{upper}"], 0, ids["e4"]) not in seen
    )
    negatives = np.concatenate([graph.negatives, np.array([masked], np.int32)])
    assert faults(leaking(monkeypatch, folder, negatives=negatives)) == {"negatives: masked values"}


def test_values_that_are_shown_in_missing_cells_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = load_graph(config_of(folder).data).graph
    assert "masked values" in faults(leaking(monkeypatch, folder, values=graph.values + ~graph.observed))


def test_a_hidden_field_under_another_name_is_found(tmp_path: Path) -> None:
    graph = write_folder(tmp_path / "graph", entities=14, relation="size_comp")
    hidden = config_of(graph, data__hide=("size",))
    assert audited(with_report(untrained(hidden)))["hidden fields"].verdict == FINE
    literals = graph / "literals" / "numerical_literals.txt"
    lines = literals.read_text().splitlines()
    copies = [line.replace("\tsize\t", "\tlength\t-") for line in lines if "\tsize\t" in line]
    literals.write_text("\n".join([*lines, *copies]) + "\n")
    assert faults(with_report(untrained(hidden))) == {"hidden fields"}


def test_a_fit_that_reads_test_facts_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = numcoke(config_of(folder, score__order_core=True))
    run = create_run(config)
    assert faults(with_report(Trained(run, run.fresh_state().params))) == set()
    right = NumCoKE.fit

    def leaks(self: NumCoKE, graph: Any, *args: Any, **settings: Any) -> Any:
        told = dataclasses.replace(graph, train=np.concatenate([graph.train, graph.test]))
        return right(self, told, *args, **settings)

    monkeypatch.setattr(NumCoKE, "fit", leaks)
    assert faults(with_report(Trained(run, run.fresh_state().params))) == {"fit"}


def test_a_fit_may_learn_from_validation_facts_how_noisy_facts_are() -> None:
    cars = {"path": "", "table": "cars", "group_size": 30}
    config = numcoke(config_of(Path(), **{f"data__{key}": value for key, value in cars.items()}))
    config.score.order_core = True
    run = create_run(config)
    params, graph = run.fresh_state().params, run.graph
    again = run.refitted(params, run.programs.model, dataclasses.replace(graph, valid=graph.valid[:0]))
    assert not all(map(np.array_equal, jax.tree.leaves(params), jax.tree.leaves(again)))
    assert audited(with_report(Trained(run, params)))["fit"].verdict == FINE


def test_intervals_that_miss_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"path": "", "table": "synthetic", "synthetic_entities": 60, "synthetic_triples": 400}
    data |= {"synthetic_fields": 2, "synthetic_relations": 1, "missing_rate": 0.5}
    config = config_of(Path(), **{f"data__{key}": value for key, value in data.items()})
    trained = untrained(config)
    right = audit_module.impute

    def too_sure(*args: Any, **settings: Any) -> Any:
        told = right(*args, **settings)
        for cell in told["cells"]:
            cell["low_value"], cell["high_value"] = 0.0, 0.0
            cell["known_by"] = "values"
        return told

    assert audit_module.coverage_without_facts(trained).verdict != FAULT
    monkeypatch.setattr(audit_module, "impute", too_sure)
    finding = audit_module.coverage_without_facts(trained)
    assert finding.verdict == FAULT and finding.faults > 0.9 * finding.looked_at > 20


def test_the_command_says_what_it_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workdir = tmp_path / "run"
    train(config_of(folder, train__epochs=1), workdir)
    assert main(["audit", str(workdir), "--sample=20", "--no-cache"]) == 0
    shown = capsys.readouterr().out
    assert "No fault found in 14 checks" in shown
    title, *table = shown.splitlines()
    assert title == f"Audit of {workdir}"  # whole: it is to be copied
    assert max(map(len, table)) <= 80
    report = json.loads((workdir / "report.json").read_text())
    report["test"]["hits@10"] = 0.123
    (workdir / "report.json").write_text(json.dumps(report))
    assert main(["audit", str(workdir), "--sample=20", "--no-cache", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    assert [entry["check"] for entry in found["checks"] if entry["verdict"] == FAULT] == ["report: test"]
    assert main(["audit", str(workdir), "--sample=0"]) == 2
    assert "needs an integer >= 1" in capsys.readouterr().err
