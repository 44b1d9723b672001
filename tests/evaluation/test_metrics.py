"""Metrics against hand numbers, and sums that do not depend on order."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.evaluation.metrics import rank_metrics

half_ranks = st.lists(st.integers(2, 400).map(lambda twice: twice / 2), max_size=50)


def test_hand_numbers():
    # ranks 1, 2.5, 3, 10.5: mrr = (1 + 2/5 + 1/3 + 2/21) / 4 = 192/105 / 4; mr = 17 / 4
    summary = rank_metrics(np.array([1.0, 2.5, 3.0, 10.5]))
    assert list(summary) == ["count", "mrr", "mr", "hits@1", "hits@3", "hits@10"]
    assert summary["count"] == 4
    assert summary["mrr"] == pytest.approx(192 / 105 / 4, rel=1e-15)
    assert summary["mr"] == 4.25
    assert (summary["hits@1"], summary["hits@3"], summary["hits@10"]) == (0.25, 0.75, 0.75)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_hits_count_ranks_up_to_k_and_no_more(k):
    assert rank_metrics(np.array([float(k)]))[f"hits@{k}"] == 1.0
    assert rank_metrics(np.array([k + 0.5]))[f"hits@{k}"] == 0.0


@given(half_ranks, st.randoms(use_true_random=False))
def test_order_of_ranks_does_not_change_a_bit(ranks, random):
    shuffled = ranks.copy()
    random.shuffle(shuffled)
    assert rank_metrics(np.array(ranks)) == rank_metrics(np.array(shuffled))


def test_no_queries_give_no_metrics_and_no_nan():
    summary = rank_metrics(np.array([]))
    assert summary["count"] == 0
    assert all(value is None for name, value in summary.items() if name != "count")
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize("bad", [0.5, -1.0, math.nan, math.inf])
def test_impossible_ranks_are_refused(bad):
    with pytest.raises(ValueError, match=f"ranks must be finite and at least 1, got .*{bad}"):
        rank_metrics(np.array([1.0, bad]))
