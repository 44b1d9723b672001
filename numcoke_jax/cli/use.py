"""The commands that use a trained model, from checked arguments to what the user sees."""

import argparse
import dataclasses
from collections.abc import Sequence

import numpy as np

from numcoke_jax.cli.answer_files import Columns, answer_writer
from numcoke_jax.cli.columns import split_names
from numcoke_jax.cli.explain_view import figure, show
from numcoke_jax.cli.pairs import read_pairs, show_pairs
from numcoke_jax.cli.query_files import name_lines, read_queries
from numcoke_jax.data.files.numbers import Reading
from numcoke_jax.data.tables.cells import read_table
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.names import NameIndex, Names
from numcoke_jax.inference.new_entities import read_facts, read_new_entities, tell
from numcoke_jax.inference.predict import COLUMNS, AnswerSettings, Predictor, answer_columns, tail_columns
from numcoke_jax.inference.questions import SCORE_COLUMNS, head_columns, score_columns
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.inference.what_if import read_changes
from numcoke_jax.runs.memory import USE_REMEDY, out_of_memory_told
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.console import WHY_UNKNOWN, Console, shown_probability
from numcoke_jax.system.errors import UserError, plural, plural_of, shown_path
from numcoke_jax.system.files import home_path, write_json_atomically


def run_use_command(options: argparse.Namespace, console: Console) -> None:
    """Run the command that checked options describe.

    Raises:
      UserError: no usable run in the workdir, an unknown name, a file that cannot be read or written, a
        device without enough memory.
      FloatingPointError: a score is not finite.
    """
    with out_of_memory_told(USE_REMEDY):
        _COMMANDS[options.command](options, console)


def _loaded(options: argparse.Namespace, console: Console) -> Trained:
    with console.waiting("loading the run"):
        return load_trained(options.workdir, console.warn)


def predict(options: argparse.Namespace, console: Console) -> None:
    """Answer one question on the screen (and in a file), a file of queries in a file, or a file of pairs."""
    trained = _loaded(options, console)
    new = _new_entities(options, trained, console)
    if new is not None and _asks_places(options):
        _show_places(options, trained, new, console)
        return
    predictor = trained.predictor(new)
    names = Names(predictor.graph.vocabulary)
    settings = _settings(options, names.entities)
    if options.queries is not None:
        _answer_file(options, predictor, names, settings, console)
        return
    if options.pairs is not None or (options.head is not None and options.tail is not None):
        _score_pairs(options, predictor, names, console)
        return
    relation = names.relations.id(options.relation, "--relation")
    remark = "known facts excluded" if settings.known == "exclude" else "known facts marked"
    if options.tail is not None:
        tail = names.entities.id(options.tail, "--tail")
        with console.compiling(*trained.run.waits_for("heads")):
            found = head_columns(predictor, tail, relation, settings)
        _show_answers(found, ("?", options.relation, options.tail), remark, console)
        _write(options, found, COLUMNS, console)
        return
    heads = [options.head] if options.head is not None else list(new.names if new else ())
    asked = [names.entities.id(head, "--head") for head in heads]
    with console.compiling(*trained.run.waits_for("tails", len(asked), predictor.graph.num_entities)):
        found = tail_columns(predictor, asked, relation, settings)
    for name in heads:
        own = {column: cells[found["head"] == name] for column, cells in found.items()}
        _show_answers(own, (name, options.relation, "?"), remark, console)
    _write(options, found, COLUMNS, console)


def _show_places(options: argparse.Namespace, trained: Trained, new: NewEntities, console: Console) -> None:
    """Where new entities stand under each relation, on the screen and in a file."""
    from numcoke_jax.cli.impute_view import place_text, ranks_text  # with scipy, as `impute_values`
    from numcoke_jax.inference.intervals import cell_columns
    from numcoke_jax.inference.places import LEVEL, PLACE_COLUMNS, places

    level = options.level or LEVEL
    with console.waiting("hiding observed values in turn, to see how wide an interval must be"):
        found = places(trained, new, level)
    rows = [(cell["entity"], cell["relation"], ranks_text(cell), place_text(cell)) for cell in found]
    remark = f"{level:.0%} intervals; rank 1 is the lowest"
    console.table("Places", remark, ("entity", "relation", ">ranks", ">values"), rows)
    _write(options, cell_columns(found, PLACE_COLUMNS), PLACE_COLUMNS, console)


def _score_pairs(options: argparse.Namespace, predictor: Predictor, names: Names, console: Console) -> None:
    """The scores of the pairs in a file, or of the one that is given, on the screen or in a file."""
    if options.pairs is not None:
        triples = read_pairs(options.pairs, names, options.relation)
    else:
        head, tail = (names.entities.id(getattr(options, end), f"--{end}") for end in ("head", "tail"))
        triples = np.array([(head, names.relations.id(options.relation, "--relation"), tail)])
    with console.waiting(f"scoring {plural(len(triples), 'pair')}"):
        found = score_columns(predictor, triples)
    if options.out is None:
        show_pairs(found, console)
    _write(options, found, SCORE_COLUMNS, console)


def _write(options: argparse.Namespace, found: Columns, columns: Sequence[str], console: Console) -> None:
    """The file of --out, if there is one, and why probabilities are unknown, if any is."""
    if "probability" in found and np.isnan(found["probability"]).any():
        console.note(WHY_UNKNOWN)
    if options.out is not None:
        with answer_writer(options.out, columns) as write:
            write(found)
        console.note(f"written to {shown_path(options.out)}")


