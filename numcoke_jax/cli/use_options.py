"""Arguments of the commands that use a trained model; every mistake is one line."""

import argparse
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numcoke_jax.cli.columns import READING, add_reading_options
from numcoke_jax.cli.commands import Once, OneLineParser, add_cache_option, as_folder, as_typed
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.runs.file_names import VOCABULARY_FILE
from numcoke_jax.runs.stored import hidden_fields, read_vocabulary, run_config
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path

LARGEST_TOP = 10**9
NAME: dict[str, Any] = {"type": as_typed, "metavar": "NAME"}
FILE: dict[str, Any] = {"type": home_path, "metavar": "FILE", "action": Once}
OUT_ENDINGS = {
    "predict": (".csv", ".json", ".jsonl", ".parquet"),
    "explain": (".json", ".png"),
    "impute": (".csv", ".json", ".parquet"),
}


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of `predict`, `explain` or `impute`."""
    parser.set_defaults(run=_run, checked=_checked)
    parser.add_argument("--workdir", required=True, type=as_folder, metavar="FOLDER", help="a finished run")
    _FLAGS[command](parser)
    endings = ", ".join(OUT_ENDINGS[command])
    parser.add_argument("--out", **FILE, help=f"write what is found to a file that ends in one of {endings}")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    add_cache_option(parser)


def _run(options: argparse.Namespace) -> int:
    _check_names(options)
    from numcoke_jax.system.console import LOADING, Console  # a wrong name is answered before

    console = Console()
    with console.waiting(LOADING):
        from numcoke_jax.cli.use import run_use_command
        from numcoke_jax.system.compiled import keep_compiled

    if not options.no_cache:
        keep_compiled()
    run_use_command(options, console)
    return 0


def _check_names(options: argparse.Namespace) -> None:
    """Looks the names up in the run's vocabulary.json, before what finds out the rest is imported.

    Raises:
      UserError: one of them is not there.
    """
    path, given = options.workdir / VOCABULARY_FILE, vars(options)
    if not path.exists():
        return
    vocabulary, _ = read_vocabulary(path)
    entities = ("entity", vocabulary.entities)
    kinds = dict.fromkeys(("head", "tail", "entity", "candidates"), entities)
    if given.get("entities") is not None:  # new ones have names of their own
        kinds = {}
    kinds |= {"relation": ("relation", vocabulary.relations), "field": ("field", vocabulary.fields)}
    for flag, (kind, names) in kinds.items():
        asked = given.get(flag) or ()
        for name in (asked,) if isinstance(asked, str) else asked:
            if name not in names and not (flag == "candidates" and name.startswith("@")):
                hidden = hidden_fields(run_config(options.workdir, lambda _: None)) if flag == "field" else {}
                NameIndex(kind, names, hidden).id(name, f"--{flag}")


def _predict_flags(parser: OneLineParser) -> None:
    parser.add_argument("--head", **NAME, help="the query's head")
    parser.add_argument("--relation", **NAME, help="the query's relation")
    parser.add_argument("--tail", **NAME, help="rank the heads of this tail; with --head: score the pair")
    pairs = "score pairs: head <tab> tail, or head <tab> relation <tab> tail, on each line"
    parser.add_argument("--pairs", **FILE, help=pairs)
    parser.add_argument("--queries", **FILE, help="many queries: head <tab> relation on each line")
    parser.add_argument("--top", type=_positive, default=10, metavar="N", help="answers per query (10)")
    names = "only these tails (with --tail: heads); @FILE reads names, one per line"
    parser.add_argument("--candidates", nargs="+", action="extend", **NAME, help=names)
    known = "leave known facts out, or mark them"
    parser.add_argument("--known", choices=("exclude", "mark"), default="exclude", help=known)
    splits = "whose facts are known (all three)"
    parser.add_argument("--known_splits", default=",".join(SPLITS), metavar="SPLITS", help=splits)
    new = "a table of new entities: names, then fields; without --relation: their places"
    parser.add_argument("--entities", **FILE, help=new)
    cover = "target coverage of places (0.9)"
    parser.add_argument("--level", type=_share, metavar="SHARE", help=cover)
    parser.add_argument("--name", default="", **NAME, help="the columns with their names (the first)")
    add_reading_options(parser)
    parser.add_argument("--facts", **FILE, help="facts about them: head <tab> relation <tab> tail")
    parser.add_argument("--exclude_self", action="store_true", help="the head is not a candidate")


def _explain_flags(parser: OneLineParser) -> None:
    for name in ("head", "relation", "tail"):
        parser.add_argument(f"--{name}", required=True, **NAME, help=f"the fact's {name}")
    change = "what if the head had this value? (tail.FIELD=VALUE: the tail; no VALUE: missing)"
    changed: dict[str, Any] = {**NAME, "metavar": "FIELD=VALUE"}
    parser.add_argument("--set", action="append", default=[], **changed, help=change)


def _impute_flags(parser: OneLineParser) -> None:
    fields = "a field, compared by a relation or not; may be repeated; without it, all fields"
    parser.add_argument("--field", action="append", **NAME, help=fields)
    parser.add_argument("--entity", **NAME, help="show this entity's missing values only")
    parser.add_argument("--level", type=_share, default=0.9, metavar="SHARE", help="target coverage (0.9)")
    parser.add_argument("--top", type=_positive, default=20, metavar="N", help="missing values shown (20)")


_FLAGS = {"predict": _predict_flags, "explain": _explain_flags, "impute": _impute_flags}


def _checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options, if they fit together; raises UserError if not."""
    if options.overwrite and options.out is None:
        raise UserError("--overwrite has no meaning without --out=FILE: nothing is written")
    if options.command == "predict":
        _check_question(options)
        if options.queries is not None and options.out is None:
            raise UserError("--queries needs --out=FILE, ending in .csv, .json, .jsonl or .parquet")
        if options.name and options.entities is None:
            raise UserError("--name has no meaning without --entities=FILE, whose column it names")
        for flag in READING:
            if getattr(options, flag) and options.entities is None:
                raise UserError(f"--{flag} has no meaning without --entities=FILE, whose cells it reads")
        if options.facts is not None and options.entities is None:
            raise UserError("--facts has no meaning without --entities=FILE, whose entities they are about")
        options.known_splits = _splits(options.known_splits)
    if options.out is not None:
        _check_out(options.out, OUT_ENDINGS[options.command], options.overwrite)
    return options


