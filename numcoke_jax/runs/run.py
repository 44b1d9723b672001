"""A run before its first step: everything a config determines, from the graph to the compiled functions."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from ml_collections import ConfigDict

from numcoke_jax.data.batches import Batch, TrainBatches, choose_epochs
from numcoke_jax.data.graph import RELATION, NumericGraph
from numcoke_jax.data.literals import Literals, LiteralScale
from numcoke_jax.data.load import LoadedGraph, load_graph
from numcoke_jax.data.variants import (
    HeldOut,
    controlled_values,
    hide_fields,
    hold_out,
    reversed_facts,
    without_unseen_relations,
)
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.models import MODELS, GraphSizes
from numcoke_jax.models.interface import FittedModel, KnowledgeModel
from numcoke_jax.models.order_core.classes import class_relations
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.models.order_core.value_scores import value_scores
from numcoke_jax.system import random_streams
from numcoke_jax.system.errors import UserError, shown_name
from numcoke_jax.training.placement import check_sizes
from numcoke_jax.training.programs import Programs, programs_for
from numcoke_jax.training.step import LossSums, TrainState

MOST_NAMED = 5  # relations in a notice


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
      evaluate: (params, split) -> metrics.
      sizes: of the graph, with the relations that an order core decides.
      total_steps: steps of all epochs.
      nothing_to_train: whether all is fitted before the first step, which is then the only one.
      held_out: the entities that `eval.inductive` keeps out of the graph.
    """

    config: ConfigDict
    loaded: LoadedGraph
    scale: LiteralScale
    literals: Literals
    batches: TrainBatches
    programs: Programs
    abstract_state: TrainState
    evaluate: Evaluator
    sizes: GraphSizes
    total_steps: int
    nothing_to_train: bool = False
    held_out: HeldOut | None = None

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
        # Arrays that are not committed to a device, like new ones, would have the step compiled again.
        return state.replace(losses=jax.device_put(LossSums.zero(), _places(self.abstract_state.losses)))


def create_run(config: ConfigDict, loaded: LoadedGraph | None = None) -> Run:
    """Load the data of a checked config (unless given), build model, optimiser and compiled functions."""
    loaded, held_out = trained_on(config, loaded or load_graph(config.data))
    graph = loaded.graph
    scale = LiteralScale.fit(graph, config.data.normalize)
    train = config.train
    if train.candidates and MODELS[config.model.name].reads_facts:
        raise UserError(
            f"train.candidates={train.candidates} has no meaning with model.name={config.model.name}, which "
            "reads all training facts in every step: set train.candidates=0"
        )
    sizes = _sizes(config, graph, scale)
    if sizes.decided:
        loaded = dataclasses.replace(loaded, notices=[*loaded.notices, _decided(graph, sizes.decided)])
    left = _undecided(graph, sizes.decided)
    nothing_to_train = MODELS[config.model.name].fitted or not len(left.train)
    batches = _one_step(config, graph) if nothing_to_train else _batches(config, left)
    if not nothing_to_train and not train.unknown_weight and not len(batches.negatives.tails):
        raise UserError(
            f"train.unknown_weight={train.unknown_weight:g} leaves the loss without a single false fact: "
            "there is no neg.txt and train.negatives=given; set train.unknown_weight above 0, add a neg.txt, "
            "or set train.negatives=reversed if the relations are strict orders"
        )
    epochs = 1 if nothing_to_train else train.epochs or choose_epochs(batches.steps_per_epoch)
    if not nothing_to_train and not train.epochs:
        notice = f"train.epochs=0: {epochs} epochs, of {batches.steps_per_epoch} steps each"
        loaded = dataclasses.replace(loaded, notices=[*loaded.notices, notice])
    total_steps = epochs * batches.steps_per_epoch
    if idle := _without_effect(config, graph, batches, total_steps):
        loaded = dataclasses.replace(loaded, notices=[*loaded.notices, *idle])
    programs = programs_for(config, sizes, total_steps, entities_per_step=batches.entities_per_step)
    check_sizes(programs.placement, heads=batches.heads_per_relation)
    literals = programs.placement.literals(literals_for(config, scale, graph))
    return Run(
        config=config,
        loaded=loaded,
        scale=scale,
        literals=literals,
        batches=batches,
        programs=programs,
        abstract_state=programs.abstract_state,
        evaluate=Evaluator(
            programs.model,
            literals,
            without_unseen_relations(graph),
            chunk=config.eval.chunk,
            selection=config.eval.selection,
        ),
        sizes=sizes,
        total_steps=total_steps,
        nothing_to_train=nothing_to_train,
        held_out=held_out,
    )


