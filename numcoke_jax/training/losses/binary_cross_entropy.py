"""Binary cross-entropy of the triples (h, r, every entity), on logits (paper, L_BCE)."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def smoothed_targets(labels: Bool[Array, "*shape"], smoothing: float) -> Float[Array, "*shape"]:
    """y (1 - s) + s / 2: targets stay inside [0, 1]; s = 0 leaves 0 and 1, s = 1 gives 1/2 everywhere.

    Raises:
      ValueError: smoothing is outside [0, 1].
    """
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"label smoothing must be in [0, 1], got {smoothing}")
    return labels.astype(jnp.float32) * (1.0 - smoothing) + smoothing / 2.0


def binary_cross_entropy(
    logits: Float[Array, "*shape"],
    targets: Float[Array, "*shape"],
    where: Bool[Array, "*#shape"],
    weights: Float[Array, "*shape"] | float = 1.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Weighted sum over `where` of -y log sigmoid(x) - (1 - y) log(1 - sigmoid(x)), and the sum of weights.

    The sum is max(x, 0) - x y + log(1 + exp(-|x|)): finite for every finite logit, without a sigmoid.
    """
    # Not jnp.maximum: its slope of 1/2 at 0 and that of abs would add up to 0 there instead of 1/2.
    positive_part = jnp.where(logits >= 0.0, logits, 0.0)
    entries = positive_part - logits * targets + jnp.log1p(jnp.exp(-jnp.abs(logits)))
    total = jnp.where(where, weights * entries, 0.0).sum()
    return total, jnp.where(where, jnp.broadcast_to(weights, entries.shape), 0.0).sum(dtype=jnp.float32)


def label_weights(
    labels: Bool[Array, "*shape"], negatives: Bool[Array, "*shape"], unknown_weight: float
) -> Float[Array, "*shape"]:
    """1 at tails that are known to be true or false, `unknown_weight` elsewhere.

    A training set that knows a tenth of the facts does not say that the other entities are false.  Weight 0
    learns only from what is known; between 0 and 1 an unknown entity counts as slightly false, as in learning
    from positive and unlabelled examples (Elkan and Noto, KDD 2008); 1 is the paper's loss.
    """
    return jnp.where(labels | negatives, 1.0, unknown_weight).astype(jnp.float32)
