"""Case folders about training, resuming, seeds and workdirs: each does what its expect.md says.

Wrong overrides (F04) are in test_main.py.
"""

import dataclasses
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.evaluation.ranking import summaries
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.runs import memory
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.runs.loop import train_and_evaluate
from numcoke_jax.runs.resume import checkpoints_of
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.system.errors import UserError
from numcoke_jax.training.losses.binary_cross_entropy import smoothed_targets
from tests.case_runs import case_copy, on_device, small, small_numcoke
from tests.runs.test_resume import stopping
from tests.tiny_runs import (
    REPOSITORY,
    arrays_of,
    assert_same_outcome,
    compiled_fast,
    config_of,
    flags_of,
    numcoke,
    outcome,
    snapshot,
    stopped,
    train,
    without_times,
    write_folder,
)

# B01 and relations: what training never saw


def test_facts_of_a_relation_without_a_training_fact_are_named_and_in_no_metric(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "graph")
    with open(folder / "test.txt", "a") as file:
        file.write("e0\tstranger\te1\ne1\tstranger\te2\n")
    with open(folder / "valid.txt", "a") as file:
        file.write("e2\tstranger\te0\ne3\thigher\tnew\n")
    run = create_run(small(folder))
    screen = io.StringIO()
    with compiled_fast():
        report = dict[str, Any](train_and_evaluate(small(folder), tmp_path / "run", Screen(screen)))
    assert report["unseen_relations"] == {"stranger": {"valid": 1, "test": 2}}
    assert list(report["relations"]) == ["higher"] == list(report["order"]["relations"])
    for split, left_out in (("valid", 1), ("test", 2)):
        assert report[split]["count"] == len(run.graph.split(split)) - left_out
        assert report["protocol"]["facts"][split] == len(run.graph.split(split))
    assert report["relations"]["higher"].pop("cardinality") == "n-n"
    assert report["test"] == {**report["relations"]["higher"], "exclude_self": report["test"]["exclude_self"]}
    assert report["order"]["all"]["count"] == report["test"]["count"]
    said = "facts of such relations are left out of all metrics"
    assert said in " ".join(screen.getvalue().split())
    assert run.judged.train is run.graph.train and run.judged.vocabulary == run.graph.vocabulary


def test_a_graph_without_fields_trains_with_the_order_core(cases_dir: Path, tmp_path: Path) -> None:
    """As shipped: what the core infers is stored also where there is no field to compare."""
    config = numcoke(small(cases_dir / "G_literal_names_without_namespace"))
    config.score.order_core, config.train.entity_dropout = True, 0.2
    screen = io.StringIO()
    with compiled_fast():
        report = train_and_evaluate(config, tmp_path / "run", Screen(screen))
    assert "the order core decides every relation" in screen.getvalue()
    assert "warning: literals: NO row belongs to an entity of the facts" in screen.getvalue()
    assert report["test"]["count"] == 8 and "compared_fields" not in report


# E01: label smoothing


@pytest.mark.parametrize(
    ("smoothing", "targets"), [(0.1, [0.05, 0.95]), (0.0, [0.0, 1.0]), (1.0, [0.5, 0.5])]
)
def test_e01_targets_of_two_entities(smoothing: float, targets: list[float]) -> None:
    np.testing.assert_allclose(smoothed_targets(jnp.array([False, True]), smoothing), targets, atol=1e-7)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1])
def test_e01_a_smoothing_outside_the_range_is_refused(
    cases_dir: Path, smoothing: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"label smoothing must be in \[0, 1\]"):
        smoothed_targets(jnp.array([False, True]), smoothing)
    data = f"--config.data.path={cases_dir / 'E01_label_smoothing'}"
    assert main(["--config=configs/cars.py", data, f"--config.train.label_smoothing={smoothing}"]) == 2
    assert capsys.readouterr().err == (
        f"error: train.label_smoothing={smoothing} is out of range: needs a number >= 0 and <= 1\n"
    )


@pytest.mark.parametrize("loss", ["bce", "cross_entropy"])
def test_e01_the_loss_changes_with_the_option(loss: str, cases_dir: Path, tmp_path: Path) -> None:
    losses = set()
    for smoothing in (0.0, 0.1):
        changes = {"train__epochs": 1, "train__loss": loss, "train__label_smoothing": smoothing}
        with compiled_fast():
            run = create_run(small(cases_dir / "E01_label_smoothing", **changes))
            state, _ = run.step(run.fresh_state(), run.batch(0))
        losses.add(float(state.losses.bce_sum))
    assert len(losses) == 2
    train(run, tmp_path)
    assert np.isfinite(read_metrics(tmp_path / "metrics.jsonl")[0][loss])


