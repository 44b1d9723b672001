"""RulE: RotatE, vectors of mined rules, and how often each rule leads from the head to a tail.

Source: Tang et al., "RulE: Knowledge Graph Reasoning with Rule Embedding", Findings of ACL 2024, with its
public code.  The table of the NumCoKE paper calls it RuIE, and its bibliography names another paper of that
spelling, which is about information extraction; "logical rules to enhance reasoning" is this one.

    f(h, r, t) = epsilon - sum over entries |h * exp(i a_r pi / u) - t|     complex vectors of d / 2 entries
    w_k        = 5 - sum over entries |sum over the body of +-a + z_k - a_r|    rule k of r; - for inverses
    g(h, r, t) = v relu(norm(sum over rules of count_k(h, t) w_k m_k / 5))      m_k of `FEATURES` numbers
    ranked by    g + b_t + 2 f                                          g is 0 where no rule leads to t
    losses       `train.loss` of g + b_t, and `second_loss`: of f and w

u = (epsilon + 2) / (d / 2), that code's unit, in which a step of Adam turns a relation far.  An inverse
relation has the angles -a_r.  f and g are not added in training: where f has learned the facts, nothing is
left for g to learn, and neither comes out well by the other's loss.

count_k is log(1 + n) of the number n of ways along training facts that the rule's body describes, where the
paper has n itself.  That paper mines rules with another program; here they come from the training facts
before the first step (`mined_rules.py`).  It trains f and w first and g after, with w held; here all is
trained at once: a second loss of weight 0 (`okcl.weight`) leaves f as it starts.  The public code's w_k has
an entry for each of the d / 2 angles, and a Euclidean norm in training; here it is one number.  Its LayerNorm
divides by little else than its epsilon, as its w_k are small; here that is 1.
"""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.complex import complex_product, rotations, sum_of_moduli
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SumAndCount
from numcoke_jax.models.mined_rules import LENGTH, RULES, mined
from numcoke_jax.models.rotate import any_angle

FEATURES = 16
RULE_MARGIN, PADDING = 5.0, 2.0  # that code's; the first for Kinship, 8 for UMLS
ROTATION_WEIGHT = 2.0  # that code's for UMLS, 3 for Kinship
MATRIX_CELLS = 2**24  # ways are counted by matrices where those of all relations have so many at most


@struct.dataclass
class RulesInForce:
    """What scoring under S relations needs; in training, what the second loss does."""

    entities: Any  # float32 [N, d], real parts first
    angles: Any  # float32 [S, d / 2], in units of u / pi
    bodies: Any  # int32 [S, K, L], see `mined_rules.py`
    features: Any  # float32 [S, K, FEATURES], w_k m_k / 5
    facts: Any  # int32 [n, 3]
    rotation: Any = None  # float32 [S, H, N], f of the step's queries
    rule_loss: Any = None  # float32 scalar, mean over rules


