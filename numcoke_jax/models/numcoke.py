"""NumCoKE: mixture-of-experts knowledge-aware encoder, translation and order score.

Source: "NumCoKE: Ordinal-Aware Numerical Reasoning over Knowledge Graphs with Mixture-of-Experts and
Contrastive Learning", AAAI 2026.  Each part has a file in this folder; this one wires them together.  The
loss it is trained with is in `losses/`.
"""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.attention import PerceptualAttention
from numcoke_jax.models.batch_norm import real_queries
from numcoke_jax.models.encoded import CLASSES, ORDER, EncodedEntities
from numcoke_jax.models.experts import MixtureOfExperts
from numcoke_jax.models.fusion import KnowledgeFusion
from numcoke_jax.models.interface import EncodeThenScore, GraphSizes, ModelSpec, SecondLoss, SumAndCount
from numcoke_jax.models.losses.contrastive import ContrastiveSettings, ordinal_contrastive_loss
from numcoke_jax.models.numeric_embedding import NumericValueEmbedding
from numcoke_jax.models.ops.tiles import cut, join, tile_count
from numcoke_jax.models.order_core import core
from numcoke_jax.models.order_core import score as core_score
from numcoke_jax.models.score import DecodedOrderScore, total
from numcoke_jax.models.tucker import core_tensor

# Rows (slot, entity) encoded at once.  Measured on 2 cores at S 4, N 64,000, d 200: 0.6 of the time of a
# single tile, which overflows the caches.  An accelerator needs many rows to be busy: there, tiles only
# bound memory.
ROWS_ON_CPU = 4096
ROWS_ELSEWHERE = 2**17


def rows_at_once() -> int:
    """How many (slot, entity) rows of [S, N] are encoded at once."""
    return ROWS_ON_CPU if jax.default_backend() == "cpu" else ROWS_ELSEWHERE


class EntityRows(NamedTuple):
    """What the encoder gets for each entity."""

    features: Any  # float32 [n, d], e~
    noise: Any  # float32 [S, n, K], of the gate, or None
    coefficients: Any  # of the values, float32 [n, M, Q] or `ObservedCells`, or None


