"""A run: what training loop, evaluation and checkpoints share; `create.py` makes one of a config."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from numcoke_jax.config.schema import looks_at
from numcoke_jax.data.batches import Batch, TrainBatches
from numcoke_jax.data.graph import LoadedGraph, NumericGraph
from numcoke_jax.data.literals import Literals, LiteralScale, fields_of_cells
from numcoke_jax.data.variants import NewEntities, without_unseen_relations
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models import MODELS, GraphSizes
from numcoke_jax.models.interface import FittedModel, KnowledgeModel
from numcoke_jax.system import random_streams
from numcoke_jax.training.programs import Programs
from numcoke_jax.training.step import LossSums, TrainState

# From this many fields per cell of the entity that has most, encoding works on the observed cells alone.
FIELDS_PER_CELL = 5


@dataclasses.dataclass(frozen=True)
class Run:
    """What the training loop, the evaluation and the checkpoints of a run share.

    Attributes:
      config: the checked config.
      loaded: graph, notices and name of the data.
      scale: the scales of the values, fitted to the observed cells.
      literals: scaled values of all entities, on the devices, as `Placement.padded` stores them.
      batches: the training batches by step.
      programs: model, objective and compiled functions.
      abstract_state: shapes, dtypes and places of the state, without its values.
      scorer: scores the graph's entities.
      evaluator: ranks its valid and test facts.
      sizes: of the graph, with the relations that an order core decides.
      total_steps: steps of all epochs.
      nothing_to_train: whether all is fitted before the first step, which is then the only one.
      blind: whether validation cannot tell one epoch from another, as it has no fact of what is trained.
      held_out: the entities that `eval.inductive` keeps out of the graph.
    """

    config: ConfigDict
    loaded: LoadedGraph
    scale: LiteralScale
    literals: Literals
    batches: TrainBatches
    programs: Programs
    abstract_state: TrainState
    scorer: Scorer
    evaluator: Evaluator
    sizes: GraphSizes
    total_steps: int
    nothing_to_train: bool = False
    blind: bool = False
    held_out: NewEntities | None = None

    @property
    def graph(self) -> NumericGraph:
        """The graph that is trained on."""
        return self.loaded.graph

    @functools.cached_property
    def judged(self) -> NumericGraph:
        """The graph whose valid and test facts are ranked (`variants.without_unseen_relations`)."""
        return without_unseen_relations(self.graph)

    @functools.cached_property
    def judged_by_truth(self) -> NumericGraph:
        """The same facts with the values and fields that the model may not have been shown."""
        truth = self.loaded.truth or self.graph
        return dataclasses.replace(
            self.judged, vocabulary=truth.vocabulary, values=truth.values, observed=truth.observed
        )

    def waits_for(self, program: str, *sizes: int) -> tuple[str, str]:
        """What tells a program of this run from others: settings and shapes, for `Console.compiling`.

        Args:
          program: its name.
          sizes: of what it works on, besides those of the graph, of a batch and of a chunk of heads.
        """
        shapes = (self.programs.shapes, self.config.train.batch_size, self.config.eval.chunk, sizes)
        return f"{program} {self.programs.settings}", repr(shapes)

    def fresh_state(self) -> TrainState:
        """The state before the first step, from `config.seed`; what the model fits is fitted."""
        return self.fitted(self.random_state())

    def random_state(self) -> TrainState:
        """The state before the first step without what the model fits."""
        return self.programs.create_state(self.literals, key=random_streams.base_key(self.config.seed))

    def fitted(self, state: TrainState) -> TrainState:
        """The state with what the model computes from the graph at once."""
        found = self.programs.placement.padded(self._fitted(self.programs.model, self.graph))
        return state.replace(params=_replaced(state.params, found))

    def refitted(self, params: Any, model: KnowledgeModel, graph: NumericGraph) -> Any:
        """The parameters of a model of `graph`, another version of the run's graph, fitted to it.

        Args:
          params: arrays of as many entities as `graph` has, without padding; what is not fitted is kept.
          model: of these sizes.
          graph: other values, more entities or more training facts.
        """
        return _replaced(params, self._fitted(model, graph))

    def _fitted(self, model: KnowledgeModel, graph: NumericGraph) -> dict[str, Any]:
        """What a model computes from a graph at once (`FittedModel.fit`); {} if nothing."""
        if not isinstance(model, FittedModel):
            return {}
        quantiles = self.scale.positions.apply(graph.values, graph.observed)
        quantiles = np.where(graph.observed, quantiles, np.nan)
        return model.fit(graph, quantiles, seed=self.config.seed)

    def batch(self, step: int) -> Batch:
        """The batch of a step, on the devices."""
        return self.programs.placement.batch(self.batches, step)

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, jax.Array]:
        """One step: the new state, and the loss or NaN (`Programs.step`); the old state is donated."""
        return self.programs.step(state, batch, self.literals)

    def fitted_step(self, state: TrainState) -> TrainState:
        """The one step of a run that has nothing to train by gradients."""
        return state.replace(step=_put(self.abstract_state.step, 1))

    def without_losses(self, state: TrainState) -> TrainState:
        """The state with its loss sums set back to zero, on the same devices."""
        # Arrays that are not committed to a device, like new ones, would have the step compiled again; those
        # of one process that are sent to several could not be saved: so they start on the host.
        return state.replace(losses=jax.tree.map(_put, self.abstract_state.losses, LossSums.zero()))


def literals_for(config: ConfigDict, scale: LiteralScale, graph: NumericGraph) -> Literals:
    """What the config's model sees of `graph`: scaled values, and training facts if it reads them."""
    literals = scale.literals(graph.values, graph.observed)
    if MODELS[config.model.name].reads_facts:
        facts = graph.without_inverses().train
        literals = dataclasses.replace(literals, facts=jnp.asarray(facts, jnp.int32))
    if looks_at(config.model.name, "numeric.missing"):
        cells = fields_of_cells(graph.observed)
        if cells.shape[1] * FIELDS_PER_CELL <= graph.num_fields:
            literals = dataclasses.replace(literals, cells=jnp.asarray(cells))
    return literals


def _put(like: Any, value: Any) -> jax.Array:
    """An array or number of the host with the dtype and sharding of `like`."""
    return jax.device_put(np.asarray(value, like.dtype), like.sharding)


def _replaced(params: Any, found: dict[str, Any]) -> Any:
    """`params` with the arrays of `found`, part of the same tree, in their dtypes and places."""
    flat = traverse_util.flatten_dict(params)
    for path, array in traverse_util.flatten_dict(found).items():
        flat[path] = _put(flat[path], array)
    return traverse_util.unflatten_dict(flat)
