"""Positions from facts: integrals over all positions, truncated normals, simulated comparisons."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from numcoke_jax.models.order_core.propagation import Beliefs
from numcoke_jax.models.order_core.value_prior import ValuePrior
from tests.models.order_core.problems import Pairs, believed, drawn
from tests.oracles import order_core as oracle

STANDARD = (0.0, 1.0)

# Facts, number of entities, tolerance of means and widths.  One fact is one factor, which is matched exactly
# up to where sweeps stop.  In a tree the cavities of a fact's ends are independent, only their shape is
# approximate.  In a clique they are not: facts that share both neighbours count partly twice.
PROBLEMS: dict[str, tuple[Pairs, int, float]] = {
    "one fact": ([(0, 1)], 2, 1e-3),
    "one fact and a bystander": ([(2, 0)], 3, 1e-3),
    "chain of three": ([(0, 1), (1, 2)], 3, 4e-3),
    "chain of four": ([(0, 1), (1, 2), (2, 3)], 4, 4e-3),
    "star": ([(0, 1), (0, 2), (0, 3)], 4, 1e-2),
    "clique of three": ([(0, 1), (1, 2), (0, 2)], 3, 0.05),
    "clique of four": (list(itertools.combinations(range(4), 2)), 4, 0.08),
}


@pytest.mark.parametrize("noise", [0.2, 1.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_beliefs_are_close_to_the_integral_over_all_positions(name: str, noise: float) -> None:
    pairs, count, tolerance = PROBLEMS[name]
    found = believed(pairs, count, noise=noise)
    points = 31 if count == 4 else 121
    mean, width, _ = oracle.posterior(pairs, [STANDARD] * count, noise=noise, points=points)
    np.testing.assert_allclose(found.mean, mean, atol=tolerance)
    np.testing.assert_allclose(found.width, width, atol=tolerance)


def test_known_and_unknown_positions_agree_with_the_integral() -> None:
    """Five entities, two of them known; facts between all kinds of pairs."""
    pairs = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 3), (1, 3)]
    known = {0: 1.0, 3: -0.8}
    prior = [(known[i], 0.0) if i in known else STANDARD for i in range(5)]
    found = believed(pairs, 5, known=known, noise=0.4)
    mean, width, _ = oracle.posterior(pairs, prior, noise=0.4)
    np.testing.assert_allclose(found.mean, mean, atol=0.01)
    np.testing.assert_allclose(found.width, width, atol=0.03)


def test_one_fact_with_a_known_position_truncates_the_normal() -> None:
    """At a tiny s the unknown one is a standard normal above the known one: moments in closed form."""
    for bound in (-1.5, 0.0, 0.7, 2.5):
        found = believed([(0, 1)], 2, known={1: bound}, noise=1e-4)
        above = stats.truncnorm(bound, np.inf)
        assert found.mean[0] == pytest.approx(above.mean(), abs=2e-3)
        assert found.width[0] == pytest.approx(above.std(), abs=2e-3)


def test_between_two_known_positions_it_is_the_doubly_truncated_normal() -> None:
    """Two sites approximate the box; its mean and width are right to a tenth of its length."""
    for low, high in ((-0.5, 0.4), (0.3, 1.2), (1.0, 3.0)):
        found = believed([(0, 1), (1, 2)], 3, known={0: high, 2: low}, noise=1e-3)
        box = stats.truncnorm(low, high)
        assert found.mean[1] == pytest.approx(box.mean(), abs=0.1 * (high - low))
        assert found.width[1] == pytest.approx(box.std(), abs=0.1 * (high - low))


def test_known_positions_never_move_and_have_no_width() -> None:
    positions = np.array([2.0, -1.0, 0.5, -3.0])
    facts = [(1, 0), (1, 0), (3, 2), (4, 0), (5, 3), (0, 5)]  # some contradict the positions
    found = believed(facts, 6, known=dict(enumerate(positions)))
    np.testing.assert_array_equal(found.mean[:4], positions)
    np.testing.assert_array_equal(found.width[:4], 0.0)
    assert (found.width[4:] > 0).all()


def test_an_entity_in_no_fact_keeps_its_prior() -> None:
    found = believed([(0, 1), (1, 2)], 5)
    np.testing.assert_allclose(found.mean[3:], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.width[3:], 1.0, atol=1e-12)


def test_without_any_fact_all_is_prior() -> None:
    found = believed([], 3, noise=0.1)
    np.testing.assert_allclose(found.mean, 0.0)
    np.testing.assert_allclose(found.width, 1.0)
    assert found.log_predictive.shape == (0,)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_neither_the_order_of_facts_nor_the_numbers_of_entities_matter(seed: int, some_known: bool) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=8)
    facts = drawn(truth, 30, noise=0.3, seed=seed)
    known = {i: truth[i] for i in (0, 3, 5)} if some_known else {}
    straight = believed(facts, 8, known=known)
    shuffle, names = rng.permutation(30), rng.permutation(8)
    again = believed(names[facts[shuffle]], 8, known={int(names[i]): z for i, z in known.items()})
    np.testing.assert_allclose(again.mean[names], straight.mean, atol=1e-6)
    np.testing.assert_allclose(again.width[names], straight.width, atol=1e-6)
    assert again.noise == pytest.approx(straight.noise, rel=1e-6)
    assert again.reversed_share == pytest.approx(straight.reversed_share, abs=1e-6)
    np.testing.assert_allclose(again.log_predictive, straight.log_predictive[shuffle], atol=1e-5)


def test_turning_all_facts_round_mirrors_the_positions() -> None:
    facts = drawn(np.random.default_rng(1).normal(size=9), 40, noise=0.3)
    straight, mirrored = believed(facts, 9), believed(facts[:, ::-1], 9)
    np.testing.assert_allclose(mirrored.mean, -straight.mean, atol=1e-9)
    np.testing.assert_allclose(mirrored.width, straight.width, atol=1e-9)


def test_repeated_facts_sharpen_and_separate() -> None:
    beliefs = [believed([(0, 1)] * times, 2, noise=0.5) for times in (1, 2, 4, 8)]
    gaps = [belief.mean[0] - belief.mean[1] for belief in beliefs]
    widths = [belief.width[0] for belief in beliefs]
    assert (np.diff(gaps) > 0).all() and (np.diff(widths) < 0).all()


def test_a_fact_and_its_reverse_leave_the_means_and_pull_together() -> None:
    """The pair is closer than by the prior; the widths of either alone only shrink."""
    found = believed([(0, 1), (1, 0)], 2, noise=0.5)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-9)
    assert (found.width < 1.0).all()
    _, width, _ = oracle.posterior([(0, 1), (1, 0)], [STANDARD] * 2, noise=0.5)
    assert (found.width <= width).all()  # never less sure than the integral, which knows of their correlation


def test_a_contradictory_cycle_leaves_all_level() -> None:
    found = believed([(0, 1), (1, 2), (2, 0)], 3)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.width, found.width[0], atol=1e-9)
    assert found.noise > 1.0  # and says that comparisons say nothing


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2])
def test_the_share_of_reversed_facts_is_found(share: float) -> None:
    """2,000 facts about 100 entities: three standard deviations of a share of 0.2 are 0.027."""
    truth = np.random.default_rng(2).normal(size=100)
    facts = drawn(truth, 2000, reversed_share=share, seed=3)
    for known in ({}, dict(enumerate(truth))):
        found = believed(facts, 100, known=known)
        assert found.reversed_share == pytest.approx(share, abs=0.03)
        assert found.noise < 0.2
        assert stats.spearmanr(found.mean, truth)[0] > 0.93
    if not share:
        assert found.reversed_share == 0.0


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_the_noise_of_comparisons_is_found(noise: float) -> None:
    """The standard error of log s from 3,000 facts is below 0.06, and s goes in steps of 5 %."""
    truth = np.random.default_rng(4).normal(size=60)
    facts = drawn(truth, 3000, noise=noise, seed=5)
    assert believed(facts, 60, known=dict(enumerate(truth))).noise == pytest.approx(noise, rel=0.2)
    found = believed(facts, 60)
    assert relative_noise(found) == pytest.approx(noise / truth.std(), rel=0.2)
    assert found.reversed_share < 0.05


def relative_noise(found: Beliefs) -> float:
    """S in units of the spread of the positions: facts alone do not tell their common scale."""
    return float(found.noise / found.mean.std())


@pytest.mark.parametrize("known", [False, True])
def test_held_out_facts_say_how_many_like_them_are_reversed(known: bool) -> None:
    """A fifth of the training facts are turned round and no held-out one, or the other way round."""
    truth = np.random.default_rng(2).normal(size=100)
    given = dict(enumerate(truth)) if known else {}
    clean, dirty = (drawn(truth, 2000, reversed_share=share, seed=3) for share in (0.0, 0.2))
    later = {share: drawn(truth, 1000, reversed_share=share, seed=4) for share in (0.0, 0.2)}
    found = believed(dirty, 100, known=given, held_out=later[0.0])
    assert found.reversed_share < 0.03  # 20 facts of 0.2 are counted among the 1,000
    assert believed(clean, 100, known=given, held_out=later[0.2]).reversed_share == pytest.approx(
        0.2, abs=0.04
    )
    alone = believed(dirty, 100, known=given)
    assert alone.reversed_share == pytest.approx(0.2, abs=0.03)
    np.testing.assert_allclose(
        found.mean, alone.mean, atol=0.15
    )  # messages have the share of their own facts


def test_a_few_held_out_facts_hardly_change_the_share() -> None:
    truth = np.random.default_rng(2).normal(size=100)
    dirty = drawn(truth, 2000, reversed_share=0.2, seed=3)
    none = believed(dirty, 100).reversed_share
    few = believed(dirty, 100, held_out=drawn(truth, 3, seed=4)).reversed_share
    assert 0.8 * none < few < none


def test_held_out_facts_that_are_noisier_make_comparisons_less_sure() -> None:
    """Facts of later days, when positions have moved: further ones like them are predicted better."""
    rng = np.random.default_rng(13)
    truth = rng.normal(size=60)
    moved = truth + 0.7 * rng.normal(size=60)
    facts, later, further = drawn(truth, 1500, seed=14), *(drawn(moved, 400, seed=seed) for seed in (15, 16))

    def surprise(found: Beliefs) -> float:
        heads, tails = further.T
        deviation = np.sqrt(found.width[heads] ** 2 + found.width[tails] ** 2 + found.noise**2)
        above = stats.norm.cdf((found.mean[heads] - found.mean[tails]) / deviation)
        share = found.reversed_share
        return -float(np.log(share + (1 - 2 * share) * above).mean())

    alone, told = believed(facts, 60), believed(facts, 60, held_out=later)
    assert told.noise > 2 * alone.noise
    assert surprise(told) < surprise(alone) - 0.1
    assert stats.spearmanr(told.mean, truth)[0] > 0.97


def test_held_out_facts_place_nobody() -> None:
    """With the noise given there is nothing else that they could tell."""
    facts, later = [(0, 1), (1, 2)], [(2, 0), (3, 0), (4, 3)]
    alone, told = (believed(facts, 5, noise=0.5, held_out=held) for held in ((), later))
    np.testing.assert_array_equal(told.mean, alone.mean)
    np.testing.assert_array_equal(told.width, alone.width)
    learned = believed(facts, 5, held_out=later)
    np.testing.assert_allclose(learned.mean[3:], 0.0, atol=1e-12)
    np.testing.assert_allclose(learned.width[3:], 1.0, atol=1e-12)


def test_bradley_terry_comparisons_give_the_probit_of_the_logistic() -> None:
    """P = 1 / (1 + exp(-gap / 0.5)); the nearest normal distribution has the deviation 1.70 * 0.5."""
    rng = np.random.default_rng(6)
    truth = rng.normal(size=50)
    pairs = np.array([rng.choice(50, 2, replace=False) for _ in range(4000)])
    chance = 1.0 / (1.0 + np.exp(-(truth[pairs[:, 0]] - truth[pairs[:, 1]]) / 0.5))
    facts = np.where((rng.random(4000) < chance)[:, None], pairs, pairs[:, ::-1])
    assert believed(facts, 50, known=dict(enumerate(truth))).noise == pytest.approx(1.70 * 0.5, rel=0.2)
    found = believed(facts, 50)
    assert relative_noise(found) == pytest.approx(1.70 * 0.5 / truth.std(), rel=0.2)
    assert np.corrcoef(found.mean, truth)[0, 1] > 0.97


def test_widths_say_how_far_off_the_means_are() -> None:
    """Sparse facts: standardised errors are about standard normal (60 entities, 12 draws)."""
    errors = []
    for seed in range(12):
        truth = np.random.default_rng(seed).normal(size=60)
        found = believed(drawn(truth, 150, noise=0.4, seed=seed), 60, noise=0.4)
        errors.append((found.mean - truth) / found.width)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=0.15)


def test_log_predictive_is_that_of_a_fit_without_the_fact() -> None:
    """Up to what the messages of other facts, once approximated with the fact in place, still show of it."""
    tree: Pairs = [(0, 1), (1, 2), (1, 3), (4, 3)]
    assert_predicts_what_is_left_out(tree, 5, most=0.04, average=0.02)
    facts = drawn(np.random.default_rng(7).normal(size=10), 25, noise=0.5, seed=8)
    assert_predicts_what_is_left_out([(int(h), int(t)) for h, t in facts], 10, most=0.6, average=0.1)


def assert_predicts_what_is_left_out(pairs: Pairs, count: int, *, most: float, average: float) -> None:
    found = believed(pairs, count, noise=0.5).log_predictive
    expected = []
    for place, (head, tail) in enumerate(pairs):
        rest = believed([*pairs[:place], *pairs[place + 1 :]], count, noise=0.5)
        deviation = np.sqrt(rest.width[head] ** 2 + rest.width[tail] ** 2 + 0.5**2)
        expected.append(stats.norm.logcdf((rest.mean[head] - rest.mean[tail]) / deviation))
    errors = np.abs(found - expected)
    assert errors.max() < most and errors.mean() < average


def test_log_predictive_in_a_tree_is_a_ratio_of_evidences() -> None:
    """log P(fact | the others) = log P(all) - log P(the others), by the integral."""
    pairs = [(0, 1), (1, 2), (1, 3)]
    found = believed(pairs, 4, noise=0.7).log_predictive
    every = oracle.posterior(pairs, [STANDARD] * 4, noise=0.7, points=31)[2]
    for place in range(3):
        rest = [*pairs[:place], *pairs[place + 1 :]]
        without = oracle.posterior(rest, [STANDARD] * 4, noise=0.7, points=31)[2]
        assert found[place] == pytest.approx(every - without, abs=0.03)


def test_the_prior_of_the_values_reaches_entities_without_facts() -> None:
    """Positions follow a feature; half of the entities are in no fact and are placed by it."""
    rng = np.random.default_rng(9)
    feature = rng.normal(size=60)
    found = believed(drawn(feature[:30], 300, seed=10), 60, prior=ValuePrior(feature[:, None]))
    assert np.corrcoef(found.mean[30:], feature[30:])[0, 1] > 0.99
    assert (found.width[30:] >= 1.0).all() and found.width[:30].mean() < 0.8  # the remainder's width is 1


def test_hard_inputs_give_finite_beliefs() -> None:
    """Nothing warns either: pytest makes errors of NumPy's warnings."""
    nothing = np.zeros((0, 2), int)
    apart = {0: 6.0, 1: -6.0}  # about the scores of the ends of 1e9 values
    problems: list[tuple[Pairs | np.ndarray, int, dict[int, float]]] = [
        (nothing, 1, {}),
        (nothing, 0, {}),
        ([(0, 0)], 1, {}),
        ([(0, 1)], 2, {0: 1.0, 1: 1.0}),
        ([(1, 0)] * 3, 2, apart),
        ([(0, 1)] * 3, 2, apart),
        ([(0, 2), (2, 1)], 3, apart),
        ([(1, 2), (2, 0)], 3, apart),
        ([(0, 1)] * 500 + [(1, 0)] * 500, 2, {}),
        ([(0, 1)] * 1000, 2, {}),
        ([(i, i + 1) for i in range(499)], 500, {}),
        ([(0, i) for i in range(1, 300)], 300, {}),
        (list(itertools.combinations(range(60), 2)), 60, {}),
        (list(itertools.permutations(range(12), 2)), 12, {}),
    ]
    for pairs, count, known in problems:
        for noise in (None, 1e-6, 0.5):
            found = believed(pairs, count, known=known, noise=noise)
            parts = (found.mean, found.width, found.log_predictive)
            assert all(np.isfinite(part).all() for part in parts), (pairs, noise)
            assert np.isfinite(found.noise) and 0 <= found.reversed_share < 0.5


@pytest.mark.slow
def test_a_hundred_thousand_facts() -> None:
    truth = np.random.default_rng(11).normal(size=2000)
    rng = np.random.default_rng(12)
    pairs = rng.integers(0, 2000, (100_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    facts = np.where((truth[pairs[:, 0]] > truth[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    found = believed(facts, 2000)
    assert np.isfinite(found.width).all() and found.reversed_share == 0.0
    assert stats.spearmanr(found.mean, truth)[0] > 0.999