class NumCoKE(EncodeThenScore):
    """Encodes all N entities under S relations once, then scores heads against that table.

    An encoding depends on (entity, relation), not on the query; in training the gating noise and the
    tails' dropout mask of a slot are therefore shared by the slot's queries.

    Attributes:
      sizes: N, R and M.
      dim: d.
      numeric, experts, attention, fusion, score_term: the parts; see their files.
      order_core: the extension that decides all relations that compare (`sizes.ordered`), or None if there is
        none.
      value_classes: its part for relations that are read off the head's value (`sizes.classes`), or None.  If
        the two decide all relations, there is no encoder.
      entity_dropout: share of entities whose embedding is replaced, for a training step, by one learned
        "unknown" vector, so that the rest of the model has to work from the attributes (an extension).
      unseen: number of entities, the last ones, that were not part of training: the unknown vector, if one
        was learned, stands for them too.
    """

    sizes: GraphSizes
    dim: int
    numeric: NumericValueEmbedding
    experts: MixtureOfExperts
    attention: PerceptualAttention
    fusion: KnowledgeFusion
    score_term: DecodedOrderScore
    order_core: core.OrderCore | None = None
    value_classes: core.ValueClasses | None = None
    entity_dropout: float = 0.0
    unseen: int = 0

    def setup(self) -> None:
        if not self.encodes:
            return
        vectors = nn.initializers.xavier_normal()
        self.entity_embedding = self.param("entity_embedding", vectors, (self.sizes.entities, self.dim))
        if self.entity_dropout:
            self.unknown_entity = self.param("unknown_entity", nn.initializers.normal(0.1), (self.dim,))
        self.relation_embedding = self.param("relation_embedding", vectors, (self.sizes.relations, self.dim))

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> EncodedEntities:
        """e_att of every entity under each relation, and what else scoring needs."""
        inferred = self._inferred(relations, train=train)
        if not self.encodes:
            return EncodedEntities(None, None, None, **inferred)
        features, slots = self._features(train=train), len(relations)
        noise = self.experts.draw_noise(slots, len(features), train=train)
        # Readers of intermediates want the weights of all fields, and all entities in one array.
        at_once = self.is_initializing() or self.is_mutable_collection("intermediates")
        coefficients, basis = None, None
        if self.sizes.fields:  # a graph without literals has no attributes to attend to or to fuse
            by_cells = literals.cells is not None and not at_once
            coefficients, basis = self.numeric(literals, by_cells=by_cells)
        rows = EntityRows(features, noise, coefficients)
        count = tile_count(len(features), -(-slots * len(features) // rows_at_once()))
        if count == 1 or at_once:
            entities, projected = self._encode_rows(rows, basis, relations)
        else:
            entities, projected = self._encode_by_tiles(rows, basis, relations, count)
        return EncodedEntities(
            entities=entities,
            relations=self.relation_embedding[relations],
            projected=projected,
            **inferred,
        )

    def _inferred(self, relations: Int[Array, " S"], *, train: bool) -> dict[str, Any]:
        """What the parts that are not trained say about the entities under each relation."""
        found: dict[str, Any] = {}
        parts = (("order", "decided", self.order_core), ("classes", "classified", self.value_classes))
        for name, mask, part in parts:
            if part is not None:
                found |= {name: part(relations), mask: part.decides(relations)}
                if train:
                    part.keep()
        return found

    def _encode_rows(
        self, rows: "EntityRows", basis: Float[Array, "M Q a"] | None, relations: Int[Array, " S"]
    ) -> tuple[Float[Array, "S n d"], Float[Array, "S n d"] | None]:
        """e_att and W_r e_att of some entities: each needs only its own row."""
        entities = self.experts.mix(rows.features, relations, rows.noise)
        if rows.coefficients is not None and basis is not None:
            vectors = self.relation_embedding[relations]
            attributes, _ = self.attention(entities, vectors, rows.coefficients, basis)
            entities = self.fusion(entities, attributes)
        return entities, self.score_term.project(entities, relations)

    def _encode_by_tiles(
        self,
        rows: "EntityRows",
        basis: Float[Array, "M Q a"] | None,
        relations: Int[Array, " S"],
        count: int,
    ) -> tuple[Float[Array, "S N d"], Float[Array, "S N d"] | None]:
        """`_encode_rows` of all entities; the backward pass recomputes what is inside a tile."""
        model, variables = self.unbind()

        @jax.checkpoint
        def encode_tile(tile: EntityRows) -> Any:
            return model.apply(variables, tile, basis, relations, method="_encode_rows")

        tiles = EntityRows(
            *(
                jax.tree.map(functools.partial(cut, axis=axis, count=count), part)
                for part, axis in zip(rows, EntityRows(0, 1, 0), strict=True)
            )
        )
        encoded = jax.lax.map(encode_tile, tiles)
        return jax.tree.map(lambda tiles: join(tiles, 1, len(rows.features)), encoded)

    def score(
        self, encoded: EncodedEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        return total(self.terms(encoded, heads, train=train))

    def terms(
        self, encoded: EncodedEntities, heads: Int[Array, "S H"], *, train: bool
    ) -> dict[str, Float[Array, "S H N"]]:
        """What the score is the sum of, by name; 0 in a slot whose relation another part decides."""
        found = {}
        if self.encodes:
            real = real_queries(self, heads)
            found = self.score_term.terms(encoded, heads, train=train, real=real)
        if train and self.encodes:  # no query of training is about a relation that another part decides
            return found
        inferred = []
        if encoded.order is not None:
            inferred.append((ORDER, encoded.decided, core_score.order_logits(encoded.order, heads)))
        if encoded.classes is not None:
            inferred.append((CLASSES, encoded.classified, core_score.class_logits(encoded.classes, heads)))
        for name, slots, term in inferred:
            decided = slots[:, None, None]
            found = {other: jnp.where(decided, 0.0, value) for other, value in found.items()}
            found[name] = jnp.where(decided, term, 0.0)
        return found

    @property
    def encodes(self) -> bool:
        """Whether there is a relation that is left to the encoder."""
        return len(self.sizes.ordered) + len(self.sizes.classes) < self.sizes.relations

    def fit(self, graph: NumericGraph, positions: np.ndarray, *, seed: int) -> dict[str, Any]:
        """The parameters of order core and value classes, if there are any (see `FittedModel`)."""
        del seed  # nothing is drawn
        found = {}
        if self.order_core is not None:
            found["order_core"] = core.fit(graph, positions, self.sizes.ordered)
            if self.unseen:  # whoever asks about them takes them for members
                found["order_core"]["entity_membership"][-self.unseen :] = 1.0
        if self.value_classes is not None:
            found["value_classes"] = core.fit_classes(graph, positions, self.sizes.classes)
        return found

    def _features(self, *, train: bool) -> Float[Array, "N d"]:
        """e~, with the entities of this step's dropout replaced by the unknown one."""
        if self.entity_dropout and self.unseen:
            unknown = jnp.arange(self.sizes.entities)[:, None] >= self.sizes.entities - self.unseen
            return jnp.where(unknown, self.unknown_entity, self.entity_embedding)
        if not (train and self.entity_dropout):
            return self.entity_embedding
        shape = (self.sizes.entities, 1)
        dropped = jax.random.bernoulli(self.make_rng("entity_dropout"), self.entity_dropout, shape)
        return jnp.where(dropped, self.unknown_entity, self.entity_embedding)


def contrastive_loss(config: ConfigDict) -> SecondLoss:
    """`losses/contrastive.py` of the encodings."""
    switches = {name: value for name, value in config.okcl.items() if name != "weight"}
    settings = ContrastiveSettings(norm=config.score.norm, **switches)

    def loss(encoded: EncodedEntities, logits: Array, batch: Batch, *, key: Key[Array, ""]) -> SumAndCount:
        del logits  # it works on the encodings alone
        vectors = (encoded.entities, encoded.relations)
        return ordinal_contrastive_loss(*vectors, batch, settings=settings, key=key)

    return loss


def from_config(config: ConfigDict, sizes: GraphSizes) -> NumCoKE:
    """The model that `config` describes for a graph of the given sizes."""
    score, rounding = dict(config.score), {"products": config.model.products}
    core_of_decoder = core_tensor(config, sizes)
    del score["order_core"]  # decided with the graph: `sizes.ordered`
    return NumCoKE(
        sizes=sizes,
        dim=config.model.dim,
        numeric=NumericValueEmbedding(
            num_fields=sizes.fields, attribute_dim=config.model.attribute_dim, **config.numeric
        ),
        experts=MixtureOfExperts(num_relations=sizes.relations, **config.experts, **rounding),
        attention=PerceptualAttention(
            skip_missing=config.numeric.missing == "skip", **config.attention, **rounding
        ),
        fusion=KnowledgeFusion(**config.fusion, **rounding),
        score_term=DecodedOrderScore(
            num_relations=sizes.relations,
            dim=config.model.dim,
            core_tensor=core_of_decoder if config.score.decoder == "tucker" else None,
            **score,
            **rounding,
        ),
        order_core=core.OrderCore(sizes) if sizes.ordered else None,
        value_classes=core.ValueClasses(sizes) if sizes.classes else None,
        entity_dropout=config.train.entity_dropout,
    )


MODEL = ModelSpec(
    from_config, per_entity=("entity_embedding", *core.PER_ENTITY), second_loss=contrastive_loss
)
