"""Arguments of the commands that use a trained model; every mistake is one line."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from numcoke_jax.cli.commands import OneLineParser, add_cache_option, as_typed
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.inference.names import NameIndex
from numcoke_jax.runs.file_names import VOCABULARY_FILE
from numcoke_jax.runs.stored import read_vocabulary
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path

LARGEST_TOP = 10**9
OUT_ENDINGS = {
    "predict": (".csv", ".json", ".jsonl", ".parquet"),
    "explain": (".json", ".png"),
    "impute": (".csv", ".json", ".parquet"),
}


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of `predict`, `explain` or `impute`."""
    parser.set_defaults(run=_run, checked=_checked)
    parser.add_argument("--workdir", required=True, type=_workdir, metavar="FOLDER", help="a finished run")
    _FLAGS[command](parser)
    endings = ", ".join(OUT_ENDINGS[command])
    parser.add_argument(
        "--out",
        type=home_path,
        metavar="FILE",
        help=f"write what is found, to a file ending in one of {endings}",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    add_cache_option(parser)


def _run(options: argparse.Namespace) -> int:
    _check_names(options)
    from numcoke_jax.cli.use import run_use_command  # it takes seconds: mistakes are answered before
    from numcoke_jax.system.compiled import keep_compiled
    from numcoke_jax.system.console import Console

    if not options.no_cache:
        keep_compiled()
    run_use_command(options, Console())
    return 0


def _check_names(options: argparse.Namespace) -> None:
    """Looks the names up in the run's vocabulary.json, before what finds out the rest is imported.

    Raises:
      UserError: one of them is not there.
    """
    path = options.workdir / VOCABULARY_FILE
    if not path.exists():
        return
    vocabulary, _ = read_vocabulary(path)
    given = vars(options)
    kinds = {
        "relation": ("relation", vocabulary.relations),
        "field": ("field", vocabulary.fields),
        "head": ("entity", vocabulary.entities),
        "tail": ("entity", vocabulary.entities),
        "entity": ("entity", vocabulary.entities),
        "candidates": ("entity", vocabulary.entities),
    }
    for flag, (kind, names) in kinds.items():
        asked = given.get(flag) or ()
        if given.get("entities") is not None and kind == "entity":  # new ones have names of their own
            continue
        for name in (asked,) if isinstance(asked, str) else asked:
            if name not in names and not (flag == "candidates" and name.startswith("@")):
                NameIndex(kind, names).id(name, f"--{flag}")


def _workdir(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("is empty: give the folder of a finished run")
    return home_path(text)


def _predict_flags(parser: OneLineParser) -> None:
    parser.add_argument("--head", type=as_typed, metavar="NAME", help="the query's head")
    parser.add_argument("--relation", type=as_typed, metavar="NAME", help="the query's relation")
    parser.add_argument(
        "--queries", type=home_path, metavar="FILE", help="many queries: head <tab> relation on each line"
    )
    parser.add_argument("--top", type=_positive, default=10, metavar="N", help="answers per query (10)")
    parser.add_argument(
        "--candidates",
        nargs="+",
        action="extend",
        type=as_typed,
        metavar="NAME",
        help="only these tails; @FILE reads names, one per line",
    )
    parser.add_argument(
        "--known", choices=("exclude", "mark"), default="exclude", help="leave known facts out, or mark them"
    )
    parser.add_argument(
        "--known_splits", default=",".join(SPLITS), metavar="SPLITS", help="whose facts are known (all three)"
    )
    parser.add_argument(
        "--entities", type=home_path, metavar="FILE", help="a table of new entities: names, then fields"
    )
    parser.add_argument(
        "--name", type=as_typed, default="", metavar="COLUMN", help="their names' column (the first)"
    )
    parser.add_argument("--exclude_self", action="store_true", help="the head is not a candidate")


def _explain_flags(parser: OneLineParser) -> None:
    for name in ("head", "relation", "tail"):
        parser.add_argument(
            f"--{name}", required=True, type=as_typed, metavar="NAME", help=f"the fact's {name}"
        )
    parser.add_argument(
        "--set",
        action="append",
        type=as_typed,
        default=[],
        metavar="FIELD=VALUE",
        help="what if the head had this value? (tail.FIELD=VALUE: the tail; no VALUE: missing)",
    )


def _impute_flags(parser: OneLineParser) -> None:
    parser.add_argument(
        "--field",
        action="append",
        type=as_typed,
        metavar="NAME",
        help="a field that a relation compares; may be repeated; without it, all such fields",
    )
    parser.add_argument(
        "--entity", type=as_typed, metavar="NAME", help="show this entity's missing values only"
    )
    parser.add_argument("--level", type=_share, default=0.9, metavar="SHARE", help="target coverage (0.9)")
    parser.add_argument("--top", type=_positive, default=20, metavar="N", help="missing values shown (20)")


_FLAGS = {"predict": _predict_flags, "explain": _explain_flags, "impute": _impute_flags}


def _checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options, if they fit together; raises UserError if not."""
    if options.overwrite and options.out is None:
        raise UserError("--overwrite has no meaning without --out=FILE: nothing is written")
    if options.command == "predict":
        if (options.queries is None) == (options.head is None and options.relation is None):
            raise UserError("give either --head and --relation, or --queries=FILE")
        needs_head = options.head is None and options.entities is None
        if options.queries is None and (needs_head or options.relation is None):
            absent = "--head" if needs_head else "--relation"
            raise UserError(f"{absent} is missing: a query is --head=NAME --relation=NAME")
        if options.queries is not None and options.out is None:
            raise UserError("--queries needs --out=FILE, ending in .csv, .json, .jsonl or .parquet")
        if options.name and options.entities is None:
            raise UserError("--name has no meaning without --entities=FILE, whose column it names")
        options.known_splits = _splits(options.known_splits)
    if options.out is not None:
        _check_out(options.out, OUT_ENDINGS[options.command], options.overwrite)
    return options


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
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= LARGEST_TOP:
        raise argparse.ArgumentTypeError(f"needs an integer >= 1, got {printable(text)}")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"needs a number between 0 and 1, got {printable(text)}")
    return number
