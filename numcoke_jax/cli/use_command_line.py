"""Arguments of the modes that use a trained model: each has its own flags, and every mistake is one line."""

import argparse
import dataclasses
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from numcoke_jax.cli.commands import as_typed
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.errors import CLOSE_ENOUGH, UserError, printable
from numcoke_jax.system.files import home_path

USE_MODES = ("predict", "explain", "impute")
LARGEST_TOP = 10**9


@dataclasses.dataclass(frozen=True)
class UseCommand:
    """What the user asked of the trained model in `workdir`: one of `USE_MODES` with its options."""

    mode: str
    workdir: Path
    options: argparse.Namespace


def asked_mode(arguments: Sequence[str]) -> str:
    """The value of the last --mode among the arguments, "" without one."""
    mode = ""
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("--mode", "-mode"):
            mode = value if equals else next(iter(arguments[place + 1 : place + 2]), "")
    return mode


def parse_use(mode: str, arguments: Sequence[str]) -> UseCommand:
    """The command that the arguments describe.

    Raises:
      UserError: one line that names the flag and what it needs.
    """
    parser = use_parser(mode)
    options = parser.parse_args([as_typed(_two_dashes(argument)) for argument in arguments])
    if not options.workdir:
        raise UserError("--workdir is empty: give the folder of a finished run")
    _check_options(mode, options)
    return UseCommand(mode, home_path(options.workdir), options)


def use_parser(mode: str) -> argparse.ArgumentParser:
    """The flags of a mode of `USE_MODES`."""
    parser = _UseParser(prog=f"python -m numcoke_jax.main --mode={mode}", allow_abbrev=False, add_help=False)
    parser.add_argument("--mode", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--workdir", required=True, metavar="FOLDER", help="a finished run")
    _FLAGS[mode](parser)
    return parser


def _predict_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--head", metavar="NAME", help="the query's head")
    parser.add_argument("--relation", metavar="NAME", help="the query's relation")
    parser.add_argument("--queries", metavar="FILE", help="many queries: head <tab> relation on each line")
    parser.add_argument("--out", metavar="FILE", help="write answers to .csv, .json, .jsonl or .parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")
    parser.add_argument("--top", type=_positive, default=10, metavar="N", help="answers per query (10)")
    parser.add_argument(
        "--candidates",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these tails; @FILE reads names, one per line",
    )
    parser.add_argument(
        "--known", choices=("exclude", "mark"), default="exclude", help="leave known facts out, or mark them"
    )
    parser.add_argument(
        "--known_splits", default=",".join(SPLITS), metavar="SPLITS", help="whose facts are known (all three)"
    )
    parser.add_argument("--entities", metavar="FILE", help="a table of new entities: names, then fields")
    parser.add_argument("--name", default="", metavar="COLUMN", help="their names' column (the first)")
    parser.add_argument("--facts", metavar="FILE", help="facts about them: head <tab> relation <tab> tail")
    parser.add_argument("--exclude_self", action="store_true", help="the head is not a candidate")


def _explain_flags(parser: argparse.ArgumentParser) -> None:
    for name in ("head", "relation", "tail"):
        parser.add_argument(f"--{name}", required=True, metavar="NAME", help=f"the fact's {name}")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="what if the head had this value? (tail.FIELD=VALUE: the tail; no VALUE: missing)",
    )
    parser.add_argument("--out", metavar="FILE", help="write the explanation to .json or .png")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")


def _impute_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--field",
        action="append",
        metavar="NAME",
        help="a field that a relation compares; may be repeated; without it, all such fields",
    )
    parser.add_argument("--entity", metavar="NAME", help="show this entity's missing values only")
    parser.add_argument("--level", type=_share, default=0.9, metavar="SHARE", help="target coverage (0.9)")
    parser.add_argument("--top", type=_positive, default=20, metavar="N", help="missing values shown (20)")
    parser.add_argument("--out", metavar="FILE", help="write all to .csv, .json or .parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace the file of --out")


_FLAGS = {"predict": _predict_flags, "explain": _explain_flags, "impute": _impute_flags}


def _check_options(mode: str, options: argparse.Namespace) -> None:
    if options.overwrite and options.out is None:
        raise UserError("--overwrite has no meaning without --out=FILE: nothing is written")
    if mode == "predict":
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
        if options.facts is not None and options.entities is None:
            raise UserError("--facts has no meaning without --entities=FILE, whose entities they are about")
        options.known_splits = _splits(options.known_splits)


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


def _two_dashes(argument: str) -> str:
    """-head as --head: the other modes' flags may be written that way."""
    return f"-{argument}" if re.match(r"-[a-z]\w", argument) else argument


class _UseParser(argparse.ArgumentParser):
    """A parser whose complaints are one line with the closest flag."""

    def error(self, message: str) -> NoReturn:
        """What argparse calls for a wrong argument."""
        if message.startswith("unrecognized arguments: "):
            self._refuse(message.removeprefix("unrecognized arguments: ").split()[0])
        message = re.sub(r"^argument ([-\w]+): ", r"\1: ", message)
        message = re.sub(r"^the following arguments are required: ", "missing: ", message)
        raise UserError(printable(f"{message}; --help lists all flags", 400))

    def _refuse(self, argument: str) -> NoReturn:
        name = argument.partition("=")[0]
        mode = self.prog.rpartition("=")[2]
        if re.match(r"--config\b", name):
            raise UserError(f"{name} has no meaning with --mode={mode}: the run's config is in its workdir")
        known = [flag for action in self._actions for flag in action.option_strings]
        close = difflib.get_close_matches(name, known, n=1, cutoff=CLOSE_ENOUGH)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise UserError(f"{printable(argument)} is not a flag of --mode={mode}; {hint}")
