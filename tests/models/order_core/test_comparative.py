"""Which relations compare: samples of orders do; symmetric relations, trees, chains and functions do not."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.models.order_core.comparative import comparative_relations, compares
from tests import graphs

Facts = tuple[np.ndarray, np.ndarray]


def sample(count: int, share: float, *, reversed_share: float = 0.0, seed: int = 0) -> Facts:
    """A share of all pairs of a strict order, some turned round, under random names."""
    rng = np.random.default_rng(seed)
    upper, lower = np.triu_indices(count, 1)
    kept = rng.random(len(upper)) < share
    turned = rng.random(kept.sum()) < reversed_share
    names, upper, lower = rng.permutation(count), upper[kept], lower[kept]
    return names[np.where(turned, lower, upper)], names[np.where(turned, upper, lower)]


def columns(pairs: list[tuple[int, int]]) -> Facts:
    heads, tails = np.array(pairs, int).reshape(-1, 2).T
    return heads, tails


@pytest.mark.parametrize(
    ("count", "share"), [(4, 1.0), (10, 1.0), (150, 1.0), (60, 0.3), (150, 0.1), (150, 0.02), (600, 0.01)]
)
def test_samples_of_a_strict_order_compare(count: int, share: float) -> None:
    for seed in range(3):
        assert compares(*sample(count, share, seed=seed)) is True


@pytest.mark.parametrize(("count", "share", "wrong"), [(150, 0.1, 0.1), (150, 0.1, 0.2), (80, 0.4, 0.3)])
def test_orders_with_reversed_facts_compare(count: int, share: float, wrong: float) -> None:
    for seed in range(3):
        assert compares(*sample(count, share, reversed_share=wrong, seed=seed)) is True


def test_results_of_a_tournament_compare() -> None:
    """Bradley-Terry: 40 players with unlike strengths, each pair met in one match."""
    rng = np.random.default_rng(0)
    strength = rng.normal(scale=1.5, size=40)
    upper, lower = np.triu_indices(40, 1)
    wins = rng.random(len(upper)) < 1.0 / (1.0 + np.exp(strength[lower] - strength[upper]))
    assert compares(np.where(wins, upper, lower), np.where(wins, lower, upper)) is True


def test_a_chain_with_all_that_follows_from_it_compares() -> None:
    assert compares(*columns([(0, 1), (1, 2), (0, 2)])) is True


def not_comparing() -> dict[str, Facts]:
    rng = np.random.default_rng(1)
    upper, lower = np.triu_indices(50, 1)
    kept = rng.random(len(upper)) < 0.2
    friends = np.concatenate([upper[kept], lower[kept]]), np.concatenate([lower[kept], upper[kept]])
    half = rng.random(len(friends[0])) < 0.7
    steps = np.arange(199)
    here, there = rng.integers(0, 15, 60), rng.integers(15, 30, 60)
    layers = np.repeat(np.arange(180), 3)
    around = (lower - upper) <= 25  # each of 50 beats the next 25 round the table
    dense = rng.random((60, 60)) < 0.2
    np.fill_diagonal(dense, False)
    order = sample(30, 0.5)
    found = {
        "no fact": (np.zeros(0, int), np.zeros(0, int)),
        "symmetric": friends,
        "one pair, both ways": columns([(0, 1), (1, 0)]),
        "symmetric, without triangles": (np.concatenate([here, there]), np.concatenate([there, here])),
        "from each of ten layers to the next": (layers, layers // 20 * 20 + 20 + rng.integers(0, 20, 540)),
        "symmetric, most facts known": (friends[0][half], friends[1][half]),
        "an order and one fact about an entity and itself": (np.append(order[0], 3), np.append(order[1], 3)),
        "tree": ((steps - 1) // 2 + 1, steps + 2),
        "ternary tree": (steps // 3, steps + 1),
        "chain": (steps, steps + 1),
        "cycle of three": columns([(0, 1), (1, 2), (2, 0)]),
        "round the table": (np.where(around, upper, lower), np.where(around, lower, upper)),
        "random": columns([(int(head), int(tail)) for head, tail in np.argwhere(dense)]),
        "from one kind to another": (rng.integers(0, 50, 400), rng.integers(50, 100, 400)),
        "function to a few": (np.arange(100), rng.integers(100, 105, 100)),
        "permutation": (np.arange(100), (7 * np.arange(100) + 3) % 100),
        "few to all": (rng.integers(100, 105, 100), np.arange(100)),
    }
    return {
        name: columns(sorted(set(zip(*map(np.ndarray.tolist, facts), strict=True))))
        for name, facts in found.items()
    }


@pytest.mark.parametrize("name", not_comparing())
def test_other_relations_do_not_compare(name: str) -> None:
    assert compares(*not_comparing()[name]) is False


def test_random_directions_seldom_look_like_an_order() -> None:
    """The bound is two standard deviations: of 40 graphs, three or four at most are expected."""
    found = 0
    upper, lower = np.triu_indices(50, 1)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        kept = rng.random(len(upper)) < 0.2
        up = rng.random(kept.sum()) < 0.5
        heads, tails = np.where(up, upper[kept], lower[kept]), np.where(up, lower[kept], upper[kept])
        found += compares(heads, tails)
    assert found <= 5


KINDS = {name: facts for name, facts in not_comparing().items() if len(facts[0])} | {
    "strict": sample(40, 0.3),
    "noisy": sample(80, 0.3, reversed_share=0.2),
}


@settings(max_examples=40)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1))
def test_neither_names_nor_the_order_of_the_facts_matter(name: str, seed: int) -> None:
    heads, tails = KINDS[name]
    rng = np.random.default_rng(seed)
    names = rng.choice(10_000, size=1 + max(heads.max(), tails.max()), replace=False)
    shuffle = rng.permutation(len(heads))
    assert compares(names[heads][shuffle], names[tails][shuffle]) == compares(heads, tails)


@pytest.mark.parametrize("name", ["strict", "noisy", "symmetric", "tree", "chain", "random"])
def test_the_reverse_of_a_relation_is_decided_alike(name: str) -> None:
    heads, tails = KINDS[name]
    assert compares(tails, heads) == compares(heads, tails)


def test_each_relation_is_decided_by_its_own_training_facts() -> None:
    parts = [KINDS["chain"], KINDS["strict"], (np.zeros(0, int), np.zeros(0, int)), KINDS["noisy"]]
    rows = [
        np.stack([heads, np.full(len(heads), relation), tails], axis=1)
        for relation, (heads, tails) in enumerate(parts)
    ]
    train = np.concatenate(rows).astype(np.int32)
    train = train[np.random.default_rng(2).permutation(len(train))]
    names = graphs.numbered(int(train.max()) + 1, 5)
    assert comparative_relations(graphs.graph_of(names, train, [], [])) == (1, 3)
    assert comparative_relations(graphs.graph_of(names, train[:0], [], [])) == ()


def test_a_symmetric_relation_whose_pairs_are_written_once_does_not_compare() -> None:
    """Countries on a plane and those near them, from the name that comes first; ids are in another order."""
    rng = np.random.default_rng(0)
    place = rng.random((120, 2))
    near = np.linalg.norm(place[:, None] - place, axis=2) < 0.15
    first, second = np.nonzero(np.triu(near, 1))
    names = [f"Q{number}" for number in rng.permutation(1000)[:120]]
    by_name = np.array([names[a] < names[b] for a, b in zip(first, second, strict=True)])
    heads, tails = np.where(by_name, first, second), np.where(by_name, second, first)
    assert compares(heads, tails) is True, "by the facts alone it is an order, that of the names"
    assert compares(heads, tails, names) is compares(tails, heads, names) is False
    few = rng.random(len(heads)) < 0.05  # written the other way round
    assert compares(np.where(few, tails, heads), np.where(few, heads, tails), names) is False


def test_orders_of_sorted_names_compare() -> None:
    """Every pair, or a tenth of them, or each with its ten nearest, of names in the order itself."""
    names = [f"e{number:03d}" for number in range(150)]
    upper, lower = np.triu_indices(150, 1)
    for kept in (
        np.ones(len(upper), bool),
        np.random.default_rng(0).random(len(upper)) < 0.1,
        lower - upper < 10,
    ):
        assert compares(upper[kept], lower[kept], names) is True


def test_a_hundred_thousand_facts_are_decided_by_a_part_of_their_paths() -> None:
    rng = np.random.default_rng(3)
    pairs = np.unique(rng.integers(0, 3000, (120_000, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    assert len(pairs) > 100_000
    assert compares(pairs.min(axis=1), pairs.max(axis=1)) in (True, False)
    ordered = np.unique(np.sort(pairs, axis=1), axis=0)
    assert compares(ordered[:, 0], ordered[:, 1]) is True
    either = rng.random(len(ordered)) < 0.5
    ends = np.where(either[:, None], ordered, ordered[:, ::-1])
    assert compares(ends[:, 0], ends[:, 1]) is False


def test_a_single_fact_does_not_compare_and_two_of_a_kind_may() -> None:
    """A single head and a single tail have nothing in common."""
    assert compares(*columns([(4, 7)])) is False
    assert compares(*columns([(4, 7), (7, 2)])) is True


def test_ties_in_a_large_order_of_few_levels_compare() -> None:
    """Pairs of different levels only: 5 levels of 20 entities."""
    level = np.repeat(np.arange(5), 20)
    pairs = [(a, b) for a, b in itertools.permutations(range(100), 2) if level[a] > level[b]]
    kept = np.random.default_rng(4).random(len(pairs)) < 0.1
    assert compares(*columns([pair for pair, keep in zip(pairs, kept, strict=True) if keep])) is True
