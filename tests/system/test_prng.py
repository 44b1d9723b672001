"""Named random streams: fixed numbers, distinct keys, steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.system import random_streams

KEY = random_streams.base_key(7)


def bits(key: jax.Array) -> tuple[int, ...]:
    return tuple(jax.random.key_data(key).tolist())


def test_streams_keep_their_numbers_for_ever() -> None:
    """A stream is `fold_in(key, number)`: another number for a name changes what recorded runs drew."""
    numbers = {"params": 0, "gating_noise": 1, "dropout": 2, "alpha": 3, "beta": 4, "sampling": 5}
    numbers |= {"entity_dropout": 6, "member_weights": 7, "view_noise": 8}
    assert set(numbers) == set(random_streams.STREAMS)
    for name, number in numbers.items():
        assert bits(random_streams.stream(KEY, name)) == bits(jax.random.fold_in(jax.random.key(7), number))


def test_every_stream_of_every_step_has_its_own_key() -> None:
    keys = [
        random_streams.stream(random_streams.step_key(KEY, step), name)
        for step in range(20)
        for name in random_streams.STREAMS
    ]
    assert len({bits(key) for key in keys}) == 20 * len(random_streams.STREAMS)
    assert len(set(random_streams.STREAMS)) == len(random_streams.STREAMS)


def test_a_step_has_the_same_key_in_every_run_whatever_type_counts_it() -> None:
    key = bits(random_streams.step_key(random_streams.base_key(7), 3))
    assert key == bits(random_streams.step_key(KEY, jnp.array(3, jnp.int32)))
    assert key == bits(jax.jit(random_streams.step_key)(KEY, jnp.array(3, jnp.int32)))
    assert key != bits(random_streams.step_key(KEY, 4))
    assert key != bits(random_streams.step_key(random_streams.base_key(8), 3))


def test_the_base_key_is_typed_so_that_raw_integers_cannot_pass_for_it() -> None:
    assert jnp.issubdtype(KEY.dtype, jax.dtypes.prng_key)
    assert KEY.shape == ()


def test_an_unknown_stream_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown random stream 'gama'; known: params, gating_noise, "):
        random_streams.stream(KEY, "gama")


def test_streams_of_a_step_are_uncorrelated() -> None:
    """10,000 uniform numbers a stream: a correlation has a standard deviation of 0.01."""
    draws = [
        jax.random.uniform(random_streams.stream(KEY, name), (10_000,)) for name in random_streams.STREAMS
    ]
    correlations = np.asarray(np.corrcoef(np.stack(draws)))[np.triu_indices(len(draws), 1)]
    np.testing.assert_allclose(correlations, 0.0, atol=0.05)
