"""config -> run: the graph as it is trained on, what is left to train, the compiled functions."""

import dataclasses

import numpy as np
from ml_collections import ConfigDict

from numcoke_jax.data.batches import TrainBatches, choose_epochs
from numcoke_jax.data.graph import RELATION, LoadedGraph, NumericGraph
from numcoke_jax.data.literals import LiteralScale
from numcoke_jax.data.load import load_graph
from numcoke_jax.data.variants import (
    NewEntities,
    controlled_values,
    hide_fields,
    hold_out,
    reversed_facts,
    with_inverses,
    without_unseen_relations,
)
from numcoke_jax.evaluation.evaluator import Evaluator
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models import MODELS, GraphSizes
from numcoke_jax.models.order_core.comparative import comparative_relations
from numcoke_jax.runs.chosen import FEWEST_FACTS
from numcoke_jax.runs.run import Run, literals_for
from numcoke_jax.system.errors import UserError, first_of, plural, shown_name
from numcoke_jax.training.placement import check_sizes
from numcoke_jax.training.programs import programs_for

MOST_NAMED = 5  # relations in a notice


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
        loaded = loaded.noting(_decided(graph, sizes.decided))
    left = _undecided(graph, sizes.decided)
    nothing_to_train = MODELS[config.model.name].fitted or not len(left.train)
    batches = _one_step(config, graph) if nothing_to_train else _batches(config, left)
    if not nothing_to_train and len(left.train) < FEWEST_FACTS:
        loaded = loaded.noting(f"{plural(len(left.train), 'fact')} to train on: too few to learn from")
    if not nothing_to_train and not train.unknown_weight and not len(batches.negatives.tails):
        raise UserError(
            f"train.unknown_weight={train.unknown_weight:g} leaves the loss without a single false fact: "
            "there is no neg.txt and train.negatives=given; set train.unknown_weight above 0, add a neg.txt, "
            "or set train.negatives=reversed if the relations are strict orders"
        )
    blind = bool(len(graph.valid) and np.isin(graph.valid[:, RELATION], sizes.decided).all())
    blind = blind and not nothing_to_train
    if blind:
        told = "valid has no fact of a relation that is trained: the last epoch counts, not the best"
        loaded = loaded.noting(told)
    epochs = 1 if nothing_to_train else train.epochs or choose_epochs(batches.steps_per_epoch)
    if not nothing_to_train and not train.epochs:
        steps = plural(batches.steps_per_epoch, "step")
        loaded = loaded.noting(f"train.epochs=0: {plural(epochs, 'epoch')} of {steps}")
    total_steps = epochs * batches.steps_per_epoch
    loaded = loaded.noting(*_without_effect(config, graph, batches, total_steps))
    programs = programs_for(config, sizes, total_steps, entities_per_step=batches.entities_per_step)
    check_sizes(programs.placement, heads=batches.heads_per_relation)
    literals = programs.placement.literals(literals_for(config, scale, graph))
    scorer = Scorer(programs.model, literals, graph.vocabulary, chunk=config.eval.chunk)
    return Run(
        config=config,
        loaded=loaded,
        scale=scale,
        literals=literals,
        batches=batches,
        programs=programs,
        abstract_state=programs.abstract_state,
        scorer=scorer,
        evaluator=Evaluator(scorer, without_unseen_relations(graph), selection=config.eval.selection),
        sizes=sizes,
        total_steps=total_steps,
        nothing_to_train=nothing_to_train,
        blind=blind,
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
    from numcoke_jax.models.order_core.classes import class_relations  # with scipy, for an order core alone
    from numcoke_jax.models.order_core.value_scores import value_scores

    scores = value_scores(scale.positions.apply(graph.values, graph.observed), graph.observed)
    return dataclasses.replace(
        sizes,
        ordered=_with_inverse_ids(graph, comparative_relations(graph)),
        classes=tuple(class_relations(graph.train, graph.own_relations, scores)),
    )


def _with_inverse_ids(graph: NumericGraph, relations: tuple[int, ...]) -> tuple[int, ...]:
    """These relations, and their inverses if there are any."""
    shift = graph.first_inverse
    return relations if shift is None else (*relations, *(relation + shift for relation in relations))


def _decided(graph: NumericGraph, decided: tuple[int, ...]) -> str:
    """A notice: what the order core decides, and what that leaves to train."""
    if len(decided) == graph.num_relations:
        return "the order core decides every relation: nothing is left to train"
    names, count = graph.vocabulary.relations, graph.own_relations
    decided = tuple(relation for relation in decided if relation < count)
    named = first_of([shown_name(names[relation]) for relation in decided], MOST_NAMED)
    return f"the order core decides {len(decided)} of {count} relations: {named}"


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


def trained_on(config: ConfigDict, loaded: LoadedGraph) -> tuple[LoadedGraph, NewEntities | None]:
    """The graph that a run trains on: values and facts as `config.data` says, entities held out."""
    data, notices = config.data, []
    truth = loaded.truth or loaded.graph
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
        loaded = loaded.noting(*notices, graph=graph, truth=truth)
    held_out = None
    if config.eval.inductive:
        graph, held_out = hold_out(graph, config.eval.inductive, config.data.seed)
        notice = f"eval.inductive: {len(held_out.names)} entities with {len(held_out.facts)} facts held out"
        truth, _ = hold_out(truth, config.eval.inductive, config.data.seed)
        loaded = loaded.noting(notice, graph=graph, truth=truth)
    if data.inverse:
        graph = with_inverses(graph)
        shown_truth = None if loaded.truth is None else with_inverses(loaded.truth)
        notice = f"data.inverse: {graph.own_relations:,} inverse relations, by which heads are ranked"
        loaded = loaded.noting(notice, graph=graph, truth=shown_truth)
    return loaded, held_out
