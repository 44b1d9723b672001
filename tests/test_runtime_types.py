"""The checks that conftest.py puts around the package: skipped for what has passed, made for all else."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int, TypeCheckError

from numcoke_jax.data.literals import Normalizer
from tests.runtime_types import checked


# Under names of their own: a function that is defined inside another is not checked.
@checked
def rows_of(table: Float[Array, "entities dim"], rows: Int[Array, " rows"]) -> Float[Array, "rows dim"]:
    return table[rows]


@checked
def positive(values: Float[np.ndarray, " entities"]) -> Float[np.ndarray, " entities"]:
    """Wrong: fewer values than it was given unless all are positive."""
    return values[values > 0]


@checked
def joined(parts: list[str]) -> str:
    return "".join(parts)


@checked
@dataclasses.dataclass
class Pair:
    """Two arrays of one length."""

    heads: Int[np.ndarray, " facts"]
    tails: Int[np.ndarray, " facts"]


TABLE = jnp.ones((4, 3))


@pytest.mark.parametrize("through", [lambda function: function, jax.jit])
def test_calls_of_a_new_kind_are_checked_after_others_have_passed(through: Callable[..., Callable]) -> None:
    rows = jnp.arange(2)
    for _ in range(2):
        assert through(rows_of)(TABLE, rows).shape == (2, 3)
        for table, chosen in ((TABLE[0], rows), (TABLE, rows + 0.5), (TABLE.astype(int), rows)):
            with pytest.raises(TypeCheckError, match="rows_of"):
                through(rows_of)(table, chosen)
    assert rows_of(table=TABLE, rows=jnp.arange(3)).shape == (3, 3)
    with pytest.raises(TypeCheckError, match="rows_of"):
        rows_of(table=rows, rows=TABLE)


def test_a_result_is_checked_though_the_arguments_have_passed() -> None:
    for _ in range(2):
        assert positive(np.ones(3)).shape == (3,)
        with pytest.raises(TypeCheckError, match=r"return value[\s\S]*positive"):
            positive(np.array([1.0, -1.0, 1.0]))


def test_containers_are_looked_through() -> None:
    """Of many items or few, beartype looks at one."""
    assert joined(["a", "b"]) == "ab" and joined([]) == "" and joined(["a"] * 100) == "a" * 100
    for wrong in ([1, 2], [1], [1] * 100, ("a", "b")):
        for _ in range(2):
            with pytest.raises(TypeCheckError, match="joined"):
                joined(wrong)


def test_a_dataclass_is_checked_and_so_is_the_package() -> None:
    facts = np.arange(3)
    for _ in range(2):
        Pair(facts, facts)
        with pytest.raises(TypeCheckError, match="Pair.__init__"):
            Pair(facts, facts[:2])
        with pytest.raises(TypeCheckError, match="Normalizer.__init__"):
            Normalizer("minmax", [{}])  # type: ignore[arg-type]
