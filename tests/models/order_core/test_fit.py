"""Which order a relation follows: a field and its direction, mixtures, none; false values, shared scales."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from numcoke_jax.models.order_core.fit import (
    OrderFit,
    RelationOrder,
    best_fields,
    field_positions,
    fit_order,
    fit_orders,
)
from tests.models.order_core.problems import drawn, scores_of


def fields(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width))


def hidden(values: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(values.shape) < share, np.nan, values)


def order_of(facts: np.ndarray, values: np.ndarray) -> RelationOrder:
    return fit_order(facts[:, 0], facts[:, 1], scores_of(values))


def triples_of(parts: list[np.ndarray]) -> np.ndarray:
    rows = [
        np.stack([facts[:, 0], np.full(len(facts), relation), facts[:, 1]], axis=1)
        for relation, facts in enumerate(parts)
    ]
    return np.concatenate([np.zeros((0, 3), int), *rows]).astype(np.int32)


def orders_of(
    parts: list[np.ndarray], values: np.ndarray, held_out: list[np.ndarray] | None = None
) -> OrderFit:
    return fit_orders(triples_of(parts), range(len(parts)), scores_of(values), triples_of(held_out or []))


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize(("count", "facts"), [(30, 12), (40, 100), (150, 900)])
def test_the_compared_field_and_its_direction_are_found_among_distractors(
    direction: int, count: int, facts: int
) -> None:
    for seed in range(3):
        values = fields(count, 8, seed)
        found = order_of(drawn(direction * values[:, 5], facts, seed=seed), values)
        assert found.field == 5
        np.testing.assert_array_equal(found.weights, np.where(np.arange(8) == 5, direction, 0))
        np.testing.assert_allclose(found.beliefs.mean, direction * scores_of(values).scores[:, 5])
        np.testing.assert_array_equal(found.beliefs.width, 0.0)


def test_missing_values_of_the_compared_field_are_placed_by_the_facts() -> None:
    """A third is missing: ranks from 1,500 facts about 100 entities, and values stay where they are."""
    values = fields(100, 3)
    seen = hidden(values, 0.33)
    found = order_of(drawn(values[:, 1], 1500), seen)
    known = ~np.isnan(seen[:, 1])
    assert found.field == 1
    np.testing.assert_array_equal(found.beliefs.width == 0, known)
    assert stats.spearmanr(found.beliefs.mean, values[:, 1])[0] > 0.98
    errors = (found.beliefs.mean - stats.norm.ppf(stats.rankdata(values[:, 1]) / 101))[~known]
    assert np.abs(errors).mean() < 0.2


def test_missing_values_without_facts_are_placed_by_the_other_fields() -> None:
    """Fields 0 and 1 share their causes; entities in no fact miss field 0."""
    rng = np.random.default_rng(3)
    cause = rng.normal(size=200)
    values = np.stack([cause, cause + 0.3 * rng.normal(size=200), rng.normal(size=200)], axis=1)
    seen = values.copy()
    seen[150:, 0] = np.nan
    found = order_of(drawn(values[:150, 0], 600), seen)
    assert found.field == 0
    assert np.corrcoef(found.beliefs.mean[150:], values[150:, 0])[0, 1] > 0.9
    errors = found.beliefs.mean[150:] - values[150:, 0]
    assert np.mean(errors**2) == pytest.approx(np.mean(found.beliefs.width[150:] ** 2), rel=0.6)


def test_positions_without_facts_are_as_wide_as_their_errors() -> None:
    """Rows with the other value and rows without any: the errors, in widths, have a deviation of 1."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    widths: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(8):
        common = fields(120, 1, seed)
        values = np.sqrt(0.8) * common + np.sqrt(0.2) * fields(120, 2, seed + 100)
        shown = hidden(values, 0.3, seed)
        scores, truth = scores_of(shown), scores_of(values).scores[:, 0]
        known = np.flatnonzero(scores.observed[:, 0])
        facts = drawn(values[known, 0], 200, seed=seed)
        mean, width = field_positions(known[facts[:, 0]], known[facts[:, 1]], scores, 0)
        for entity in np.flatnonzero(~scores.observed[:, 0]):
            other = bool(scores.observed[entity, 1])
            errors[other].append(float((truth[entity] - mean[entity]) / width[entity]))
            widths[other].append(float(width[entity]))
    for other, found in errors.items():
        assert 0.85 < np.std(found) < 1.15, (other, np.std(found))
    assert 0.5 < np.mean(widths[True]) < 0.75, "0.6 in the long run"
    assert 0.9 < np.mean(widths[False]) < 1.1, "nothing is known: the whole field"


