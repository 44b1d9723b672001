"""Case folders about vocabularies, literals, ranking and relation names: each does what its expect.md says.

D01, D04 and D06 are in test_ranking.py, files and names in test_data_cases.py.
"""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numcoke_jax.inference.trained import load_trained
from numcoke_jax.runs import memory
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.loop import evaluate_only
from numcoke_jax.runs.report import build_report
from numcoke_jax.runs.resume import Progress
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.screen import Screen
from numcoke_jax.runs.stored import Report
from numcoke_jax.system.errors import UserError
from tests.case_runs import all_scores, case_copy, small, small_numcoke
from tests.tiny_runs import compiled_fast, config_of, snapshot, train, untrained, with_report

# B07: a vocabulary that changed after training


@pytest.fixture(scope="module")
def b07(cases_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case, and beside it its run."""
    root = tmp_path_factory.mktemp("b07")
    case = case_copy(cases_dir, "B07_vocab_changed_after_training", root / "case")
    train(small(case, train__epochs=1), root / "run")
    return root


@pytest.mark.parametrize(
    ("folder", "difference"),
    [
        ("after", "entities: number 0 was 'kiln', is 'anvil'"),
        ("renamed", "entities: number 0 was 'kiln', is 'kilo'"),
    ],
)
@pytest.mark.parametrize("known_by", ["vocabulary.json", "the checkpoint"])
def test_b07_other_names_are_refused_by_the_first_that_differs(
    b07: Path, tmp_path: Path, folder: str, difference: str, known_by: str
) -> None:
    """Also where all shapes match, and where only the checkpoint is left to tell."""
    shutil.copytree(b07 / "run", tmp_path / "run")
    if known_by == "the checkpoint":
        (tmp_path / "run" / "vocabulary.json").unlink()
        difference = "the facts or values it was trained on: sha256"
    before = snapshot(tmp_path / "run")
    changed = small(b07 / "case" / folder, train__epochs=1)
    for use in (
        lambda: evaluate_only(changed, tmp_path / "run", Screen(io.StringIO())),
        lambda: train(changed, tmp_path / "run"),
    ):
        with compiled_fast(), pytest.raises(UserError) as error:
            use()
        assert difference in str(error.value)
    assert snapshot(tmp_path / "run") == before


# C08: literals have an effect


def scores_first(run: Run, rank: Callable[..., Any], saved: list[np.ndarray]) -> Callable[..., Any]:
    """A validation that notes all scores before it ranks."""

    def for_selection(params: Any, before_chunk: Any = None) -> Any:
        saved.append(all_scores(run, params))
        return rank(params)

    return for_selection


@pytest.fixture(scope="module")
def c08(cases_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs with true, zeroed and no values: the run, its scores before the last save and after restoring."""
    root = tmp_path_factory.mktemp("c08")
    runs = {}
    for name, literals, control in (
        ("true", "", "true"),
        ("zeroed", "literals_zeroed.txt", "true"),
        ("off", "", "removed"),
        ("zeroed and off", "literals_zeroed.txt", "removed"),
    ):
        data = case_copy(cases_dir, "C08_literals_have_effect", root / f"{name} data", literals)
        config = small_numcoke(data, train__epochs=5, train__eval_every_epochs=5, data__control=control)
        saved: list[np.ndarray] = []
        run = create_run(config)
        rank = run.evaluator.for_selection
        run.evaluator.for_selection = scores_first(run, rank, saved)  # type: ignore[method-assign]
        train(run, root / name)
        trained = load_trained(root / name, pytest.fail)
        assert len(saved) == 1
        runs[name] = (run, saved[0], all_scores(trained.run, trained.params))
    return runs


@pytest.mark.slow
def test_c08_values_change_the_scores_and_without_values_they_do_not(c08: Any) -> None:
    scores = {name: restored for name, (_, _, restored) in c08.items()}
    assert np.abs(scores["true"] - scores["zeroed"]).max() > 1e-3
    assert np.abs(scores["true"] - scores["off"]).max() > 1e-3
    np.testing.assert_array_equal(scores["off"], scores["zeroed and off"])


@pytest.mark.slow
def test_c08_a_restored_model_scores_as_before_it_was_saved(c08: Any) -> None:
    for _, before, after in c08.values():
        np.testing.assert_array_equal(before, after)


# D03, D07: what the screen and the report say of the ranking


def reported(folder: Path) -> Report:
    """The report of a TransE with random parameters on a case folder."""
    trained = untrained(small(folder))
    with compiled_fast():
        return build_report(trained.run, trained.params, Progress(), complete=True)


def test_d03_the_screen_says_which_side_was_ranked(cases_dir: Path) -> None:
    report, screen = reported(cases_dir / "D03_direction_mask"), io.StringIO()
    assert report["protocol"]["ranked"] == "tails"
    Screen(screen).result_table(report)
    assert "Results  tails ranked, filtered" in screen.getvalue()


def test_d07_a_test_split_longer_than_train_is_ranked_whole(cases_dir: Path) -> None:
    assert reported(cases_dir / "D07_test_longer_than_train")["test"]["count"] == 9


# D11: memory of evaluation


def test_d11_ranking_memory_is_bounded_by_the_chunk(generated: Callable[[str, int], Path]) -> None:
    """20,000 entities, dim 200: nothing near 256 x 20000 x 200 x 4 B = 3.8 GiB."""
    folder = generated("D11_eval_memory", 20_000)
    need = {}
    for chunk in (16, 256):
        config = config_of(folder, model__dim=200, eval__chunk=chunk, train__epochs=1)
        run = create_run(config)
        with compiled_fast():
            need[chunk] = run.evaluator.memory(run.abstract_state.params)
    scores = 256 * 20_000 * 4
    assert need[256] < 256 * 20_000 * 200 * 4 / 20
    assert need[256] - need[16] < 8 * scores


def test_d11_too_much_is_refused_before_training_and_names_the_setting(
    generated: Callable[[str, int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dry run: 60 MiB of ranking do not fit into what is free; a smaller chunk does."""
    folder = generated("D11_eval_memory", 2000)
    config = config_of(folder, eval__chunk=1024, train__epochs=1)
    with compiled_fast():
        run = create_run(config)
        need = memory.check_memory(run, Screen(io.StringIO()))
        monkeypatch.setattr(memory, "available_bytes", lambda: max(need.step, need.ranking - 1))
        with pytest.raises(UserError) as error:
            train(run, tmp_path / "run")
    assert "ranking needs about" in str(error.value)
    assert "lower eval.chunk=1024 or model.dim=4" in str(error.value)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_d11_metrics_are_the_same_in_chunks(generated: Callable[[str, int], Path]) -> None:
    folder = generated("D11_eval_memory", 300)
    found = []
    for chunk in (300, 7):
        with compiled_fast():
            trained = with_report(untrained(config_of(folder, eval__chunk=chunk)))
        assert trained.report is not None
        found.append((trained.report["valid"], trained.report["test"]))
    assert found[0] == found[1] and found[0][1]["count"] > 1900


# D12: relations whose names look like generated inverses


def test_d12_relations_are_kept_as_given_and_none_is_generated(cases_dir: Path) -> None:
    folder = cases_dir / "D12_inverse_relation_names"
    report, names = reported(folder), create_run(small(folder)).graph.vocabulary
    assert names.relations == ("inverse_near", "near", "near_inv", "near_reverse")
    assert report["test"]["count"] == 1
    rows = [line for line in (folder / "train.txt").read_text().splitlines() if line]
    assert report["protocol"]["facts"] == {"train": len(set(rows)), "valid": 1, "test": 1}
    assert report["protocol"]["inverse_relations"] is False
