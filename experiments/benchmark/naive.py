"""NumCoKE query by query, as the equations read: the benchmarks' yardstick, tested to equal the package.

For each query (h, r) all N entities are encoded anew, with the attribute vectors o_im [N, M, a] written out
and every operator applied to them, and scored by subtracting whole tables.  The cost is O(B N M d), as when
an encoder is called for every pair.  Only the default switches exist here, without noise and dropout.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from experiments.benchmark.problem import RELATIONS, Sizes, config_of, random_batch, random_literals
from numcoke_jax.config.schema import default_config
from numcoke_jax.data.literals import Literals
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.system import random_streams

DEFAULTS = default_config()
NEGATIVE_SLOPE = 0.2


def entity_embeddings(params: Any, relation: Int[Array, ""]) -> Float[Array, "N d"]:
    """e = sum_k F_k H_k under one relation."""
    features, experts = params["entity_embedding"], params["experts"]
    views = jnp.stack(
        [
            features + features @ kernel + bias
            for kernel, bias in zip(experts["kernel"], experts["bias"], strict=True)
        ]
    )  # [K, N, d]
    temperature = jax.nn.sigmoid(experts["relation_temperature"][relation])
    gate = jax.nn.softmax(views @ experts["gate_logit"]["kernel"] / temperature, axis=0)
    return (gate * views).sum(0)


def attribute_vectors(params: Any, literals: Literals) -> Float[Array, "N M a"]:
    """o_im."""
    numeric = params["numeric"]
    fields = numeric["field_embedding"]
    offset = jnp.stack([w @ v for w, v in zip(numeric["transform"], fields, strict=True)]) + numeric["bias"]
    observed = offset + literals.values[..., None] * (numeric["value_weight"][:, 0] * fields)
    return jnp.where(literals.observed[..., None], observed, numeric["missing_embedding"])


def joint_attributes(
    params: Any, entities: Float[Array, "N d"], relation: Float[Array, " d"], vectors: Float[Array, "N M a"]
) -> Float[Array, "N a"]:
    """Knowledge perceptual attention: o_joint of every entity."""
    attention, share = params["attention"], DEFAULTS.attention.relation_weight
    of_entity, of_relation = attention["entity_projection"], attention["relation_projection"]
    query = (1.0 - share) * jnp.tanh(entities @ of_entity["kernel"] + of_entity["bias"])
    query = query + share * jnp.tanh(relation @ of_relation["kernel"] + of_relation["bias"])
    outputs = []
    for head in range(DEFAULTS.attention.heads):
        pairs = jnp.broadcast_to(query[:, None], vectors.shape)
        scores = (pairs * vectors) @ attention["product"][head]
        scores = scores + (pairs - vectors) @ attention["difference"][head]
        scores = scores + jnp.concatenate([pairs, vectors], -1) @ attention["concatenation"][head]
        weights = jax.nn.softmax(jax.nn.leaky_relu(scores, NEGATIVE_SLOPE), axis=-1)
        values = vectors @ attention["aggregation"][head].T
        outputs.append((weights[..., None] * values).sum(1))
    return jnp.concatenate(outputs, axis=-1)


def encoded_entities(params: Any, relation: Int[Array, ""], literals: Literals) -> Float[Array, "N d"]:
    """e_att of every entity under one relation."""
    entities, fusion = entity_embeddings(params, relation), params["fusion"]
    vectors = attribute_vectors(params, literals)
    attributes = joint_attributes(params, entities, params["relation_embedding"][relation], vectors)
    gate = jax.nn.sigmoid(
        entities @ fusion["entity_gate"]["kernel"]
        + attributes @ fusion["attribute_gate"]["kernel"]
        + fusion["bias"]
    )
    both = jnp.concatenate([entities, attributes], axis=-1)
    joint = jnp.tanh(both @ fusion["joint"]["kernel"] + fusion["joint"]["bias"])
    return (1.0 - gate) * entities + gate * joint


def logits(
    params: Any, relation: Int[Array, ""], head: Int[Array, ""], literals: Literals
) -> Float[Array, " N"]:
    """The score of every entity as the tail of (head, relation): L1 translation and rewarded order."""
    table, score = encoded_entities(params, relation, literals), DEFAULTS.score
    distances = jnp.abs(table[head] + params["relation_embedding"][relation] - table).sum(-1)
    projection = params["score_term"]["order_projection"][relation]
    above = jnp.maximum(projection @ table[head] - table @ projection.T, 0.0)
    return score.margin - distances + score.order_weight * jnp.square(above).sum(-1)


def loss(
    params: Any,
    relations: Int[Array, " B"],
    heads: Int[Array, " B"],
    labels: Bool[Array, "B N"],
    literals: Literals,
) -> Float[Array, ""]:
    """Mean binary cross-entropy of all queries and entities, one query after the other."""

    @jax.checkpoint  # or the backward pass would keep [B, N, M, a]
    def of_query(query: tuple[Array, Array, Array]) -> Array:
        relation, head, label = query
        scores = logits(params, relation, head, literals)
        return optax.sigmoid_binary_cross_entropy(scores, label.astype(scores.dtype)).mean()

    return jax.lax.map(of_query, (relations, heads, labels)).mean()


class NaiveStep:
    """A compiled step of Adam on `loss`, called repeatedly on its own state."""

    def __init__(self, sizes: Sizes) -> None:
        model = create_model(config_of(sizes, "paper"), GraphSizes(sizes.entities, RELATIONS, sizes.fields))
        batch, literals = random_batch(sizes, seed=1), random_literals(sizes)
        one = jnp.zeros((1,), jnp.int32)
        init = jax.jit(lambda key: model.init(key, one, one[:, None], literals, train=False)["params"])
        params = init(random_streams.base_key(0))
        optimizer = optax.adam(1e-3)
        queries = (
            jnp.repeat(batch.relations, batch.heads.shape[1]),
            batch.heads.reshape(-1),
            batch.labels.reshape(-1, sizes.entities),
        )

        def step(state: Any) -> tuple[Any, Array]:
            params, moments = state
            total, gradients = jax.value_and_grad(loss)(params, *queries, literals)
            updates, moments = optimizer.update(gradients, moments)
            return (optax.apply_updates(params, updates), moments), total

        self.state = params, optimizer.init(params)
        self.compiled: Any = jax.jit(step, donate_argnums=0).lower(self.state).compile()

    def __call__(self) -> Array:
        """Run one step and return its loss."""
        self.state, total = self.compiled(self.state)
        jax.block_until_ready(self.state)
        return total