def test_reversed_facts_do_not_hide_the_field() -> None:
    values = fields(80, 6)
    found = order_of(drawn(values[:, 2], 800, reversed_share=0.2), values)
    assert found.field == 2
    assert found.beliefs.reversed_share == pytest.approx(0.2, abs=0.045)  # three standard deviations


@pytest.mark.parametrize(
    ("count", "facts", "width"), [(30, 10, 20), (60, 10, 10), (100, 400, 5), (60, 60, 20)]
)
def test_shuffled_values_give_the_beliefs_of_removed_ones(count: int, facts: int, width: int) -> None:
    """In 8 draws, fields are taken for an explanation at most twice."""
    taken = 0
    for seed in range(8):
        values = fields(count, width, seed)
        pairs = drawn(np.random.default_rng(seed + 100).normal(size=count), facts, seed=seed)
        found, without = order_of(pairs, values), order_of(pairs, values[:, :0])
        taken += bool(np.abs(found.weights).sum() > 0.3)
        if np.abs(found.weights).sum() == 0.0:
            np.testing.assert_allclose(found.beliefs.mean, without.beliefs.mean, atol=1e-9)
            assert found.field is None
    assert taken <= 2


def test_values_that_control_experiments_shuffle_change_nothing() -> None:
    values = fields(150, 4)
    pairs = drawn(values[:, 0], 900)
    shuffled = np.random.default_rng(5).permutation(values)
    found, without = order_of(pairs, shuffled), order_of(pairs, np.full_like(values, np.nan))
    np.testing.assert_allclose(found.beliefs.mean, without.beliefs.mean, atol=0.02)
    np.testing.assert_allclose(found.beliefs.width, without.beliefs.width, atol=0.02)


@pytest.mark.parametrize("slopes", [(1.0, 1.0), (2.0, -1.0), (-1.0, -1.0)])
def test_a_mixture_of_two_fields_is_found(slopes: tuple[float, float]) -> None:
    """Shares of the variance, with the signs of the slopes; one field alone explains too little."""
    values = fields(150, 5)
    truth = slopes[0] * values[:, 0] + slopes[1] * values[:, 3]
    found = order_of(drawn(truth, 1500), values)
    shares = np.square(slopes) / np.square(slopes).sum() * np.sign(slopes)
    assert found.field is None
    np.testing.assert_allclose(found.weights[[0, 3]], shares, atol=0.12)
    assert np.abs(found.weights[[1, 2, 4]]).max() < 0.02
    assert np.abs(found.weights).sum() <= 1.0
    assert stats.spearmanr(found.beliefs.mean, truth)[0] > 0.98


def test_a_bent_dependence_is_found() -> None:
    """Positions are the distance of a field from its middle: no straight regression explains that."""
    values = fields(150, 3)
    found = order_of(drawn(values[:, 1] ** 2, 1500), values)
    assert np.argmax(np.abs(found.weights)) == 1 and np.abs(found.weights[1]) > 0.5
    assert found.field is None


@pytest.mark.parametrize(("mix", "least"), [("sum", 0.99), ("distance", 0.98)])
def test_a_mix_of_two_fields_ranks_places_entities_without_facts(mix: str, least: float) -> None:
    """Half of the entities are in no fact: only what is read off the values orders them."""
    values = fields(200, 4)
    ranks = stats.rankdata(values, axis=0)
    truth = ranks[:, 1] + ranks[:, 2] if mix == "sum" else np.abs(ranks[:, 1] - ranks[:, 2])
    found = order_of(drawn(truth[:100], 900), values)
    assert found.field is None and set(np.argsort(np.abs(found.weights))[2:]) == {1, 2}
    assert stats.spearmanr(found.beliefs.mean[100:], truth[100:])[0] > least


@pytest.mark.parametrize("compared", [1, 2])
def test_missing_values_that_other_relations_compare_help_a_mix(compared: int) -> None:
    """Facts of compared fields place their missing values, which a relation of the sum then uses."""
    truth = fields(120, 2)
    values = np.concatenate([hidden(truth[:, :compared], 0.4), truth[:, compared:]], axis=1)
    parts = [drawn(order, 900, seed=seed) for seed, order in enumerate(truth.T[:compared])]
    parts.append(drawn(truth.sum(axis=1), 240, seed=2))
    together, alone = orders_of(parts, values), order_of(parts[-1], values)
    missing = np.isnan(values).any(axis=1)
    errors = [
        np.abs(stats.rankdata(mean) - stats.rankdata(truth.sum(axis=1)))[missing].mean()
        for mean in (together.mean[:, -1], alone.beliefs.mean)
    ]
    assert errors[0] < 0.6 * errors[1]
    assert together.width[missing, -1].mean() / together.mean[:, -1].std() < (
        0.6 * alone.beliefs.width[missing].mean() / alone.beliefs.mean.std()
    )