# E03: a loss that is not finite


@pytest.mark.slow
def test_e03_a_mad_learning_rate_stops_the_run_and_keeps_the_last_finite_checkpoint(
    cases_dir: Path, tmp_path: Path
) -> None:
    """At 1e6 weights pass float32 within 300 steps: 1e6 a step and entry, squared by the order term."""
    folder = cases_dir / "E03_loss_becomes_nan"
    config = small_numcoke(folder, train__epochs=2000, train__learning_rate=1e6, train__schedule="constant")
    with pytest.raises(
        FloatingPointError,
        match=r"^(step \d+|validation after step \d+|after step \d+ not finite.*) \(epoch \d+, learning rate "
        r"1e\+06\).*lower train.learning_rate=1e\+06 or set train.clip_norm.*checkpoint \d+ is kept",
    ):
        train(config, tmp_path)
    with checkpoints_of(create_run(config), tmp_path) as checkpoints:
        kept, faults = checkpoints.restore_newest()
    assert kept is not None and faults == []
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept.state.params))
    assert not (tmp_path / "report.json").exists()
    for line in read_metrics(tmp_path / "metrics.jsonl"):
        assert line.get("mrr") != 1.0 and None not in line.values()


@pytest.mark.slow
def test_e03_with_an_ordinary_learning_rate_the_loss_falls(cases_dir: Path, tmp_path: Path) -> None:
    config = small_numcoke(
        cases_dir / "E03_loss_becomes_nan", train__epochs=8, train__learning_rate=1e-3, score__dropout=0.0
    )
    config.experts.noise = False
    train(config, tmp_path)
    losses = [line["bce"] for line in read_metrics(tmp_path / "metrics.jsonl") if line["kind"] == "train"]
    assert all(np.isfinite(losses)) and losses[-1] < losses[0]


# E04: heads without negatives


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["neg.txt", "neg_empty.txt", "literals_zeroed.txt"])
def test_e04_losses_and_gradients_stay_finite(cases_dir: Path, tmp_path: Path, variant: str) -> None:
    """Every step looks at its loss terms and at the norm of its gradient: one that is not finite raises."""
    literals = variant if variant.startswith("literals") else ""
    folder = case_copy(cases_dir, "E04_heads_without_negatives", tmp_path / "case", literals)
    if variant == "neg_empty.txt":
        shutil.copy(folder / variant, folder / "neg.txt")
    train(small_numcoke(folder, train__epochs=3), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "train"]
    assert len(lines) == 3
    assert all(np.isfinite([line["bce"], line["contrastive"]]).all() for line in lines)


@pytest.mark.slow
def test_e04_the_term_is_a_mean_over_pairs_with_negatives_and_0_where_there_are_none(cases_dir: Path) -> None:
    """With every entity but the head linked, no pair has a negative: sum and count are exactly 0."""
    run = create_run(small_numcoke(cases_dir / "E04_heads_without_negatives"))
    state = run.fresh_state()
    batch = on_device(run.batches.batch(0))
    heads = np.asarray(batch.heads)[..., None]
    all_linked = np.arange(run.graph.num_entities) != heads
    nothing = np.zeros_like(batch.negatives)

    def term(labels: np.ndarray) -> tuple[float, float]:
        changed = on_device(dataclasses.replace(batch, labels=labels, negatives=nothing))
        losses = run.programs.objective.losses
        with compiled_fast():
            total, terms = losses(
                state.params, changed, run.literals, model=run.programs.model, key=jax.random.key(0)
            )
        assert np.isfinite(total)
        return float(terms["contrastive"][0]), float(terms["contrastive"][1])

    pairs = int(np.sum(batch.mask))
    one_linked = np.asarray(batch.mask)[..., None] & (np.cumsum(all_linked, axis=-1) == 1) & all_linked
    assert term(one_linked)[1] == pairs
    assert term(all_linked) == (0.0, 0.0)
    mixed = all_linked.copy()
    mixed[0, 0] = one_linked[0, 0]
    assert term(mixed)[1] == 1.0


# E09: the best epoch is not the last one


