"""RulE: RotatE, vectors of mined rules, and how often each rule leads from the head to a tail.

Source: Tang et al., "RulE: Knowledge Graph Reasoning with Rule Embedding", Findings of ACL 2024, with its
public code.  The table of the NumCoKE paper calls it RuIE, and its bibliography names another paper of that
spelling, which is about information extraction; "logical rules to enhance reasoning" is this one.

    f(h, r, t) = epsilon - sum over entries |h * exp(i a_r) - t|        complex vectors of d / 2 entries
    w_k        = 5 - u mean |sum over the body of +-a + z_k - a_r|      rule k of r; - for inverses
    g(h, r, t) = v relu(norm(sum over rules of count_k(h, t) w_k m_k))          m_k of `FEATURES` numbers
    score      = f + g + b_t                                            g is 0 where no rule leads to t
    loss       = BCE + lambda mean of softplus(-w_k) + softplus(w_k*)   k*: one relation of k replaced

u = (epsilon + 2) / pi: that code stores angles in units of which a whole vector sums up to about epsilon.

count_k is n / (1 + n) of the number n of ways along training facts that the rule's body describes, where the
paper has n itself.  That paper mines rules with another program; here they come from the training facts
before the first step (`mined_rules.py`).  It trains f and w first and g after; here all is trained at once,
with this package's BCE.  The public code's w_k has an entry for each of the d / 2 angles, here it is one
number.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jaxtyping import Array, Float, Int, Key

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.complex import complex_product, rotations, sum_of_moduli
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SumAndCount, found_in_forward_pass
from numcoke_jax.models.mined_rules import RULES, mined
from numcoke_jax.models.rotate import any_angle

FEATURES = 16
RULE_MARGIN, PADDING = 5.0, 2.0  # that code's, for UMLS


@struct.dataclass
class RulesInForce:
    """What scoring under S relations needs; in training, the loss of the rules."""

    entities: Any  # float32 [N, d], real parts first
    angles: Any  # float32 [S, d / 2]
    bodies: Any  # int32 [S, K, 2], see `mined_rules.py`
    features: Any  # float32 [S, K, FEATURES], w_k m_k
    facts: Any  # int32 [n, 3]
    second_loss: Any = None  # float32 scalars, and how many rules that is of


class RulE(TableModel):
    """Scores heads against the N tails by rotation and by rules.

    Attributes:
      dim: d, even.
      margin: epsilon.
    """

    margin: float

    def setup(self) -> None:
        relations, half = self.sizes.relations, self.dim // 2
        self.relation_angle = self.param("relation_angle", any_angle, (relations, half))
        none = nn.initializers.constant(-1.0)
        self.fixed_rules = self.param("fixed_rules", none, (relations, RULES, 2))
        small = nn.initializers.normal(0.1)
        self.rule_vector = self.param("rule_vector", small, (relations, RULES, half))
        spread = nn.initializers.normal(1.0)
        self.rule_features = self.param("rule_features", spread, (relations, RULES, FEATURES))
        self.norm, self.output = nn.LayerNorm(), nn.Dense(1, use_bias=False)
        self.tail_bias = self.param("tail_bias", nn.initializers.zeros_init(), (self.sizes.entities,))

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> dict[str, Any]:
        """The rules that the training facts bear out; an inverse relation has those of its relation, turned.

        Mined from its own facts, it would have the rule that it is the inverse, which no unseen fact follows.
        """
        del positions
        own = graph.without_inverses()
        rules = mined(own.train, own.num_entities, own.num_relations, seed=seed)
        if graph.first_inverse is not None:
            rules = with_turned(rules)
        return {"fixed_rules": rules.astype(np.float32)}

    def __call__(
        self, relations: Int[Array, " S"], heads: Int[Array, "S H"], literals: Literals, *, train: bool
    ) -> tuple[Float[Array, "S H N"], RulesInForce]:
        """Logits of every entity as tail of each (head, relation), and in training the loss of the rules."""
        encoded = self.encode(relations, literals, train=train)
        logits = self.score(encoded, heads, train=train)
        if not train:
            return logits, encoded
        loss = self._rule_loss(self.make_rng("view_noise"))
        return logits, encoded.replace(second_loss=loss)  # type: ignore[attr-defined]

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RulesInForce:
        """The entity table, the relations' angles and rules."""
        bodies = self._bodies()
        weights = self._weights(bodies)[relations]
        return RulesInForce(
            entities=self.entities(literals, train=train),
            angles=self.relation_angle[relations],
            bodies=bodies[relations],
            features=weights[..., None] * self.rule_features[relations],
            facts=literals.facts,
        )

    def score(self, encoded: RulesInForce, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        del train  # dropout is applied in the entity table
        relations, entities = self.sizes.relations, len(encoded.entities)

        def count(bodies: Array, heads: Array) -> Array:
            return ways(bodies, heads, encoded.facts, relations=relations, entities=entities)

        counts = jax.vmap(count)(encoded.bodies, heads)  # [S, K, H, N]
        counts = counts / (1.0 + counts)
        features = jnp.einsum("skhn,skf->shnf", counts, encoded.features)
        by_rules = self.output(nn.relu(self.norm(features)))[..., 0]
        reached = counts.sum(1) > 0.0
        return self._rotation(encoded, heads) + jnp.where(reached, by_rules, 0.0) + self.tail_bias

    def _rotation(self, encoded: RulesInForce, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
        turned = complex_product(encoded.entities[heads], rotations(encoded.angles)[:, None])
        return self.margin - sum_of_moduli(turned, encoded.entities)

    def _bodies(self) -> Int[Array, "R K 2"]:
        highest = 2 * self.sizes.relations - 1
        return jnp.clip(jnp.round(self.fixed_rules), -1, highest).astype(jnp.int32)

    def _weights(self, bodies: Int[Array, "R K 2"]) -> Float[Array, "R K"]:
        """w_k."""
        both_ways = jnp.concatenate([self.relation_angle, -self.relation_angle])
        angles = jnp.where((bodies >= 0)[..., None], both_ways[bodies], 0.0).sum(2)
        away = jnp.abs(angles + self.rule_vector - self.relation_angle[:, None]).mean(-1)
        return RULE_MARGIN - (self.margin + PADDING) / math.pi * away

    def _rule_loss(self, key: Key[Array, ""]) -> SumAndCount:
        bodies = self._bodies()
        of_places, of_relations = jax.random.split(key)
        lengths = (bodies >= 0).sum(-1)
        # A number below the length, and another relation than the one at that place.
        place = jax.random.randint(of_places, lengths.shape, 0, jnp.maximum(lengths, 1))
        shift = jax.random.randint(of_relations, lengths.shape, 1, 2 * self.sizes.relations)
        other = (bodies + shift[..., None]) % (2 * self.sizes.relations)
        replaced = jnp.where(jnp.arange(2) == place[..., None], other, bodies)
        exists = (lengths > 0).astype(self.rule_vector.dtype)
        losses = nn.softplus(-self._weights(bodies)) + nn.softplus(self._weights(replaced))
        return (exists * losses).sum(), exists.sum()


def ways(
    bodies: Int[Array, "K 2"],
    heads: Int[Array, " H"],
    facts: Int[Array, "n 3"],
    *,
    relations: int,
    entities: int,
) -> Float[Array, "K H N"]:
    """How often each rule's body leads from each head to each entity; 0 if there is no such rule."""
    start = jax.nn.one_hot(heads, entities).T  # [N, H]

    def along(relation: Array, reached: Array) -> Array:
        ends = facts[:, 0], facts[:, 2]
        forward = relation < relations
        source, target = jnp.where(forward, *ends), jnp.where(forward, *ends[::-1])
        of_relation = (facts[:, 1] == relation % relations).astype(reached.dtype)
        return jax.ops.segment_sum(of_relation[:, None] * reached[source], target, entities)

    def of_rule(body: Array) -> Array:
        once = along(body[0], start)
        reached = jnp.where(body[1] >= 0, along(body[1], once), once)
        return jnp.where(body[0] >= 0, reached, 0.0).T

    return lax.map(of_rule, bodies)


def with_turned(rules: Int[np.ndarray, "R K 2"]) -> Int[np.ndarray, "double K 2"]:
    """The rules of R relations and of their R inverses, numbered for 2 R relations.

    r(h, t) <- a(h, x), b(x, t) gives (t, inverse of r, h) <- b(x, t), a(h, x), each read backwards.
    """
    count = len(rules)
    backwards = np.where(rules >= 0, (rules + count) % (2 * count), -1)
    two = rules[..., 1:] >= 0
    every = np.concatenate([rules, np.where(two, backwards[..., ::-1], backwards)])
    return np.where(every >= count, every + count, every)  # 2 R and on: facts read backwards


MODEL = ModelSpec(
    table_model(RulE, "score.margin"),
    per_entity=("embedding", "tail_bias"),
    reads_facts=True,
    second_loss=found_in_forward_pass,
)