def test_facts_of_one_field_help_with_missing_values_of_another() -> None:
    """Two fields that say much about each other lack the same values; one has few facts, the other many."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(150, 1)) + 0.3 * rng.normal(size=(150, 2))
    missing = rng.random(150) < 0.3
    values = np.where(missing[:, None], np.nan, truth)
    parts = [drawn(truth[:, 0], 3000, seed=0), drawn(truth[:, 1], 150, seed=1)]
    together, alone = orders_of(parts, values), order_of(parts[1], values)
    scale = stats.norm.ppf((stats.rankdata(truth[:, 1]) - 0.5) / 150)
    errors = [
        np.sqrt(np.mean((mean - scale)[missing] ** 2)) for mean in (together.mean[:, 1], alone.beliefs.mean)
    ]
    assert errors[0] < 0.75 * errors[1]
    widths = together.width[missing, 1]
    assert widths.mean() < 0.75 * alone.beliefs.width[missing].mean()
    assert 0.7 < np.sqrt(np.mean(((together.mean[:, 1] - scale)[missing] / widths) ** 2)) < 1.3


def test_an_order_of_no_field_is_inferred_from_the_facts_alone() -> None:
    truth = np.random.default_rng(8).normal(size=80)
    found = order_of(drawn(truth, 1200), fields(80, 3))
    assert found.field is None
    assert stats.spearmanr(found.beliefs.mean, truth)[0] > 0.97


def test_inverse_relations_share_the_scale_of_their_field() -> None:
    """Heavier and lighter: mirrored beliefs, from the facts of both, one of another field on its own."""
    values = fields(60, 3)
    seen = hidden(values, 0.4)
    heavier, lighter = drawn(values[:, 0], 150, seed=1), drawn(-values[:, 0], 150, seed=2)
    taller = drawn(values[:, 2], 300, seed=3)
    found = orders_of([heavier, lighter, taller], seen)
    np.testing.assert_allclose(found.mean[:, 1], -found.mean[:, 0], atol=1e-12)
    np.testing.assert_array_equal(found.width[:, 1], found.width[:, 0])
    assert found.noise[0] == found.noise[1] and found.reversed_share[0] == found.reversed_share[1]
    np.testing.assert_array_equal(found.weights, [[1, 0, 0], [-1, 0, 0], [0, 0, 1]])
    both = order_of(np.concatenate([heavier, lighter[:, ::-1]]), seen)
    np.testing.assert_allclose(orders_of([heavier, lighter], seen).mean[:, 0], both.beliefs.mean, atol=1e-9)
    alone = order_of(heavier, seen)
    assert found.width[:, 0].sum() < alone.beliefs.width.sum()
    np.testing.assert_allclose(found.mean[:, 2], order_of(taller, seen).beliefs.mean, atol=0.05)


def test_held_out_facts_of_a_shared_scale_are_read_in_their_own_direction() -> None:
    """Heavier and lighter, a fifth of whose training facts are turned round; those of validation are not."""
    values = fields(60, 3)
    seen = hidden(values, 0.4)
    parts = [
        drawn(sign * values[:, 0], 600, reversed_share=0.2, seed=seed) for sign, seed in ((1, 1), (-1, 2))
    ]
    later = [drawn(sign * values[:, 0], 300, seed=seed) for sign, seed in ((1, 3), (-1, 4))]
    found, alone = orders_of(parts, seen, later), orders_of(parts, seen)
    np.testing.assert_array_equal(found.weights, [[1, 0, 0], [-1, 0, 0]])
    assert (found.reversed_share < 0.04).all() and (alone.reversed_share > 0.15).all()
    mirrored = orders_of(parts, seen, [facts[:, ::-1] for facts in later])
    assert (mirrored.reversed_share > 0.2).all()


def test_of_many_held_out_facts_evenly_spaced_ones_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs may have millions, and some thousands say as much."""
    values = fields(40, 2)
    facts, later = drawn(values[:, 0], 200, reversed_share=0.2, seed=1), drawn(values[:, 0], 70, seed=2)
    some = orders_of([facts], values, [later[::4]])
    monkeypatch.setattr("numcoke_jax.models.order_core.fit.MOST_HELD_OUT", 20)
    found = orders_of([facts], values, [later])
    np.testing.assert_array_equal(found.mean, some.mean)
    np.testing.assert_array_equal(found.reversed_share, some.reversed_share)
    assert found.reversed_share[0] != orders_of([facts], values).reversed_share[0]


