"""Cross-entropy of each training fact's tail among all candidates, by a softmax over them.

    L = sum over facts (h, r, t) of log sum_e w_e exp(x_e) - (1 - s) x_t - s mean_e x_e

Source: multiclass log-loss of Lacroix et al., "Canonical Tensor Decomposition for Knowledge Base Completion",
ICML 2018; "1vsAll" of Ruffinelli et al., ICLR 2020.  A fact's own tail competes with the query's other tails
too.  It fits relations with many entities and few tails; a relation that orders all entities has half of them
as tails, and is learned by the binary one.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def softmax_cross_entropy(
    logits: Float[Array, "*queries E"],
    labels: Bool[Array, "*queries E"],
    weights: Float[Array, "*queries E"],
    smoothing: float = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The sum over the labelled entries, and their number.

    Args:
      logits: x, of every candidate of each query.
      labels: where the query's tails are; a query without any counts nothing, so padding is all False.
      weights: w >= 0 of the candidates in the softmax, 1 at the tails.
      smoothing: s in [0, 1], the share of the target that is spread over all candidates.

    Raises:
      ValueError: smoothing is outside [0, 1].
    """
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"label smoothing must be in [0, 1], got {smoothing}")
    tails = labels.sum(axis=-1, dtype=jnp.float32)
    # Weights that are all 0, possible without a tail alone, would make log 0 and its gradient NaN.
    weights = jnp.where((tails > 0.0)[..., None], weights, 1.0)
    normaliser = jax.nn.logsumexp(logits, axis=-1, b=weights)
    of_tails = jnp.where(labels, logits, 0.0).sum(axis=-1)
    per_query = tails * (normaliser - smoothing * logits.mean(axis=-1)) - (1.0 - smoothing) * of_tails
    return per_query.sum(), tails.sum()
