"""Patience on forced metrics."""

import dataclasses
import json
import math

import pytest

from numcoke_jax.runs.resume import PatienceState, Progress


def _run(metrics, patience):
    """Feed one metric an epoch (100 steps each); states by epoch, and the epoch that stopped or None."""
    state, states = PatienceState(), []
    for epoch, metric in enumerate(metrics, start=1):
        state, _ = state.update(metric, epoch=epoch, step=100 * epoch)
        states.append(state)
        if Progress(patience=state).stopped(patience):
            return states, epoch
    return states, None


def test_best_is_not_last():
    """Case E09_best_not_last: run 1 stops after epoch 4 and keeps epoch 2; run 2 rises to the end."""
    states, stopped = _run([0.2, 0.5, 0.4, 0.4], patience=2)
    assert stopped == 4
    assert states[-1] == PatienceState(best=0.5, best_epoch=2, best_step=200, bad=2)
    assert states[-1].reason() == "best validation 0.5000 at epoch 2; 2 since were not better"
    states, stopped = _run([0.1, 0.2, 0.3, 0.4], patience=2)
    assert stopped is None
    assert states[-1] == PatienceState(best=0.4, best_epoch=4, best_step=400, bad=0)


def test_an_equal_metric_is_no_improvement():
    state, improved = PatienceState(0.5, 1, 10, 0).update(0.5, epoch=2, step=20)
    assert (state, improved) == (PatienceState(0.5, 1, 10, 1), False)
    assert Progress(patience=state).stopped(1) and not Progress(patience=state).stopped(2)


def test_an_improvement_clears_the_count():
    states, stopped = _run([0.5, 0.4, 0.6, 0.5, 0.5], patience=2)
    assert [state.bad for state in states] == [0, 1, 0, 1, 2]
    assert stopped == 5


def test_a_first_metric_of_zero_is_an_improvement():
    state, improved = PatienceState().update(0.0, epoch=1, step=5)
    assert improved and state == PatienceState(0.0, 1, 5, 0)


def test_patience_zero_never_stops():
    states, stopped = _run([0.5] + [0.1] * 50, patience=0)
    assert stopped is None and states[-1].bad == 50


def test_without_validation_data_the_newest_state_is_best_and_nothing_stops():
    states, stopped = _run([None] * 5, patience=1)
    assert stopped is None
    assert states[-1] == PatienceState(None, best_epoch=5, best_step=500, bad=0)
    assert states[-1].reason() == "early stopping is off: there are no validation triples"
    assert PatienceState().update(None, epoch=1, step=1).improved


@pytest.mark.parametrize("metric", [math.nan, math.inf, -math.inf])
def test_a_non_finite_metric_raises(metric):
    with pytest.raises(FloatingPointError, match=f"metric is {metric} at epoch 3, step 30"):
        PatienceState(0.5, 2, 20, 0).update(metric, epoch=3, step=30)


def test_misuse_raises():
    with pytest.raises(ValueError, match="None at epoch 3, but was 0.5 at 2"):
        PatienceState(0.5, 2, 20, 0).update(None, epoch=3, step=30)


@pytest.mark.parametrize("state", [PatienceState(), PatienceState(0.1 + 0.2, 7, 700, 3)])
def test_json_round_trip_is_exact(state):
    assert PatienceState.from_json(json.loads(json.dumps(dataclasses.asdict(state)))) == state


def test_foreign_json_is_refused():
    with pytest.raises(ValueError, match=r"must have the keys \['bad', 'best', .*got \['best'\]"):
        PatienceState.from_json({"best": 0.5})
