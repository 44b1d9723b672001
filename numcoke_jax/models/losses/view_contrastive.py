"""SimGCL's contrastive loss: an entity's two noisy views against the other entities (`models/simgcl.py`).

    l_i = -log(exp(cos(e'_i, e''_i) / tau) / sum_j exp(cos(e'_i, e''_j) / tau))

i runs over the heads of the step, each once per query that it heads; j runs over all entities.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from numcoke_jax.data.batches import Batch

TINY = 1e-12  # smallest squared norm that is distinguished from 0


def view_contrastive_loss(
    views: Float[Array, "2 N d"], batch: Batch, *, temperature: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sum over the batch's real queries, and their number."""
    squares = jnp.maximum(jnp.square(views).sum(-1, keepdims=True), TINY)
    first, second = views / jnp.sqrt(squares)
    logits = first[batch.heads] @ second.T / temperature  # [S, H, N], as many as the score has
    own = jnp.take_along_axis(logits, batch.heads[..., None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(logits, axis=-1) - own
    mask = batch.mask.astype(losses.dtype)
    return (mask * losses).sum(), mask.sum()