def _new_entities(options: argparse.Namespace, trained: Trained, console: Console) -> NewEntities | None:
    """The entities of --entities; reports how far the model can be trusted with them."""
    if options.entities is None:
        return None
    reading = Reading(options.dates, options.parse)
    table = dataclasses.replace(read_table(options.entities), reading=reading)
    facts = read_facts(options.facts) if options.facts is not None else ()
    name = split_names("--name", options.name, table.columns) if options.name else ()
    hidden = trained.names.fields.hidden
    new, notices = read_new_entities(table, trained.run.graph, name, facts, hidden)
    if _asks_places(options):  # which the model's vectors and scores have no part in
        for notice in notices:
            console.note(notice)
    else:
        tell(notices, new, trained.params, console)
    return new


def _asks_places(options: argparse.Namespace) -> bool:
    """Whether nothing is asked of new entities but where they stand."""
    return options.relation is None and options.queries is None and options.pairs is None


def _show_answers(found: Columns, query: tuple[str, str, str], remark: str, console: Console) -> None:
    """The answers to a query whose head or tail is "?"."""
    end = "head" if query[0] == "?" else "tail"
    shown = (found[name] for name in ("rank", end, "score", "probability", "known"))
    rows = [
        (f"{rank:g}", name, f"{score:.3f}", shown_probability(probability), known)
        for rank, name, score, probability, known in zip(*shown, strict=True)
    ]
    console.table("  ".join(query), remark, (">rank", end, ">score", ">probability", "known"), rows)


def _answer_file(
    options: argparse.Namespace,
    predictor: Predictor,
    names: Names,
    settings: AnswerSettings,
    console: Console,
) -> None:
    """Every name is looked up before the first answer: a mistake in the last line costs no waiting."""
    path, out = options.queries, options.out
    blocks = list(
        read_queries(path, names.entities, names.relations)
    )  # ids, 8 bytes per query; a pipe is read only once
    total = sum(map(len, blocks))
    if not total:
        raise UserError(f"--queries={shown_path(path)}: the file has no queries")
    with answer_writer(out, COLUMNS) as write, console.progress(total, label="query") as bar:
        for block in blocks:
            answers = predictor.answer(block, settings)
            write(answer_columns(answers, block, predictor.graph.vocabulary))
            bar.advance(len(block), {})
    console.note(f"answers to {plural_of(total, 'query', 'queries')} are in {shown_path(out)}")


def _settings(options: argparse.Namespace, entities: NameIndex) -> AnswerSettings:
    candidates = None
    if options.candidates is not None:
        candidates = np.array([entities.id(name, where) for name, where in _names(options.candidates)], int)
    return AnswerSettings(
        top=options.top,
        known=options.known,
        splits=options.known_splits,
        exclude_self=options.exclude_self,
        candidates=candidates,
    )


def _names(given: Sequence[str]) -> list[tuple[str, str]]:
    """(name, where it was found) of names and of the lines of @FILEs."""
    found: list[tuple[str, str]] = []
    for word in given:
        if not word.startswith("@"):
            found.append((word, "--candidates"))
            continue
        path = home_path(word[1:])
        lines = name_lines(path, f"--candidates=@{shown_path(path)}")
        named = [(line, f"{shown_path(path)}:{number}") for number, line in lines]
        if not named:
            raise UserError(f"--candidates=@{shown_path(path)}: the file has no names")
        found += named
    return found


def explain_fact(options: argparse.Namespace, console: Console) -> None:
    """Show why a fact has its score, and what other values would change."""
    trained = _loaded(options, console)
    names = trained.names
    head, tail = names.entities.id(options.head, "--head"), names.entities.id(options.tail, "--tail")
    relation = names.relations.id(options.relation, "--relation")
    changes = read_changes(options.set, names.fields, "--set")
    with console.compiling(*trained.run.waits_for("explanation", len(changes))):
        found = explain(trained, head, relation, tail, changes)
    show(found, console)
    if options.out is not None:
        if options.out.suffix == ".json":
            write_json_atomically(options.out, found)
        else:
            figure(found, options.out)
        console.note(f"written to {shown_path(options.out)}")


def impute_values(options: argparse.Namespace, console: Console) -> None:
    """Show the ranks and values between which missing values lie, and how well that works for hidden ones."""
    from numcoke_jax.cli import (
        impute_view,  # with scipy: half a second, which other commands need not wait for
    )
    from numcoke_jax.inference.impute import impute

    trained = _loaded(options, console)
    names = trained.names
    if options.entity is not None:
        names.entities.id(options.entity, "--entity")
    asked = [names.fields.id(name, "--field") for name in dict.fromkeys(options.field or ())]
    with console.waiting("hiding observed values in turn, to see how wide an interval must be"):
        found = impute(trained, asked or None, options.level)
    if options.entity is not None:
        found["cells"] = [cell for cell in found["cells"] if cell["entity"] == options.entity]
    impute_view.show(found, options.top, console)
    if options.out is not None:
        impute_view.write(found, options.out)
        console.note(f"written to {shown_path(options.out)}")


_COMMANDS = {"predict": predict, "explain": explain_fact, "impute": impute_values}
