"""A run before its first step: all that a config determines, from the graph to the compiled functions."""

import dataclasses
import functools
from collections.abc import Callable

import jax
from ml_collections import ConfigDict

from numcoke_jax import prng
from numcoke_jax.batches import Batch, TrainBatches
from numcoke_jax.data.controls import controlled_values
from numcoke_jax.data.load import LoadedGraph, load_graph
from numcoke_jax.evaluation import Evaluator
from numcoke_jax.graph import NumericGraph
from numcoke_jax.literal_scale import LiteralScale
from numcoke_jax.losses.objective import create_objective
from numcoke_jax.models import GraphSizes, create_model
from numcoke_jax.models.numeric_embedding import Literals
from numcoke_jax.optimizer import create_optimizer
from numcoke_jax.step import TrainState, create_state, train_step


@dataclasses.dataclass(frozen=True)
class Run:
    """What the training loop, the evaluation and the checkpoints of a run share.

    Attributes:
      config: the checked config.
      loaded: graph, notices and name of the data.
      scale: the scales of the values, fitted to the observed cells.
      literals: scaled values of all entities, on the device.
      batches: the training batches by step.
      create_state: base key -> fresh state, jitted.
      abstract_state: shapes and dtypes of the state, without its values.
      step: (state, batch) -> (state, loss of the step), jitted; the state is donated.
      evaluate: (params, split) -> metrics.
      total_steps: steps of all epochs.
    """

    config: ConfigDict
    loaded: LoadedGraph
    scale: LiteralScale
    literals: Literals
    batches: TrainBatches
    create_state: Callable[[jax.Array], TrainState]
    abstract_state: TrainState
    step: Callable[[TrainState, Batch], tuple[TrainState, jax.Array]]
    evaluate: Evaluator
    total_steps: int

    @property
    def graph(self) -> NumericGraph:
        """The graph that is trained on."""
        return self.loaded.graph

    def fresh_state(self) -> TrainState:
        """The state before the first step, from `config.seed`."""
        return self.create_state(prng.base_key(self.config.seed))


def create_run(config: ConfigDict, loaded: LoadedGraph | None = None) -> Run:
    """Load the data of a checked config (unless given), build model, optimiser and compiled functions."""
    loaded = loaded or load_graph(config.data)
    graph = controlled_values(loaded.graph, config.data.values, seed=config.data.seed)
    if graph is not loaded.graph:
        notice = f"control experiment: the values are {config.data.values}"
        loaded = dataclasses.replace(loaded, graph=graph, notices=[*loaded.notices, notice])
    scale = LiteralScale.fit(graph, config.data.normalize)
    literals = scale.literals(graph.values, graph.observed)
    train = config.train
    batches = TrainBatches(
        graph, batch_size=train.batch_size, relations_per_step=train.relations_per_step, seed=config.seed
    )
    total_steps = train.epochs * batches.steps_per_epoch
    model = create_model(config, GraphSizes.of(graph))
    optimizer = create_optimizer(train, total_steps)
    step = functools.partial(train_step, model=model, optimizer=optimizer, objective=create_objective(config))
    jitted_step = jax.jit(step, donate_argnums=0)
    # It runs once: on the CPU, optimising the code of the many random draws takes longer than drawing.
    options = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    new_state = functools.partial(create_state, model, optimizer)
    jitted_state = jax.jit(new_state, compiler_options=options)
    return Run(
        config=config,
        loaded=loaded,
        scale=scale,
        literals=literals,
        batches=batches,
        abstract_state=jax.eval_shape(lambda key: new_state(literals, key=key), prng.base_key(config.seed)),
        create_state=lambda key: jitted_state(literals, key=key),
        step=lambda state, batch: jitted_step(state, batch, literals),
        evaluate=Evaluator(model, literals, graph, chunk=config.eval.chunk, selection=config.eval.selection),
        total_steps=total_steps,
    )
