"""The modes that use a trained model, from checked arguments to what the user sees."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from numcoke_jax.cli import impute_view
from numcoke_jax.cli.explain_view import figure, show
from numcoke_jax.cli.query_files import SUFFIXES, answer_writer, check_out, name_lines, read_queries
from numcoke_jax.cli.use_command_line import UseCommand
from numcoke_jax.data.tables.cells import column_numbers, read_table
from numcoke_jax.data.variants import Change
from numcoke_jax.inference.explain import explain
from numcoke_jax.inference.impute import impute
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.inference.new_entities import read_facts, read_new_entities, tell
from numcoke_jax.inference.predict import AnswerSettings, Predictor, answer_frame
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.runs.memory import USE_REMEDY, out_of_memory_told
from numcoke_jax.runs.unseen import NewEntities
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path, write_json_atomically


def run_use_command(command: UseCommand, console: Console) -> None:
    """Run the command.

    Raises:
      UserError: no usable run in the workdir, an unknown name, a file that cannot be read or written, a
        device without enough memory.
      FloatingPointError: a score is not finite.
    """
    with out_of_memory_told(USE_REMEDY):
        _MODES[command.mode](command, console)


def predict(command: UseCommand, console: Console) -> None:
    """Answer one query on the screen (and in a file), or a file of queries in a file."""
    options = command.options
    out = home_path(options.out) if options.out is not None else None
    if out is not None:
        check_out(out, SUFFIXES, options.overwrite)
    trained = load_trained(command.workdir, console.warn)
    new = _new_entities(options, trained, console)
    predictor = trained.predictor(new)
    vocabulary = predictor.graph.vocabulary
    entities, relations = (
        NameIndex("entity", vocabulary.entities),
        NameIndex("relation", vocabulary.relations),
    )
    settings = _settings(options, entities)
    if options.queries is not None:
        assert out is not None
        _answer_file(home_path(options.queries), out, predictor, entities, relations, settings, console)
        return
    asked = relations.id(options.relation, "--relation")
    names = [options.head] if options.head is not None else list(new.names if new else ())
    queries = np.array([[entities.id(name, "--head"), asked] for name in names])
    frame = answer_frame(predictor.answer(queries, settings), queries, vocabulary)
    remark = "known facts excluded" if settings.known == "exclude" else "known facts marked"
    for name in names:
        _show_answers(frame[frame["head"] == name], name, options.relation, remark, console)
    if out is not None:
        with answer_writer(out) as write:
            write(frame)
        console.note(f"written to {shown_path(out)}")


def _new_entities(options: argparse.Namespace, trained: Trained, console: Console) -> NewEntities | None:
    """The entities of --entities; reports how far the model can be trusted with them."""
    if options.entities is None:
        return None
    table = read_table(home_path(options.entities))
    facts = read_facts(home_path(options.facts)) if options.facts is not None else ()
    new, notices = read_new_entities(table, trained.run.graph, options.name, facts)
    tell(notices, new, trained.params, console)
    return new


def _show_answers(frame: pd.DataFrame, head: str, relation: str, remark: str, console: Console) -> None:
    rows = [
        (f"{rank:g}", tail, f"{score:.3f}", f"{probability:.1%}", known)
        for rank, tail, score, probability, known in frame.iloc[:, 2:].itertuples(index=False, name=None)
    ]
    columns = (">rank", "tail", ">score", ">probability", "known")
    console.table(f"{head}  {relation}  ?", remark, columns, rows)


def _answer_file(
    path: Path,
    out: Path,
    predictor: Predictor,
    entities: NameIndex,
    relations: NameIndex,
    settings: AnswerSettings,
    console: Console,
) -> None:
    """Every name is looked up before the first answer: a mistake in the last line costs no waiting."""
    blocks = list(read_queries(path, entities, relations))  # ids, 8 bytes per query; a pipe is read only once
    total = sum(map(len, blocks))
    if not total:
        raise UserError(f"--queries={shown_path(path)}: the file has no queries")
    with answer_writer(out) as write, console.progress(total, label="query") as bar:
        for block in blocks:
            write(answer_frame(predictor.answer(block, settings), block, predictor.graph.vocabulary))
            bar.advance(len(block), {})
    console.note(f"answers to {total:,} queries are in {shown_path(out)}")


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


def explain_fact(command: UseCommand, console: Console) -> None:
    """Show why a fact has its score, and what other values would change."""
    options = command.options
    out = home_path(options.out) if options.out is not None else None
    if out is not None:
        check_out(out, (".json", ".png"), options.overwrite)
    trained = load_trained(command.workdir, console.warn)
    names = trained.run.graph.vocabulary
    entities, fields = NameIndex("entity", names.entities), NameIndex("field", names.fields)
    head, tail = entities.id(options.head, "--head"), entities.id(options.tail, "--tail")
    relation = NameIndex("relation", names.relations).id(options.relation, "--relation")
    changes = [_change(text, fields) for text in options.set]
    cells = [(change.side, change.field) for change in changes]
    for place, (side, field) in enumerate(cells):
        if (side, field) in cells[:place]:
            raise UserError(f"--set={printable(options.set[place])}: this field of the {side} is set twice")
    found = explain(trained, head, relation, tail, changes)
    show(found, console)
    if out is not None:
        if out.suffix == ".json":
            write_json_atomically(out, found)
        else:
            figure(found, out)
        console.note(f"written to {shown_path(out)}")


def _change(text: str, fields: NameIndex) -> Change:
    """FIELD=VALUE for the head, tail.FIELD=VALUE for the tail; without a value: missing."""
    name, equals, value = text.rpartition("=")
    if not equals:
        raise UserError(f"--set={printable(text)}: needs FIELD=VALUE, such as --set Horsepower=150")
    side = "head"
    if name not in fields and name.partition(".")[0] in ("head", "tail"):
        side, _, name = name.partition(".")
    field = fields.id(name, "--set")
    values, observed, wrong = column_numbers([value])
    if wrong:
        raise UserError(f"--set={printable(text)}: {printable(value)} is {wrong[0]}; needs a plain number")
    return Change(side, field, float(values[0]) if observed[0] else None)


def impute_values(command: UseCommand, console: Console) -> None:
    """Show the ranks and values between which missing values lie, and how well that works for hidden ones."""
    options = command.options
    out = home_path(options.out) if options.out is not None else None
    if out is not None:
        check_out(out, impute_view.SUFFIXES, options.overwrite)
    trained = load_trained(command.workdir, console.warn)
    names = trained.run.graph.vocabulary
    if options.entity is not None:
        NameIndex("entity", names.entities).id(options.entity, "--entity")
    fields = NameIndex("field", names.fields)
    asked = [fields.id(name, "--field") for name in dict.fromkeys(options.field or ())]
    found = impute(trained, asked or None, options.level)
    if options.entity is not None:
        found["cells"] = [cell for cell in found["cells"] if cell["entity"] == options.entity]
    impute_view.show(found, options.top, console)
    if out is not None:
        impute_view.write(found, out)
        console.note(f"written to {shown_path(out)}")


_MODES = {"predict": predict, "explain": explain_fact, "impute": impute_values}