class RulE(TableModel):
    """Scores heads against the N tails by rotation and by rules.

    Attributes:
      dim: d, even.
      margin: epsilon.
    """

    margin: float

    def setup(self) -> None:
        relations, half = self.sizes.relations, self.dim // 2
        self.unit = (self.margin + PADDING) / half / math.pi

        def any_of_unit(*given: Any) -> Float[Array, "R half"]:
            return self.unit * any_angle(*given)

        self.relation_angle = self.param("relation_angle", any_of_unit, (self.sizes.own_relations, half))
        none = nn.initializers.constant(-1.0)
        self.fixed_rules = self.param("fixed_rules", none, (relations, RULES, LENGTH))
        near_none, small = nn.initializers.normal(0.1 * self.unit), nn.initializers.normal(0.1)
        self.rule_vector = self.param("rule_vector", near_none, (relations, RULES, half))
        self.rule_features = self.param("rule_features", small, (relations, RULES, FEATURES))
        self.norm, self.output = nn.LayerNorm(epsilon=1.0), nn.Dense(1, use_bias=False)
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
        """What every entity is ranked by as tail of each (head, relation); in training g + b alone."""
        encoded = self.encode(relations, literals, train=train)
        logits = self.score(encoded, heads, train=train)
        if not train:
            return logits, encoded
        return logits, encoded.replace(  # type: ignore[attr-defined]
            rotation=self._rotation(encoded, heads), rule_loss=self._rule_loss(self.make_rng("view_noise"))
        )

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> RulesInForce:
        bodies = self._bodies()
        weights = self._weights(bodies)[relations] / RULE_MARGIN
        return RulesInForce(
            entities=self.entities(literals, train=train),
            angles=self._angles()[relations],
            bodies=bodies[relations],
            features=weights[..., None] * self.rule_features[relations],
            facts=literals.facts,
        )

    def score(self, encoded: RulesInForce, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """See `__call__`."""
        relations, entities = self.sizes.own_relations, len(encoded.entities)

        def count(bodies: Array, heads: Array) -> Array:
            return ways(bodies, heads, encoded.facts, relations=relations, entities=entities)

        counts = jnp.log1p(jax.vmap(count)(encoded.bodies, heads))  # [S, K, H, N]
        features = jnp.einsum("skhn,skf->shnf", counts, encoded.features)
        by_rules = self.output(nn.relu(self.norm(features)))[..., 0]
        logits = jnp.where(counts.sum(1) > 0.0, by_rules, 0.0) + self.tail_bias
        return logits if train else logits + ROTATION_WEIGHT * self._rotation(encoded, heads)

    def _rotation(self, encoded: RulesInForce, heads: Int[Array, "S H"]) -> Float[Array, "S H N"]:
        turned = complex_product(encoded.entities[heads], rotations(encoded.angles / self.unit)[:, None])
        return self.margin - sum_of_moduli(turned, encoded.entities)

    def _angles(self) -> Float[Array, "both half"]:
        """Of all relations, then of their inverses, whether the graph has these or not."""
        return jnp.concatenate([self.relation_angle, -self.relation_angle])

    def _bodies(self) -> Int[Array, "R K L"]:
        highest = 2 * self.sizes.own_relations - 1
        return jnp.clip(jnp.round(self.fixed_rules), -1, highest).astype(jnp.int32)

    def _weights(self, bodies: Int[Array, "R K L"]) -> Float[Array, "R K"]:
        """w_k."""
        angles = self._angles()
        # A product, as the gradient of looked-up rows takes many times as long on the CPU; -1 is a row of 0.
        along = jax.nn.one_hot(bodies, len(angles)).sum(2) @ angles
        away = jnp.abs(along + self.rule_vector - angles[: self.sizes.relations, None]).sum(-1)
        return RULE_MARGIN - away

    def _rule_loss(self, key: Key[Array, ""]) -> Float[Array, ""]:
        """The mean over rules of -log sigmoid(w_k) - log sigmoid(-w_k*), k*: one relation of k replaced."""
        bodies = self._bodies()
        replaced = with_one_replaced(bodies, 2 * self.sizes.own_relations, key=key)
        exists = (bodies[..., 0] >= 0).astype(self.rule_vector.dtype)
        losses = nn.softplus(-self._weights(bodies)) + nn.softplus(self._weights(replaced))
        return (exists * losses).sum() / jnp.maximum(exists.sum(), 1.0)


def with_one_replaced(bodies: Int[Array, "R K L"], count: int, *, key: Key[Array, ""]) -> Int[Array, "R K L"]:
    """The same bodies with one step of each by another of the `count` relations and inverses."""
    of_places, of_relations = jax.random.split(key)
    lengths = (bodies >= 0).sum(-1)
    place = jax.random.randint(of_places, lengths.shape, 0, jnp.maximum(lengths, 1))
    shift = jax.random.randint(of_relations, lengths.shape, 1, count)
    other = (bodies + shift[..., None]) % count
    return jnp.where(jnp.arange(LENGTH) == place[..., None], other, bodies)


def fact_loss(logits: Float[Array, "*queries N"], labels: Bool[Array, "*queries N"]) -> SumAndCount:
    """The sum over facts of -log sigmoid(f) - mean over the query's other tails of log sigmoid(-f), halved.

    And how many facts there are.  The paper draws the other tails; here are all, none weighted.
    """
    facts = labels.sum(-1)
    others = jnp.where(labels, 0.0, nn.softplus(logits)).sum(-1) / jnp.maximum((~labels).sum(-1), 1)
    losses = jnp.where(labels, nn.softplus(-logits), 0.0).sum(-1) + facts * others
    return losses.sum() / 2.0, facts.sum().astype(logits.dtype)


def second_loss(encoded: RulesInForce, logits: Array, batch: Batch, **_: Any) -> SumAndCount:
    """What f and w are trained by: the mean of `fact_loss`, plus the loss of the rules."""
    del logits
    total, facts = fact_loss(encoded.rotation, batch.labels & batch.mask[..., None])
    return total + facts * encoded.rule_loss, facts


def ways(
    bodies: Int[Array, "K L"],
    heads: Int[Array, " H"],
    facts: Int[Array, "n 3"],
    *,
    relations: int,
    entities: int,
) -> Float[Array, "K H N"]:
    """How often each rule's body leads from each head to each entity; 0 if there is no such rule."""
    by_matrix = relations * entities**2 <= MATRIX_CELLS
    along = _by_matrix if by_matrix else _by_facts
    return along(bodies, heads, facts, relations, entities)


def _by_matrix(bodies: Array, heads: Array, facts: Array, relations: int, entities: int) -> Array:
    start, of_fact, end = facts.T
    links = jnp.zeros((2 * relations, entities, entities))
    links = links.at[of_fact, start, end].add(1.0).at[of_fact + relations, end, start].add(1.0)

    def of_rule(body: Array) -> Array:
        reached = jnp.where(body[0] >= 0, links[body[0], heads], 0.0)
        for relation in body[1:]:
            reached = jnp.where(relation >= 0, reached @ links[relation], reached)
        return reached

    return lax.map(of_rule, bodies)


def _by_facts(bodies: Array, heads: Array, facts: Array, relations: int, entities: int) -> Array:
    start = jax.nn.one_hot(heads, entities).T  # [N, H]

    def along(relation: Array, reached: Array) -> Array:
        ends = facts[:, 0], facts[:, 2]
        forward = relation < relations
        source, target = jnp.where(forward, *ends), jnp.where(forward, *ends[::-1])
        of_relation = (facts[:, 1] == relation % relations).astype(reached.dtype)
        return jax.ops.segment_sum(of_relation[:, None] * reached[source], target, entities)

    def of_rule(body: Array) -> Array:
        reached = jnp.where(body[0] >= 0, along(body[0], start), 0.0)
        for relation in body[1:]:
            reached = jnp.where(relation >= 0, along(relation, reached), reached)
        return reached.T

    return lax.map(of_rule, bodies)


def with_turned(rules: Int[np.ndarray, "R K L"]) -> Int[np.ndarray, "double K L"]:
    """The rules of R relations and of their R inverses.

    r(h, t) <- a(h, x), b(x, t) gives (t, inverse of r, h) <- b(x, t), a(h, x), each read backwards.
    """
    count = len(rules)
    backwards = np.where(rules >= 0, (rules + count) % (2 * count), -1)[..., ::-1]
    filled_up_last = np.argsort(backwards < 0, axis=-1, kind="stable")
    return np.concatenate([rules, np.take_along_axis(backwards, filled_up_last, axis=-1)])


MODEL = ModelSpec(
    table_model(RulE, "score.margin"),
    per_entity=("embedding", "tail_bias"),
    reads_facts=True,
    second_loss=lambda _: second_loss,
)