def with_validation(run: Run, sequence: list[float], order: list[str]) -> Run:
    """The same run whose validations give these MRRs; `order` notes what is ranked, one after the other."""
    metrics = {"mr": 9.0, "hits@1": 0.0, "hits@3": 0.0, "hits@10": 0.0, "count": 2}
    forced = iter(sequence)

    def for_selection(params: Any, before_chunk: Any = None) -> Any:
        order.append("selection")
        return {"all": {**metrics, "mrr": next(forced)}, "exclude_self": {**metrics, "mrr": 0.0}}

    rank = run.evaluator._rank

    def watched(params: Any, split: str, *rest: Any) -> Any:
        order.append(split)
        return rank(params, split, *rest)

    run.evaluator.for_selection = for_selection  # type: ignore[method-assign]
    run.evaluator._rank = watched  # type: ignore[assignment, method-assign]
    return run


def test_e09_the_best_epoch_is_reported_restored_and_loaded(cases_dir: Path, tmp_path: Path) -> None:
    """0.2, 0.5, 0.4, 0.4 with patience 2: stops after epoch 4 and uses epoch 2 everywhere."""
    config = small(cases_dir / "E09_best_not_last", train__epochs=9, train__patience=2, checkpoint__keep=1)
    order: list[str] = []
    run = with_validation(create_run(config), [0.2, 0.5, 0.4, 0.4], order)
    report, screen = train(run, tmp_path / "run")
    assert report["best_epoch"] == 2
    assert "stopped early: best validation 0.5000 at epoch 2; 2 since were not better" in screen
    assert order == ["selection"] * 4 + ["valid", "test"], "test data are ranked at the end only"
    two = small(cases_dir / "E09_best_not_last", train__epochs=2)
    train(two, tmp_path / "two")
    with checkpoints_of(create_run(two), tmp_path / "two") as checkpoints:
        newest, _ = checkpoints.restore_newest()
    assert newest is not None
    epoch_two = arrays_of(newest.state)
    trained = load_trained(tmp_path / "run", pytest.fail)
    best = arrays_of(newest.state.replace(params=trained.params))
    assert best == epoch_two
    found = summaries(trained.run.evaluator.sides(trained.params, "test")["tails"])["all"]
    assert {name: report["test"][name] for name in ("mrr", "mr")} == {
        name: found[name] for name in ("mrr", "mr")
    }


def test_e09_a_rising_metric_never_stops_and_an_equal_one_is_no_improvement(
    cases_dir: Path, tmp_path: Path
) -> None:
    config = small(cases_dir / "E09_best_not_last", train__epochs=4, train__patience=1)
    report, screen = train(with_validation(create_run(config), [0.1, 0.2, 0.3, 0.4], []), tmp_path / "rising")
    assert report["best_epoch"] == 4 and "stopped early" not in screen
    report, screen = train(with_validation(create_run(config), [0.3, 0.3], []), tmp_path / "equal")
    assert report["best_epoch"] == 1 and "stopped early" in screen


# E10: resumed equals straight


@pytest.mark.slow
def test_e10_three_epochs_a_stop_in_the_fourth_and_the_rest_are_six(cases_dir: Path, tmp_path: Path) -> None:
    config = small_numcoke(cases_dir / "E10_resume_equals_straight", train__epochs=6)
    run = create_run(config)
    train(run, tmp_path / "straight")
    steps = run.batches.steps_per_epoch
    train(small_numcoke(Path(config.data.path), train__epochs=3), tmp_path / "resumed")
    stopped(stopping(run, 1), tmp_path / "resumed")
    with checkpoints_of(run, tmp_path / "resumed") as checkpoints:
        assert checkpoints.names()[-1].step == 3 * steps + 1, "in epoch 4"
    train(run, tmp_path / "resumed")
    assert_same_outcome(outcome(run, tmp_path / "resumed"), outcome(run, tmp_path / "straight"))
    epochs = [line["epoch"] for line in read_metrics(tmp_path / "resumed" / "metrics.jsonl")]
    assert epochs == [epoch for epoch in range(1, 7) for _ in ("train", "valid")]
    before = snapshot(tmp_path / "resumed")
    changed = small_numcoke(Path(config.data.path), train__epochs=6, model__dim=6, model__attribute_dim=6)
    with pytest.raises(UserError, match=r"model.attribute_dim=4 there, 6 now; model.dim=4 there, 6 now"):
        train(changed, tmp_path / "resumed")
    assert snapshot(tmp_path / "resumed") == before


# E11: seed and device


