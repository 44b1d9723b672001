"""Named random streams: every use of randomness in a step has its own key.

One base key, made from the seed, lives in the training state.  A step's key is `fold_in(base, step)`, a
stream's key is that folded with the stream's number, so a resumed run draws what an uninterrupted run draws
and switching one source of randomness off leaves the others as they were.  Initial parameters are drawn
before the first step, from stream 0 of the base key itself.  That is also the key of step 0, but neither is
used for a draw as it is: Flax folds in the path of every parameter, a step the number of a stream.
"""

import jax
from jaxtyping import Array, Integer, Key

# The position of a name is its number: append only, or every recorded run changes.
STREAMS = (
    "params",  # initial parameters
    "gating_noise",  # psi_k of the experts' gate
    "dropout",  # dropped entries of the score's inputs
    "alpha",  # mixing coefficient of the contrastive positives
    "beta",  # mixing coefficients of the contrastive negatives
    "sampling",  # random instead of top-k contrastive samples
    "entity_dropout",  # entities that a step sees as unknown
    "member_weights",  # weights of the contrastive positives and negatives in RAKGE's means
    "view_noise",  # SimGCL's noise on the entity vectors
)


def base_key(seed: int) -> Key[Array, ""]:
    """The typed key that all randomness of a run comes from."""
    return jax.random.key(seed)


def step_key(key: Key[Array, ""], step: Integer[Array, ""] | int) -> Key[Array, ""]:
    """The key of one training step."""
    return jax.random.fold_in(key, step)


def stream(key: Key[Array, ""], name: str) -> Key[Array, ""]:
    """The key of the stream `name`; ValueError for a name that is not in `STREAMS`."""
    if name not in STREAMS:
        raise ValueError(f"unknown random stream {name!r}; known: {', '.join(STREAMS)}")
    return jax.random.fold_in(key, STREAMS.index(name))