def _check_question(options: argparse.Namespace) -> None:
    """Raises UserError unless the options ask exactly one thing."""
    ends = [f"--{end}" for end in ("head", "tail") if getattr(options, end) is not None]
    asked = bool(ends) or options.relation is not None
    places = options.entities is not None and not asked and options.queries is None and options.pairs is None
    if options.level is not None and not places:
        raise UserError("--level has no meaning with a query: it is that of the places of --entities=FILE")
    if options.pairs is not None:
        for flag in (*ends, *(f"--{name}" for name in ("queries", "candidates") if getattr(options, name))):
            raise UserError(
                f"{flag} has no meaning with --pairs=FILE, which has heads and tails: leave it out"
            )
        return
    if places:
        for flag in ("candidates", "exclude_self"):
            if getattr(options, flag):
                raise UserError(f"--{flag} has no meaning without --relation: places have no candidates")
        return
    if (options.queries is None) == (not asked):
        raise UserError(
            "give either --head and --relation, or --queries=FILE (or --tail and --relation, which ranks "
            "heads, or --pairs=FILE)"
        )
    if options.queries is not None:
        return
    needs_end = not ends and options.entities is None
    if needs_end or options.relation is None:
        absent = "--head" if needs_end else "--relation"
        raise UserError(f"{absent} is missing: a query is --head=NAME --relation=NAME")
    if len(ends) == 2 and options.candidates:
        raise UserError("--candidates has no meaning with both --head and --tail, which are scored")


def _check_out(path: Path, endings: Iterable[str], overwrite: bool) -> None:
    if path.suffix not in endings:
        raise UserError(f"--out={shown_path(path)}: the name must end in one of {', '.join(endings)}")
    if path.exists() and not overwrite:
        raise UserError(f"--out={shown_path(path)} already exists; give another name, or --overwrite")
    if not path.parent.is_dir():
        raise UserError(
            f"--out={shown_path(path)}: there is no folder {shown_path(path.parent)}; create it first"
        )


def _splits(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in SPLITS:
            raise UserError(
                f"--known_splits={printable(text)}: {printable(name)} is not one of {', '.join(SPLITS)}"
            )
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_TOP:
        raise argparse.ArgumentTypeError(f"needs an integer >= 1, got {printable(text)}")
    return int(text)


def _share(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.0 < float(text) < 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"needs a number between 0 and 1, got {printable(text)}")