@pytest.mark.slow
def test_e11_the_same_seed_gives_the_same_bits_and_every_stream_follows_the_seed(
    cases_dir: Path, tmp_path: Path
) -> None:
    folder = cases_dir / "E11_seed_and_device"
    outcomes = []
    for name, seed in (("first", 5), ("second", 5), ("third", 6)):
        config = small_numcoke(folder, train__epochs=2, seed=seed)
        report, _ = train(config, tmp_path / name)
        outcomes.append(outcome(config, tmp_path / name))
    assert_same_outcome(outcomes[1], outcomes[0])
    assert outcomes[2]["state"] != outcomes[0]["state"]
    environment = report["environment"]
    assert report["seed"] == 6
    assert environment["packages"]["jax"] == jax.__version__
    assert environment["device_kind"] == jax.devices()[0].device_kind
    assert environment["prng_implementation"] == "threefry2x32"
    assert environment["prng_partitionable"] is True
    assert environment["xla_flags"] == os.environ["XLA_FLAGS"]


@pytest.mark.slow
def test_e11_shuffling_dropout_noise_and_mixing_change_with_the_seed_alone(cases_dir: Path) -> None:
    """From equal parameters, another seed gives another order of queries and another loss of one batch."""
    runs = {seed: create_run(small_numcoke(cases_dir / "E11_seed_and_device", seed=seed)) for seed in (5, 6)}
    steps = range(runs[5].batches.steps_per_epoch)
    orders = {seed: [run.batches.batch(step).heads.tolist() for step in steps] for seed, run in runs.items()}
    assert orders[5] != orders[6]
    state, batch = runs[5].fresh_state(), on_device(runs[5].batches.batch(0))
    terms = []
    for seed in (5, 6, 5):
        with compiled_fast():
            _, losses = runs[5].programs.objective.losses(
                state.params, batch, runs[5].literals, model=runs[5].programs.model, key=jax.random.key(seed)
            )
        terms.append({name: float(summed) for name, (summed, _) in losses.items()})
    assert terms[0] == terms[2]
    assert all(terms[0][name] != terms[1][name] for name in ("bce", "contrastive"))


# E12: many relations


def test_e12_the_size_is_told_before_anything_is_allocated(
    generated: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix a relation: 5000 x 200 x 200 x 4 B = 0.75 GiB; Adam's moments triple it."""
    folder = generated("E12_many_relations", 5000)
    config = numcoke(config_of(folder, train__relations_per_step=0, train__batch_size=256))
    config.model.dim = config.model.attribute_dim = 200
    run = create_run(config)
    shapes = [leaf.shape for leaf in jax.tree.leaves(run.abstract_state.params)]
    assert (5000, 200, 200) in shapes
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    screen = io.StringIO()
    with pytest.raises(UserError, match=r"with the optimiser's moments need about 2.\d\d GiB, but"):
        memory.check_memory(run, Screen(screen))
    assert "parameters 0.7" in screen.getvalue() and "with the optimiser's moments 2." in screen.getvalue()


@pytest.mark.slow
def test_e12_five_thousand_relations_train(generated: Callable[[str, int], Path], tmp_path: Path) -> None:
    folder = generated("E12_many_relations", 5000)
    config = config_of(folder, train__epochs=1, train__batch_size=256, train__relations_per_step=0)
    config.model.dim = config.model.attribute_dim = 32
    run = create_run(config)
    assert (run.batches.relations_per_step, run.batches.steps_per_epoch) == (256, 20)
    report, screen = train(run, tmp_path)
    assert report["test"]["count"] == 1
    assert "parameters " in screen


# F01: a workdir that is used again, by a relative path


def test_f01_a_relative_workdir_again_again_with_resume_and_with_fewer_epochs(
    cases_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = small(cases_dir / "F01_workdir_reuse_and_relative")
    report, _ = train(config, Path("run"))
    before = snapshot(tmp_path / "run")
    again, screen = train(config, Path("./run"))
    assert "the run is complete at step" in screen and without_times(again) == without_times(report)
    with pytest.raises(UserError, match="train.epochs=2 is less than the run has already done"):
        train(small(cases_dir / "F01_workdir_reuse_and_relative", train__epochs=2), Path("run"))
    assert snapshot(tmp_path / "run") == before and os.listdir(tmp_path) == ["run"]


# F04: overrides


def test_f04_an_integer_for_a_number_is_taken_and_the_effective_config_shown_and_stored(
    cases_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    config = small(cases_dir / "F04_config_overrides", train__epochs=1)
    arguments = [*flags_of(config, tmp_path / "run"), "--config.train.learning_rate=1"]
    with compiled_fast():
        assert main(arguments) == 0
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["train.learning_rate"] == 1.0 and stored["train.epochs"] == 1
    assert "learning_rate=1.0" in " ".join(capsys.readouterr().out.split())
