"""The order core as parts of a model: their arrays among the parameters, and what scoring needs of them."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.models.batch_norm import STATISTICS
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.order_core.reach import BINS
from numcoke_jax.models.order_core.score import ClassPositions, OrderPositions

ORDER_ROWS = ("entity_position", "entity_width", "entity_membership")
CLASS_ROWS = ("entity_position", "entity_width", "entity_lower", "entity_upper")
PER_ENTITY = tuple(dict.fromkeys((*ORDER_ROWS, *CLASS_ROWS)))


class FittedColumns(nn.Module):
    """Arrays with a column for each of some relations.

    They are parameters that are inferred (`fit`), never trained: no gradient reaches them, and a step writes
    them back as they were, so that weight decay does not either.

    Attributes:
      sizes: N, R and M.
      rows: names of the arrays with a row for each entity.
    """

    sizes: GraphSizes
    rows: ClassVar[tuple[str, ...]]

    @property
    def relations(self) -> tuple[int, ...]:
        """The ids of the relations."""
        raise NotImplementedError

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays by name."""
        columns = len(self.relations)
        return dict.fromkeys(self.rows, (self.sizes.entities, columns)) | {"noise": (columns,)}

    def setup(self) -> None:
        self.arrays = {
            name: self.param(name, nn.initializers.ones_init(), shape) for name, shape in self.shapes.items()
        }

    def decides(self, relations: Int[Array, " S"]) -> Bool[Array, " S"]:
        """Whether a relation has a column."""
        return jnp.asarray(self._columns() >= 0)[relations]

    def of(self, relations: Int[Array, " S"], *names: str) -> tuple[Float[Array, "..."], ...]:
        """Arrays of entities as [S, N], others as [S, ...]; those of other relations mean nothing."""
        columns = jnp.asarray(np.maximum(self._columns(), 0))[relations]
        arrays = [lax.stop_gradient(self.arrays[name]) for name in names]
        return tuple(
            (array.T if name in PER_ENTITY else array)[columns]
            for name, array in zip(names, arrays, strict=True)
        )

    def keep(self) -> None:
        """Has the step that calls it write the arrays back unchanged."""
        for name, array in self.arrays.items():
            value = lax.stop_gradient(array)
            self.sow(STATISTICS, name, value, init_fn=lambda: None, reduce_fn=lambda _, last: last)

    def _columns(self) -> np.ndarray:
        """int32 [R], the column of each relation; -1 if it has none."""
        columns = np.full(self.sizes.relations, -1, np.int32)
        columns[list(self.relations)] = np.arange(len(self.relations))
        return columns


class OrderCore(FittedColumns):
    """Positions of N entities under the C relations that compare, `sizes.ordered` but the inverses.

    An inverse has its relation's column, with the positions' sign changed: the same scale, read downwards.
    """

    rows = ORDER_ROWS

    @property
    def relations(self) -> tuple[int, ...]:
        return tuple(relation for relation in self.sizes.ordered if relation < self.sizes.own_relations)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        columns = len(self.relations)
        learned = {"reversed_share": (columns,), "reach": (columns, BINS)}
        # At least one column, of zeros: a checkpoint cannot hold an array without entries.
        return super().shapes | learned | {"field_weight": (self.sizes.relations, max(self.sizes.fields, 1))}

    def __call__(self, relations: Int[Array, " S"]) -> OrderPositions:
        """Positions under S relations; those of a relation that does not compare mean nothing."""
        positions = OrderPositions(*self.of(relations, *ORDER_ROWS, "noise", "reversed_share", "reach"))
        if self.sizes.first_inverse is None:
            return positions
        downwards = (relations >= self.sizes.first_inverse)[:, None]
        mean = jnp.where(downwards, -positions.mean, positions.mean)
        return dataclasses.replace(positions, mean=mean)

    def _columns(self) -> np.ndarray:
        columns, first = super()._columns(), self.sizes.first_inverse
        if first is not None:
            columns[first:] = columns[:first]
        return columns


class ValueClasses(FittedColumns):
    """Positions and intervals of N entities under relations that are read off a value, `sizes.classes`."""

    rows = CLASS_ROWS

    @property
    def relations(self) -> tuple[int, ...]:
        return self.sizes.classes

    def __call__(self, relations: Int[Array, " S"]) -> ClassPositions:
        """Positions and intervals under S relations; those of other relations mean nothing."""
        return ClassPositions(*self.of(relations, *CLASS_ROWS, "noise"))


def fit(
    graph: NumericGraph, quantiles: Float[np.ndarray, "N M"], ordered: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The parameters of an `OrderCore`, float64, from the training facts and the values.

    Validation facts only tell how noisy facts are.

    Args:
      graph: the facts.
      quantiles: of the observed values, in (0, 1); NaN where missing.
      ordered: ids of the relations that compare, at least one; inverses need no fit of their own.
    """
    from numcoke_jax.models.order_core.fit import fit_orders  # with scipy: half a second, for a fit alone
    from numcoke_jax.models.order_core.value_scores import value_scores

    own = [relation for relation in ordered if relation < graph.own_relations]
    scores = value_scores(np.nan_to_num(quantiles), ~np.isnan(quantiles))
    orders = fit_orders(graph.train, own, scores, graph.valid)
    weights = np.zeros((graph.num_relations, max(graph.num_fields, 1)))
    weights[own, : graph.num_fields] = orders.weights
    if graph.first_inverse is not None:
        weights[graph.first_inverse :] = -weights[: graph.first_inverse]
    return {
        "entity_position": orders.mean,
        "entity_width": orders.width,
        "entity_membership": orders.membership,
        "noise": orders.noise,
        "reversed_share": orders.reversed_share,
        "reach": orders.reach,
        "field_weight": weights,
    }


def fit_classes(
    graph: NumericGraph, quantiles: Float[np.ndarray, "N M"], classes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The parameters of `ValueClasses`, as `fit` has those of an `OrderCore`.

    A relation that another version of the graph no longer classifies has no class.
    """
    from numcoke_jax.models.order_core.classes import class_relations
    from numcoke_jax.models.order_core.value_scores import value_scores

    scores = value_scores(np.nan_to_num(quantiles), ~np.isnan(quantiles))
    found = class_relations(graph.train, graph.own_relations, scores)
    arrays = {name: np.zeros((graph.num_entities, len(classes))) for name in CLASS_ROWS}
    noise = np.ones(len(classes))
    for column, relation in enumerate(classes):
        if (classified := found.get(relation)) is None:
            continue
        arrays["entity_position"][:, column] = scores.filled[:, classified.field]
        arrays["entity_width"][:, column] = np.sqrt(scores.variances[:, classified.field])
        arrays["entity_lower"][:, column] = classified.lower
        arrays["entity_upper"][:, column] = classified.upper
        noise[column] = classified.noise
    return arrays | {"noise": noise}
