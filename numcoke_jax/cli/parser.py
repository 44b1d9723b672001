"""The one parser: `numcoke COMMAND ...`, and the ways in which commands were written before it.

A command's options are made only when it is asked for: those of the data commands need libraries that take
longer to import than a mistyped flag should take to answer.
"""

import argparse
import importlib
import re
from collections.abc import Sequence
from typing import Any

from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.config.schema import KEYS
from numcoke_jax.system.errors import UserError, did_you_mean, printable, shown_path
from numcoke_jax.system.files import home_path

# Each module has `add_options(parser, command)`, which sets `run`, the command itself, and may set `checked`,
# which makes of the options what `run` takes.
COMMANDS = {
    "train": ("command_line", "train a model on a graph or a table, and rank its facts"),
    "eval": ("command_line", "rank the facts again with the best checkpoint of a run"),
    "predict": ("use_options", "rank the tails of a query with a trained model"),
    "explain": ("use_options", "say why a fact has its score"),
    "impute": ("use_options", "give intervals of missing values"),
    "serve": ("serve.command", "serve a local page and a JSON API about a trained model"),
    "export": ("export", "take a trained model away: tables and a scoring function"),
    "compare": ("compare", "put finished runs side by side"),
    "audit": ("audit", "recount a run's ranks, and look for leaks"),
    "data check": ("check", "report on a graph in text layout"),
    "data build": ("build", "make a graph of a table"),
    "data rdf": ("rdf", "make a graph of an RDF file"),
    "data convert": ("convert", "make a graph of the id files of other toolkits"),
}
CONFIGURED = ("train", "eval")  # the commands that have the keys of a config as flags
HELP = ("-h", "--help")
MODES = ("train", "eval", "predict", "explain", "impute")  # of the earlier `--mode=...`
DESCRIPTION = """\
Link prediction in knowledge graphs whose entities carry numbers.

  numcoke train cars                  train on a table that comes with a package
  numcoke train cars:paper --seed=1   the paper's model, another seed
  numcoke predict --workdir=runs/cars-seed0 --head=NAME --relation=NAME
  numcoke train --help                every flag, and every key of the config
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command, with `command`, its name, and `checked` and `run`, what to do with them.

    Raises:
      UserError: one line that names what is wrong, and the closest command or flag.
    """
    words = as_command([_two_dashes(word) for word in with_flagfiles(arguments)])
    asked = [word for word in words if word not in HELP]
    length = 2 if asked[:1] == ["data"] else 1
    command = " ".join(asked[:length])
    if len(asked) < len(words):
        known = command in (*COMMANDS, "data")
        if asked and not known and not asked[0].startswith("-"):
            raise UserError(_no_command(command))
        words = [*(asked[:length] if known else ()), "--help"]
    if command in CONFIGURED:
        words = [_plain_key(word) for word in words]
    program = OneLineParser(prog="numcoke", description=DESCRIPTION)
    leaves = _leaves(program)
    if command in COMMANDS:
        leaf = leaves[command]
        module = importlib.import_module(f"numcoke_jax.cli.{COMMANDS[command][0]}")
        leaf.set_defaults(command=command, checked=lambda options: options)
        module.add_options(leaf, command)
        leaf.refuse_unknown(words[length:])
    elif words and words[-1] != "--help":
        raise UserError(_no_command(command))
    options, surplus = program.parse_known_args(words or ["--help"])
    if surplus:
        leaf.refuse(surplus[0])
    return options


def parse_arguments(arguments: Sequence[str]) -> Any:
    """What a command is asked to do, as far as that can be said without running it; raises UserError."""
    options = parse(arguments)
    return options.checked(options)


def _leaves(program: OneLineParser) -> dict[str, OneLineParser]:
    """The parsers of all commands, so far without options."""
    commands = program.add_subparsers(title="commands", metavar="COMMAND", required=True)
    data = None
    leaves = {}
    for name, (_, purpose) in COMMANDS.items():
        group, _, word = name.rpartition(" ")
        if group and data is None:
            parent = commands.add_parser(group, help="check a graph, or make one: check, build, rdf, convert")
            data = parent.add_subparsers(title="commands", metavar="COMMAND", required=True)
        leaves[name] = (data if group and data else commands).add_parser(word, help=purpose)
        leaves[name].description = f"{purpose[:1].upper()}{purpose[1:]}."
    return leaves


def as_command(words: Sequence[str]) -> list[str]:
    """Words that begin with a flag, as the program was called before it had commands, with their command.

    Raises:
      UserError: `--mode` names no mode.
    """
    if not words or not words[0].startswith("-") or words[0] in HELP:
        return list(words)
    mode, others, rest = "train", [], list(words)
    while rest and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        if name != "--mode":
            others.append(f"{name}{equals}{value}")
            continue
        mode = value if equals else rest.pop(0) if rest else ""
        if mode not in MODES:
            shown, hint = printable(mode), did_you_mean(mode, MODES)
            raise UserError(f"--mode={shown} is not a choice: needs one of {', '.join(MODES)}{hint}")
    return [mode, *others, *rest]


def with_flagfiles(arguments: Sequence[str]) -> list[str]:
    """The arguments with those of --flagfile=FILE in its place; raises UserError for an unreadable file."""
    found, rest, seen = [], list(arguments), set()
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in ("--flagfile", "-flagfile"):
            found.append(f"{name}{equals}{value}")
            continue
        path = home_path(value if equals else rest.pop(0) if rest else "")
        if path not in seen:  # files may name one another
            seen.add(path)
            try:
                lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
            except (OSError, ValueError) as error:  # ValueError: it is not text
                reason = error.strerror if isinstance(error, OSError) else error
                raise UserError(f"--flagfile={shown_path(path)}: cannot be read ({reason})") from None
            rest[:0] = [line for line in lines if line and not line.startswith(("#", "//"))]
    return found


def _two_dashes(word: str) -> str:
    """-flag as --flag, and --help by its other names."""
    word = f"-{word}" if re.match(r"-[a-z]\w", word) else word
    return "--help" if word in ("--helpfull", "--helpshort") else word


def _plain_key(word: str) -> str:
    """--config.KEY as --KEY, --noconfig.KEY as --no-KEY."""
    key = re.match(r"--(no)?config\.([^=]*)", word)
    if not key or key[2] not in KEYS or key[1] and KEYS[key[2]].allowed.kind != "bool":
        return word
    return f"--{'no-' if key[1] else ''}{word[key.start(2) :]}"


def _no_command(command: str) -> str:
    """What to say about a first word, or two after `data`, that are no command."""
    if command.partition(":")[0].endswith(".py"):
        return f"{shown_path(command)} is not a command; did you mean numcoke train {shown_path(command)}?"
    hint = did_you_mean(command, COMMANDS) if command != "data" else ""
    hint = hint or f"; there are {', '.join(COMMANDS)}"
    return f"{printable(command)} is not a command{hint}"