def test_the_field_of_an_order_is_the_one_whose_values_are_its_positions() -> None:
    values = fields(50, 3)
    by_field, by_mix = (order_of(drawn(z, 500), values) for z in (values[:, 1], values[:, 1] + values[:, 2]))
    assert (by_field.field, by_mix.field) == (1, None)
    assert order_of(drawn(values[:, 0], 100), values[:, :0]).field is None


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_best_fields_are_furthest_from_chance_and_agree_best(seed: int) -> None:
    """Counted by loops over facts with two values; equal ones speak for no direction."""
    rng = np.random.default_rng(seed)
    values = hidden(np.round(rng.normal(size=(9, 3))), 0.3, seed)
    facts = drawn(rng.normal(size=9), 15, seed=seed)
    found = best_fields(facts[:, 0], facts[:, 1], values)
    surprise, agreement, counts = [], [], []
    for field in range(3):
        compared = [(values[h, field], values[t, field]) for h, t in facts]
        known = [pair for pair in compared if not np.isnan(pair).any()]
        higher = sum(head > tail for head, tail in known)
        lower = sum(head < tail for head, tail in known)
        surprise.append(abs(higher - lower) / np.sqrt(max(higher + lower, 1)))
        agreement.append(max(higher, lower) / max(len(known), 1))
        counts.append(len(known) if higher + lower else 0)
        for one in found:
            if one.field == field:
                assert one.facts == len(known) and one.agreement == pytest.approx(agreement[-1])
                assert one.sign == (1 if higher > lower else -1)
    assert bool(found) == any(counts)
    if found:
        assert surprise[found[0].field] == pytest.approx(max(surprise))
        enough = [f for f in range(3) if counts[f] and counts[f] >= min(20, found[0].facts)]
        assert agreement[found[-1].field] == pytest.approx(max(agreement[f] for f in enough))


def test_a_field_that_is_nearly_the_compared_one_and_has_more_values_is_not_taken_for_it() -> None:
    values = fields(60, 2)
    near = values[:, 0] + 0.02 * np.random.default_rng(1).normal(size=60)
    seen = np.stack([hidden(values[:, :1], 0.3, 2)[:, 0], near, values[:, 1]], axis=1)
    assert order_of(drawn(values[:, 0], 900), seen).field == 0


@pytest.mark.parametrize("mirrored", [False, True])
def test_of_fields_in_the_same_order_a_relation_compares_the_one_whose_values_are_of_its_entities(
    mirrored: bool,
) -> None:
    """Seven rows of which one has no weight, and no fact; height and weight agree on all ten."""
    weight, height = np.arange(7.0), np.exp(np.arange(7.0))
    weight[2] = np.nan
    values = np.stack([height, weight, np.random.default_rng(0).normal(size=7)], axis=1)
    values = values[:, ::-1] if mirrored else values
    facts = np.array([(h, t) for h in range(7) for t in range(h) if 2 not in (h, t)][:10])
    assert best_fields(facts[:, 0], facts[:, 1], values)[0].field == 1
    assert order_of(facts, values).field == 1


def test_few_facts_that_one_field_explains_compare_it_and_no_sum() -> None:
    """Of seven rows with three fields, whose sums explain the facts as well; so may another field."""
    for seed in range(3):
        values = fields(7, 3, seed)
        facts = np.array([(h, t) for h in range(7) for t in range(7) if values[h, 0] > values[t, 0]])[::2]
        found = order_of(facts, values)
        assert found.field is not None
        positions = found.weights[found.field] * values[:, found.field]
        assert (positions[facts[:, 0]] > positions[facts[:, 1]]).all()


def test_the_same_input_gives_the_same_bits() -> None:
    values = hidden(fields(60, 4), 0.3)
    parts = [drawn(np.random.default_rng(1).normal(size=60), 300), drawn(fields(60, 4)[:, 2], 100)]
    first, again = orders_of(parts, values), orders_of(parts, values)
    for name, array in vars(first).items():
        assert np.asarray(array).tobytes() == np.asarray(getattr(again, name)).tobytes(), name


