"""SimGCL: entities averaged over their neighbourhoods; two noisy views of each must resemble each other.

Source: Yu et al., "Are Graph Augmentations Necessary? Simple Graph Contrastive Learning for
Recommendation", SIGIR 2022, on LightGCN.  Users and items are the entities here, linked where a training
fact links them; relations enter by the translation score, since recommendation has none.

    E^l   = D^(-1/2) A D^(-1/2) E^(l-1) + noise          E^0: the entity table; A_ij counts facts of i and j
    e     = mean of E^1 .. E^L                           no noise in the vectors that are scored
    noise = epsilon u * sign(E^l), u uniform in [0, 1]^d scaled to length 1
    score = margin - ||e_h + r - e_t||_p
    loss  = BCE + lambda mean_i -log(exp(cos(e'_i, e''_i) / tau) / sum_j exp(cos(e'_i, e''_j) / tau))

e' and e'' are the two views; i runs over the heads of the step, each once per query that it heads; j over all
entities.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.entity_table import PropagatingModel, table_model
from numcoke_jax.models.interface import ModelSpec, SecondLoss, SharedVectors, SumAndCount

TINY = 1e-12  # smallest squared norm that is distinguished from 0


@struct.dataclass
class Views:
    """What scoring needs, and in training the two noisy views."""

    scored: SharedVectors
    noisy: Any = None  # float32 [2, N, d]


class SimGCL(PropagatingModel):
    """Averages the entities of each neighbourhood.

    Attributes:
      noise: epsilon; 0 makes both views the same.
    """

    noise: float

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], Views]:
        """Logits of every entity as tail of each (head, relation), and in training the views."""
        entities = self.entities(literals, train=train)
        vectors = self._mean_of_layers(entities, literals)
        encoded = Views(SharedVectors(vectors, self.relation_embedding[relations]))
        logits = self.score(encoded, heads, train=train)
        if not train:
            return logits, encoded
        keys = jax.random.split(self.make_rng("view_noise"), 2)
        views = jnp.stack([self._mean_of_layers(entities, literals, key=key) for key in keys])
        return logits, encoded.replace(noisy=views)  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Views:
        entities = self._mean_of_layers(self.entities(literals, train=train), literals)
        return Views(SharedVectors(entities, self.relation_embedding[relations]))

    def _mean_of_layers(
        self, entities: Float[Array, "N d"], literals: Literals, *, key: Any = None
    ) -> Float[Array, "N d"]:
        layers = []
        for layer in range(self.layers):
            entities = propagate(entities, literals.facts)
            if key is not None:
                draws = jax.random.uniform(jax.random.fold_in(key, layer), entities.shape, entities.dtype)
                length = jnp.sqrt(jnp.square(draws).sum(-1, keepdims=True))
                entities += self.noise * draws / length * jnp.sign(entities)
            layers.append(entities)
        return jnp.stack(layers).mean(0)


def propagate(entities: Float[Array, "N d"], facts: Int[Array, "n 3"]) -> Float[Array, "N d"]:
    """D^(-1/2) A D^(-1/2) E with A_ij the number of facts between i and j, in either direction."""
    source = jnp.concatenate([facts[:, 0], facts[:, 2]])
    target = jnp.concatenate([facts[:, 2], facts[:, 0]])
    count = entities.shape[0]
    degree = jax.ops.segment_sum(jnp.ones(source.shape, entities.dtype), target, count)
    scale = jnp.where(degree > 0, 1.0 / jnp.sqrt(jnp.maximum(degree, 1.0)), 0.0)[:, None]
    return scale * jax.ops.segment_sum((scale * entities)[source], target, count)


def view_contrastive_loss(views: Float[Array, "2 N d"], batch: Batch, *, temperature: float) -> SumAndCount:
    """Sum over the batch's real queries, and their number."""
    squares = jnp.maximum(jnp.square(views).sum(-1, keepdims=True), TINY)
    first, second = views / jnp.sqrt(squares)
    logits = first[batch.heads] @ second.T / temperature  # [S, H, N], as many as the score has
    own = jnp.take_along_axis(logits, batch.heads[..., None], axis=-1)[..., 0]
    losses = jax.nn.logsumexp(logits, axis=-1) - own
    mask = batch.mask.astype(losses.dtype)
    return (mask * losses).sum(), mask.sum()


def view_loss(config: ConfigDict) -> SecondLoss:
    """`view_contrastive_loss` of the two views."""
    temperature = config.okcl.temperature

    def loss(encoded: Views, logits: Array, batch: Batch, *, key: Key[Array, ""]) -> SumAndCount:
        del logits, key  # the noise is drawn in the model
        return view_contrastive_loss(encoded.noisy, batch, temperature=temperature)

    return loss


MODEL = ModelSpec(
    table_model(SimGCL, "graph.layers", "graph.noise", "score.norm", "score.margin"),
    per_entity=("embedding",),
    reads_facts=True,
    second_loss=view_loss,
)
