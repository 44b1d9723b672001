"""The order core as a part of a model: its arrays among the parameters, and the positions for scoring."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.models.batch_norm import STATISTICS
from numcoke_jax.models.interface import GraphSizes
from numcoke_jax.models.order_core.fit import fit_orders
from numcoke_jax.models.order_core.reach import BINS
from numcoke_jax.models.order_core.score import OrderPositions
from numcoke_jax.models.order_core.value_scores import value_scores

PER_ENTITY = ("entity_position", "entity_width", "entity_membership")


class OrderCore(nn.Module):
    """Positions of N entities under the relations that compare.

    Its parameters are inferred (`fit`), never trained: no gradient reaches them, and a step writes them back
    as they were, so that weight decay does not either.

    Attributes:
      sizes: N, R and M; `sizes.ordered` are the C relations that compare.
    """

    sizes: GraphSizes

    def setup(self) -> None:
        entities, columns = self.sizes.entities, len(self.sizes.ordered)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(PER_ENTITY, (entities, columns))
        shapes |= {"noise": (columns,), "reversed_share": (columns,)}
        shapes["reach"] = (columns, BINS)
        shapes["field_weight"] = (self.sizes.relations, self.sizes.fields)
        self.arrays = {
            name: self.param(name, nn.initializers.ones_init(), shape) for name, shape in shapes.items()
        }

    def decides(self, relations: Int[Array, " S"]) -> Bool[Array, " S"]:
        """Whether a relation compares."""
        return jnp.asarray(self._columns() >= 0)[relations]

    def __call__(self, relations: Int[Array, " S"]) -> OrderPositions:
        """Positions under S relations; those of a relation that does not compare mean nothing."""
        arrays = {name: lax.stop_gradient(array) for name, array in self.arrays.items()}
        columns = jnp.asarray(np.maximum(self._columns(), 0))[relations]
        position, width, membership = (arrays[name].T[columns] for name in PER_ENTITY)
        return OrderPositions(
            mean=position,
            width=width,
            membership=membership,
            noise=arrays["noise"][columns],
            reversed_share=arrays["reversed_share"][columns],
            reach=arrays["reach"][columns],
        )

    def keep(self) -> None:
        """Has the step that calls it write the arrays back unchanged."""
        for name, array in self.arrays.items():
            value = lax.stop_gradient(array)
            self.sow(STATISTICS, name, value, init_fn=lambda: None, reduce_fn=lambda _, last: last)

    def _columns(self) -> np.ndarray:
        """int32 [R], the column of each relation; -1 if it does not compare."""
        columns = np.full(self.sizes.relations, -1, np.int32)
        columns[list(self.sizes.ordered)] = np.arange(len(self.sizes.ordered))
        return columns


def fit(
    graph: NumericGraph, quantiles: Float[np.ndarray, "N M"], ordered: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The parameters of an `OrderCore`, float64, from the training facts and the values.

    Args:
      graph: the facts.
      quantiles: of the observed values, in (0, 1); NaN where missing.
      ordered: ids of the relations that compare, at least one.
    """
    scores = value_scores(np.nan_to_num(quantiles), ~np.isnan(quantiles))
    orders = fit_orders(graph.train, ordered, scores)
    weights = np.zeros((graph.num_relations, graph.num_fields))
    weights[list(ordered)] = orders.weights
    return {
        "entity_position": orders.mean,
        "entity_width": orders.width,
        "entity_membership": orders.membership,
        "noise": orders.noise,
        "reversed_share": orders.reversed_share,
        "reach": orders.reach,
        "field_weight": weights,
    }