def test_relabelling_the_entities_relabels_the_beliefs() -> None:
    values = hidden(fields(40, 3), 0.3)
    for truth in (fields(40, 3)[:, 0], fields(40, 3)[:, 0] + fields(40, 3)[:, 1]):
        facts = drawn(truth, 300)
        names = np.random.default_rng(2).permutation(40)
        renamed = np.empty_like(values)
        renamed[names] = values
        straight, again = order_of(facts, values), order_of(names[facts], renamed)
        np.testing.assert_allclose(again.beliefs.mean[names], straight.beliefs.mean, atol=1e-4)
        np.testing.assert_allclose(again.beliefs.width[names], straight.beliefs.width, atol=1e-4)
        np.testing.assert_allclose(again.weights, straight.weights, atol=1e-4)


def hard_values(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(9)
    column = rng.normal(size=(count, 1))
    return {
        "no field": np.zeros((count, 0)),
        "never observed": np.full((count, 2), np.nan),
        "constant": np.ones((count, 2)),
        "constant or missing": hidden(np.ones((count, 2)), 0.5),
        "collinear": np.repeat(column, 4, axis=1),
        "collinear and mirrored, with holes": hidden(column * np.array([1, -1, 1, -1]), 0.5),
        "one value": np.where(np.arange(count)[:, None] == 0, 1.0, np.full((count, 2), np.nan)),
        "huge": np.sign(column) * 10.0 ** (300 * np.abs(np.tanh(column))),
        "two levels": np.sign(column),
        "more fields than entities": rng.normal(size=(count, count + 5)),
    }


def hard_facts(count: int) -> dict[str, np.ndarray]:
    last = count - 1
    facts = {
        "one": np.array([[0, last]]),
        "the same ten times": np.repeat([[0, last]], 10, axis=0),
        "both ways": np.array([[0, last], [last, 0]]),
        "with itself": np.array([[0, 0]]),
    }
    if count > 2:
        around = np.arange(count)
        facts |= {
            "a cycle": np.stack([around, (around + 1) % count], axis=1),
            "all pairs": np.stack(np.triu_indices(count, 1), axis=1),
            "random": np.random.default_rng(10).integers(0, count, (3 * count, 2)),
        }
    return facts


@pytest.mark.parametrize("count", [1, 2, 12])
@pytest.mark.parametrize("name", hard_values(1))
def test_hard_inputs_give_finite_orders(name: str, count: int) -> None:
    for kind, facts in hard_facts(count).items():
        found = orders_of([facts], hard_values(count)[name])
        for part, array in vars(found).items():
            assert np.isfinite(array).all(), (kind, part)
        assert (found.width >= 0).all() and (found.noise > 0).all()
        assert ((found.reversed_share >= 0) & (found.reversed_share < 0.5)).all()
        assert ((found.membership > 0) & (found.membership <= 1)).all()


def test_level_values_do_not_compare_but_their_facts_do() -> None:
    """A constant field explains nothing: the order comes from the facts."""
    truth = np.random.default_rng(11).normal(size=40)
    found = order_of(drawn(truth, 500), np.ones((40, 1)))
    assert found.field is None and stats.spearmanr(found.beliefs.mean, truth)[0] > 0.95


def test_tied_values_stay_tied() -> None:
    values = np.repeat(np.arange(5.0), 8)[:, None]
    pairs = drawn(values[:, 0], 600)
    pairs = pairs[values[pairs[:, 0], 0] != values[pairs[:, 1], 0]]
    found = order_of(pairs, values)
    assert found.field == 0
    assert len(np.unique(found.beliefs.mean)) == 5


def test_entities_in_no_fact_and_without_values_are_in_the_middle_and_unsure() -> None:
    values = np.concatenate([fields(40, 2), np.full((5, 2), np.nan)])
    for truth in (values[:40, 0], np.random.default_rng(12).normal(size=40)):
        found = order_of(drawn(truth, 300), values).beliefs
        assert np.abs(found.mean[40:]).max() < 0.35
        assert (found.width[40:] > 0.7).all()


@pytest.mark.slow
def test_a_hundred_thousand_facts_of_a_field_with_holes() -> None:
    values = hidden(fields(3000, 3), 0.3)
    truth = fields(3000, 3)[:, 0]
    pairs = np.random.default_rng(13).integers(0, 3000, (100_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    facts = np.where((truth[pairs[:, 0]] > truth[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    found = order_of(facts, values)
    assert found.field == 0
    assert stats.spearmanr(found.beliefs.mean, truth)[0] > 0.999