def _batches(config: ConfigDict, graph: NumericGraph) -> TrainBatches:
    train = config.train
    return TrainBatches(
        graph,
        batch_size=train.batch_size,
        relations_per_step=train.relations_per_step,
        seed=config.seed,
        negatives=train.negatives,
        candidates=train.candidates,
    )


def _sizes(config: ConfigDict, graph: NumericGraph, scale: LiteralScale) -> GraphSizes:
    """The sizes of the graph, and the relations that its model infers instead of training them."""
    sizes = GraphSizes.of(graph)
    if not config.score.order_core:
        return sizes
    scores = value_scores(scale.positions.apply(graph.values, graph.observed), graph.observed)
    return dataclasses.replace(
        sizes,
        ordered=comparative_relations(graph.train, graph.num_relations),
        classes=tuple(class_relations(graph.train, graph.num_relations, scores)),
    )


def _decided(graph: NumericGraph, decided: tuple[int, ...]) -> str:
    """A notice: what the order core decides, and what that leaves to train."""
    names, count = graph.vocabulary.relations, graph.num_relations
    if len(decided) == count:
        return "the order core decides every relation: nothing is left to train"
    first = ", ".join(map(shown_name, [names[relation] for relation in decided[:MOST_NAMED]]))
    more = f" and {len(decided) - MOST_NAMED} more" if len(decided) > MOST_NAMED else ""
    return f"the order core decides {len(decided)} of {count} relations: {first}{more}"


def _undecided(graph: NumericGraph, decided: tuple[int, ...]) -> NumericGraph:
    """The graph without the training facts, negatives included, of relations that are not trained."""
    if not decided:
        return graph
    train, negatives = (
        facts[~np.isin(facts[:, RELATION], decided)] for facts in (graph.train, graph.negatives)
    )
    return dataclasses.replace(graph, train=train, negatives=negatives)


def _one_step(config: ConfigDict, graph: NumericGraph) -> TrainBatches:
    """All pairs in the one step of a fitted model: counted, but no array of them is ever built."""
    slots = graph.num_relations
    heads = graph.num_entities * config.mesh.data
    return TrainBatches(graph, batch_size=slots * heads, relations_per_step=slots, seed=config.seed)


def _without_effect(
    config: ConfigDict, graph: NumericGraph, batches: TrainBatches, total_steps: int
) -> list[str]:
    """One notice per key that has no effect on this graph."""
    notices, train, model = [], config.train, config.model.name
    if MODELS[model].needs_negatives and config.okcl.weight and not len(batches.negatives.tails):
        notices.append(
            f"okcl.weight={config.okcl.weight:g} has no effect: the contrastive loss of {model} needs facts "
            "known to be false, from neg.txt or train.negatives=reversed"
        )
    if train.warmup_steps > total_steps:
        notices.append(
            f"train.warmup_steps={train.warmup_steps} is more than the {total_steps} steps of the run: "
            f"train.learning_rate={train.learning_rate:g} is never reached"
        )
    return notices


def trained_on(config: ConfigDict, loaded: LoadedGraph) -> tuple[LoadedGraph, HeldOut | None]:
    """The graph that a run trains on: values and facts as `config.data` says, entities held out."""
    data, notices = config.data, []
    truth = loaded.graph
    graph = controlled_values(loaded.graph, data.control, seed=data.seed)
    if data.control != "true":
        notices.append(f"control experiment: the values are {data.control}")
    if data.hide:
        graph = hide_fields(graph, data.hide)
        notices.append(f"data.hide: no literals of {', '.join(data.hide)}")
    if data.reversed:
        graph = reversed_facts(graph, data.reversed, seed=data.seed)
        notices.append(f"data.reversed: {data.reversed:.0%} of the training facts are turned around")
    if notices:
        notices = [*loaded.notices, *notices]
        loaded = dataclasses.replace(loaded, graph=graph, truth=truth, notices=notices)
    held_out = None
    if config.eval.inductive:
        graph, held_out = hold_out(graph, config.eval.inductive, config.data.seed)
        notice = f"eval.inductive: {len(held_out.names)} entities with {len(held_out.facts)} facts held out"
        truth, _ = hold_out(truth, config.eval.inductive, config.data.seed)
        notices = [*loaded.notices, notice]
        loaded = dataclasses.replace(loaded, graph=graph, truth=truth, notices=notices)
    return loaded, held_out


def literals_for(config: ConfigDict, scale: LiteralScale, graph: NumericGraph) -> Literals:
    """What the config's model sees of `graph`: scaled values, and training facts if it reads them."""
    literals = scale.literals(graph.values, graph.observed)
    if MODELS[config.model.name].reads_facts:
        literals = dataclasses.replace(literals, facts=jnp.asarray(graph.train, jnp.int32))
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


def _places(abstract: Any) -> Any:
    """The sharding of every leaf."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)
