"""Mixture of knowledge experts, noisy and relation-tempered (paper, "Mixture of Knowledge Experts").

    H_k = W_k(e~_i)                                              k = 1..K experts
    F_k = softmax_k((U(H_k) + psi_k) / rho(eps_r)),  psi_k ~ N(0, softplus(U'(H_k))^2),  rho = sigmoid
    e_i = sum_k F_k H_k

H_k, U and U' do not depend on the relation, only the temperature eps_r does: the experts run once per step,
not once per relation.  rho is at least `SMALLEST_TEMPERATURE`.  The noise is drawn in training only.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.models.ops import products

# Below about -88 the sigmoid is 0 in float32, and 0 / 0 is NaN.  At this bound the gate has long chosen one
# expert: logits 1e-4 apart have odds of exp(100).
SMALLEST_TEMPERATURE = 1e-6


class MixtureOfExperts(nn.Module):
    """Entity embeddings e [S, N, d] under each of S relations from raw features [N, d].

    Attributes:
      num_relations: R.
      count: K; with one expert the gate is 1 and what is left is a residual entity layer.
      hidden: width of each expert's hidden layer; 0 makes an expert linear.
      noise: draw psi in training, from the stream "gating_noise"; one draw per (relation slot, entity,
        expert) and step, shared by the slot's queries.
      products: operands of the experts' products (`models/ops/products.py`).  The gate's stay in float32: the
        temperature magnifies whatever its logits are off by, and its weights have to sum to 1.
    """

    num_relations: int
    count: int = 3
    hidden: int = 0
    noise: bool = True
    products: str = "float32"

    def __call__(
        self, features: Float[Array, "N d"], relations: Int[Array, " S"], *, train: bool
    ) -> Float[Array, "S N d"]:
        return self.mix(features, relations, self.draw_noise(len(relations), len(features), train=train))

    def draw_noise(self, slots: int, entities: int, *, train: bool) -> Float[Array, "S N K"] | None:
        """psi before it is scaled, standard normal; None if there is none."""
        if not (train and self.noise and self.count > 1):
            return None
        return jax.random.normal(self.make_rng("gating_noise"), (slots, entities, self.count))

    @nn.compact
    def mix(
        self,
        features: Float[Array, "N d"],
        relations: Int[Array, " S"],
        noise: Float[Array, "S N K"] | None,
    ) -> Float[Array, "S N d"]:
        """e_i of the entities with these features and this noise from `draw_noise`."""
        perspectives = self.perspectives(features)
        gate = self.gate(perspectives, relations, noise)
        self.sow("intermediates", "gate", gate)  # kept only if a caller asks for it: inference/explain.py
        return jnp.einsum("snk,nkd->snd", gate, perspectives)

    def perspectives(self, features: Float[Array, "N d"]) -> Float[Array, "N K d"]:
        """H_k = e~ + W_k e~ + b_k, or with a hidden layer e~ + W_k' relu(W_k e~ + b_k) + b_k'."""
        size = features.shape[-1]
        matrices = nn.initializers.xavier_normal(batch_axis=(0,))
        zeros = nn.initializers.zeros_init()
        inner = self.hidden or size
        kernel = self.param("kernel", matrices, (self.count, size, inner))
        bias = self.param("bias", zeros, (self.count, inner))
        outputs = products.einsum(self.products, "nd,kde->nke", features, kernel) + bias
        if self.hidden:
            kernel = self.param("output_kernel", matrices, (self.count, inner, size))
            bias = self.param("output_bias", zeros, (self.count, size))
            outputs = products.einsum(self.products, "nkh,khd->nkd", nn.relu(outputs), kernel) + bias
        return features[:, None, :] + outputs

    def gate(
        self,
        perspectives: Float[Array, "N K d"],
        relations: Int[Array, " S"],
        noise: Float[Array, "S N K"] | None,
    ) -> Float[Array, "S N K"]:
        """F_k, the experts' weights; they sum to 1 over K."""
        # U(H_k), without a bias: the same for all experts, it would cancel in their softmax.
        logits = nn.Dense(1, use_bias=False, name="gate_logit")(perspectives)[..., 0]
        temperature = self.param("relation_temperature", nn.initializers.zeros_init(), (self.num_relations,))
        scale = nn.softplus(nn.Dense(1, name="noise_scale")(perspectives)[..., 0])  # softplus(U'(H_k))
        logits = jnp.broadcast_to(logits, (relations.shape[0], *logits.shape))
        if noise is not None:
            logits = logits + scale * noise
        rho = jnp.maximum(nn.sigmoid(temperature[relations]), SMALLEST_TEMPERATURE)
        # The softmax of the gaps to the largest logit is that of the logits.  If large logits were divided
        # first, a fused multiply-add with their rounded maximum could leave a gap that exp makes infinite.
        gaps = logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
        return nn.softmax(_at_most_zero(gaps) / rho[:, None, None], axis=-1)


@jax.custom_jvp
def _at_most_zero(gaps: Array) -> Array:
    return jnp.where(gaps > 0.0, 0.0, gaps)


@_at_most_zero.defjvp
def _with_every_slope(gaps: tuple[Array], slopes: tuple[Array]) -> tuple[Array, Array]:
    # Recomputed for the backward pass, the largest logit can exceed its own maximum by a rounding error.  Its
    # gap is 0 all the same, but its gradient would be lost, in some compilations and not in others.
    return _at_most_zero(*gaps), *slopes
