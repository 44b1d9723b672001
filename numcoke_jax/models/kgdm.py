"""KGDM: the tail is generated from head and relation by a diffusion model, and compared with all entities.

Source: Long et al., "KGDM: A Diffusion Model to Capture Multiple Relation Semantics for Knowledge Graph
Embedding", AAAI 2024.  Its text was not at hand and no code is public, so that only this is taken from it:
the forward process runs on the embedding of the tail, a denoiser of residual blocks with layer
normalisation, step embedding and learned scales is conditioned on what a scoring function makes of head and
relation, and the generated vector is compared with every entity.  The rest is chosen here, after Ho et al.
(NeurIPS 2020) and Song et al. (ICLR 2021):

    c      = h rotated by r                                  pairs of dimensions, as in RotatE
    x_t    = sqrt(a_t) e_tail + sqrt(1 - a_t) noise          a_t = cos^2(pi t / (2 T + 2)), t = 1 .. T
    F(x)   : x += s_b * W_b' gelu(W_b (norm(x) + v_t + c))   for each block b; then W norm(x): e_tail, guessed
    x_T = 0,  x_(t-1) = sqrt(a_(t-1)) F(x_t) + sqrt((1 - a_(t-1)) / (1 - a_t)) (x_t - sqrt(a_t) F(x_t))
    score  = <F(x_1), e_t> + b_t
    loss   = BCE + lambda mean (F(x_t) - e_tail)^2           of facts, t and noise drawn in each step

Generation starts from the mean of the noise, so that evaluation draws nothing.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.atth import rotated
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors, found_in_forward_pass
from numcoke_jax.models.rotate import any_angle

STEPS = 8  # T
BLOCKS = 2


@struct.dataclass
class Generated:
    """What scoring under S relations needs; in training, the error of the denoiser."""

    scored: SharedVectors  # the relations' vectors are angles [S, d / 2]
    second_loss: Any = None  # float32 scalars: sum over drawn facts and dimensions, how many numbers


class Denoiser(nn.Module):
    """F, of `BLOCKS` blocks."""

    @nn.compact
    def __call__(
        self,
        noisy: Float[Array, "*batch d"],
        step: Int[Array, "*#batch"],
        condition: Float[Array, "*batch d"],
    ) -> Float[Array, "*batch d"]:
        dim, rows = noisy.shape[-1], noisy
        times = self.param("steps", nn.initializers.normal(1.0 / math.sqrt(dim)), (STEPS, dim))
        for block in range(BLOCKS):
            scale = self.param(f"scale_{block}", nn.initializers.ones_init(), (dim,))
            given = nn.LayerNorm(name=f"norm_{block}")(rows) + times[step - 1] + condition
            hidden = nn.gelu(nn.Dense(dim, name=f"in_{block}")(given), approximate=False)
            rows = rows + scale * nn.Dense(dim, name=f"out_{block}")(hidden)
        return nn.Dense(dim, name="estimate")(nn.LayerNorm(name="norm")(rows))


class KGDM(TableModel):
    """Generates the tail of every query.

    Attributes:
      dim: d, even.
    """

    def setup(self) -> None:
        self.rotation = self.param("rotation", any_angle, (self.sizes.relations, self.dim // 2))
        self.tail_bias = self.param("tail_bias", nn.initializers.zeros_init(), (self.sizes.entities,))
        self.denoiser = Denoiser()

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], Generated]:
        """Logits of every entity as tail of each (head, relation), and in training the denoiser's error."""
        encoded = self.encode(relations, literals, train=train)
        logits = self.score(encoded, heads, train=train)
        if not train:
            return logits, encoded
        entities = encoded.scored.entities
        of_facts, of_steps, of_noise = jax.random.split(self.make_rng("view_noise"), 3)
        drawn = literals.facts[jax.random.randint(of_facts, (heads.size,), 0, len(literals.facts))]
        step = jax.random.randint(of_steps, (heads.size,), 1, STEPS + 1)
        tails = entities[drawn[:, 2]]
        noise = jax.random.normal(of_noise, tails.shape, tails.dtype)
        kept = signal(step)[:, None]
        noisy = jnp.sqrt(kept) * tails + jnp.sqrt(1.0 - kept) * noise
        condition = rotated(entities[drawn[:, :1]], self.rotation[drawn[:, 1]])[:, 0]
        errors = jnp.square(self.denoiser(noisy, step, condition) - tails)
        error = errors.sum(), jnp.asarray(errors.size, errors.dtype)
        return logits, encoded.replace(second_loss=error)  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Generated:
        return Generated(SharedVectors(self.entities(literals, train=train), self.rotation[relations]))

    def score(self, encoded: Generated, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        entities = encoded.scored.entities
        return self.generate(rotated(entities[heads], encoded.scored.relations)) @ entities.T + self.tail_bias

    def generate(self, condition: Float[Array, "S H d"]) -> Float[Array, "S H d"]:
        """F(x_1), on the way from x_T = 0 without noise."""

        def denoised(denoiser: Denoiser, noisy: Array, step: Array) -> tuple[Array, None]:
            now, before = signal(step), signal(step - 1)
            estimate = denoiser(noisy, step[None, None], condition)
            noise = (noisy - jnp.sqrt(now) * estimate) / jnp.sqrt(1.0 - now)
            return jnp.sqrt(before) * estimate + jnp.sqrt(1.0 - before) * noise, None

        # A loop: unrolled, the denoiser would be compiled T times.  x_0 is F(x_1), as a_0 = 1.
        steps = nn.scan(denoised, variable_broadcast="params", split_rngs={"params": False})
        return steps(self.denoiser, jnp.zeros_like(condition), jnp.arange(STEPS, 0, -1))[0]


def signal(step: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """a_t: the share of the embedding in the variance of x_t; 1 at step 0."""
    return jnp.square(jnp.cos(0.5 * jnp.pi * step / (STEPS + 1)))


MODEL = ModelSpec(
    table_model(KGDM),
    per_entity=("embedding", "tail_bias"),
    reads_facts=True,
    second_loss=lambda _: found_in_forward_pass,
)
