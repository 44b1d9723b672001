"""Command-line arguments -> config, workdir and mode.  Every mistake is a one-line UserError.

absl and ml_collections parse the flags; this module finds mistakes before they do, or turns their
exceptions into the sentences of `config/checks.py`.
"""

import ast
import dataclasses
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from absl import flags
from ml_collections import ConfigDict, config_flags
from ml_collections.config_flags import tuple_parser

from numcoke_jax.cli.use_command_line import USE_MODES, UseCommand, asked_mode, parse_use, use_parser
from numcoke_jax.config.checks import (
    check_config,
    check_key_exists,
    closest_key,
    wrong_value,
)
from numcoke_jax.config.files import canonical_config, load_config, split_preset
from numcoke_jax.config.presets import PRESETS
from numcoke_jax.config.schema import KEYS, SECTIONS
from numcoke_jax.system.errors import CLOSE_ENOUGH, LONGEST_REASON, UserError, did_you_mean, printable
from numcoke_jax.system.files import home_path

DEFAULT_CONFIG = "configs/cars.py"
MODES = ("train", "eval", *USE_MODES)
HELP_COLUMN = 38  # where the allowed values and the meaning of a key begin
HELP_FLAGS = ("help", "h", "helpfull", "helpshort")
HELP_WIDTH = 110


def _wrapped(text: str, indent: int) -> str:
    """`text` in lines of at most `HELP_WIDTH` characters that begin at column `indent`."""
    margin = " " * indent
    return textwrap.fill(text, HELP_WIDTH, initial_indent=margin, subsequent_indent=margin)


KEYS_TITLE = "Keys, their defaults, allowed values and meaning"

USAGE = f"""\
Train NumCoKE on a numeric knowledge graph, rank its validation and test facts, write both to a workdir.

  python -m numcoke_jax.main --config=configs/spotify.py --config.seed=1 --config.train.epochs=50
  python -m numcoke_jax.main --config=configs/credit.py --config.data.path=FOLDER   (with train.txt, ...)
  python -m numcoke_jax.main --config=configs/credit.py:paper             (the paper's model, no extension)
  python -m numcoke_jax.main --config=configs/credit.py --workdir=runs/credit-seed0 --mode=eval
  python -m numcoke_jax.main --mode=predict --workdir=runs/cars-seed0 --head=NAME --relation=Horsepower_comp

Flags
  --config=FILE[:NAME]  Python file with get_config(); default {DEFAULT_CONFIG};
                        NAME is a preset on top of it:
{_wrapped(", ".join(PRESETS), 24)}
  --config.KEY=VALUE    changes one key of it; a tuple is written a,b,c or "('a', 'b')"
  --workdir=FOLDER      where the run is written; a run that is already there is resumed.
                        Default runs/CONFIG-seedSEED; a preset and the folder of data.path, or a data.table
                        other than CONFIG's, go in the middle, as in runs/credit-paper-FOLDER-seed0
  --mode=train|eval     train (the default), or evaluate the workdir's best checkpoint
  --mode={"|".join(USE_MODES)}
                        use the model in --workdir; flags below
  --overwrite           first move the run in the workdir aside, to FOLDER.old-1 and so on; deletes nothing
  --flagfile=FILE       more flags, one per line
  --coordinator=HOST:PORT --processes=N --process=I
                        one of N processes of the same command; --coordinator=auto asks the cluster
  --help                this text

"""


@dataclasses.dataclass(frozen=True)
class Command:
    """What the user asked for: a checked and locked config, the folder of the run, one of `MODES`.

    With `overwrite` the run already in the folder is archived first.  `notices` report flags without effect.
    """

    config: ConfigDict
    workdir: Path
    mode: str
    overwrite: bool = False
    notices: tuple[str, ...] = ()


def wants_help(arguments: Sequence[str]) -> bool:
    """True if one of the flags that ask for help is among the arguments."""
    return any(re.fullmatch(rf"--?({'|'.join(HELP_FLAGS)})", argument) for argument in arguments)


def help_text() -> str:
    """Usage and the table of all config keys."""
    lines = [USAGE.rstrip("\n")]
    for mode in USE_MODES:
        flags_of_mode = use_parser(mode).format_help().partition(":\n")[2].rstrip("\n")
        lines += ["", f"Flags of --mode={mode}", flags_of_mode]
    lines += ["", KEYS_TITLE]
    for name, key in KEYS.items():
        entry = f"  {name}={printable(key.default)}"
        if len(entry) >= HELP_COLUMN:
            lines.append(entry)
            entry = ""
        lines.append(f"{entry:<{HELP_COLUMN}}{_wrapped(key.allowed.needs(), HELP_COLUMN).lstrip()}")
        lines.append(_wrapped(key.meaning, HELP_COLUMN))
    return "\n".join(lines)


def parse_arguments(arguments: Sequence[str]) -> Command | UseCommand:
    """The command that the arguments (without the program's name) describe, in any mode; raises UserError."""
    arguments = with_flagfiles(arguments)
    mode = asked_mode(arguments)
    _check_mode(mode or MODES[0])  # before the flags: those of another mode would be unknown
    return parse_use(mode, arguments) if mode in USE_MODES else parse_command_line(arguments)


def parse_command_line(arguments: Sequence[str]) -> Command:
    """The command of a mode that has a config.

    Raises:
      UserError: one line that names the flag or key, the value found, and the closest valid key or the
        allowed set.  Nothing but the config file has been read by then.
    """
    path, arguments = _take_config_flag(with_flagfiles(arguments))
    overridden = _override_keys(arguments)
    config = load_config(path)
    table = config.data.table
    config, values = _parse_flags(config, arguments)
    check_config(config)
    config = canonical_config(config).lock()
    workdir = home_path(values.workdir) if values.workdir else default_workdir(path, config, table)
    return Command(config, workdir, values.mode, values.overwrite, _notices(config, overridden))


def default_workdir(config_path: str, config: ConfigDict, table: str) -> Path:
    """runs/CONFIG[-PRESET][-DATA]-seedN, such as runs/credit-paper-credit_mini-seed0.

    DATA is the folder of `data.path`, or a `data.table` other than that of the config file, `table`.
    """
    file, preset = split_preset(config_path)
    names = [Path(file).stem, *filter(None, [preset])]
    if config.data.path:
        names.append(home_path(config.data.path).resolve().name)
    elif config.data.table != table:
        names.append(config.data.table)
    return Path("runs") / "-".join([*names, f"seed{config.seed}"])


def with_flagfiles(arguments: Sequence[str]) -> list[str]:
    """The arguments with those of --flagfile=FILE in its place; raises UserError for an unreadable file."""
    try:
        return flags.FlagValues().read_flags_from_files(["main", *arguments], force_gnu=False)[1:]
    except (flags.Error, OSError, ValueError) as error:  # ValueError: it is not text
        raise UserError(f"--flagfile: {_one_line(error)}") from error


class _TupleParser(tuple_parser.TupleParser):
    """Reads a,b,c besides Python's notation: names without quotes, numbers as numbers."""

    def parse(self, argument: Any) -> tuple[Any, ...]:
        if isinstance(argument, list):  # a flag given several times
            return tuple(member for part in argument for member in self.parse(part))
        if not isinstance(argument, str) or argument[:1] in ("(", "[", '"', "'"):
            return super().parse(argument)
        return tuple(_member(part.strip()) for part in argument.split(",")) if argument.strip() else ()


def _member(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | str) else text


def _take_config_flag(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The path of the last --config=PATH or --config PATH, and the other arguments."""
    path, others = DEFAULT_CONFIG, []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            others += [argument, *rest]
            break
        name, equals, value = argument.partition("=")
        if name not in ("--config", "-config"):
            others.append(argument)
        elif equals and value or rest and not equals:
            path = value if equals else rest.pop(0)
        else:
            raise UserError(f"--config needs a file, such as --config={DEFAULT_CONFIG}")
    return path, others


def _override_keys(arguments: Sequence[str]) -> list[str]:
    """The keys of --config.KEY flags; raises UserError for one that does not exist."""
    keys = []
    for argument in arguments:
        if argument == "--":
            break
        override = re.match(r"--?(?:no)?config\.([^=]*)", argument)
        if override:
            check_key_exists(override[1])
            keys.append(override[1])
    return keys


def _notices(config: ConfigDict, overridden: Sequence[str]) -> tuple[str, ...]:
    """A notice about keys for a table that were given along with a folder."""
    idle = [key for key in overridden if KEYS[key].scope == "table"]
    if not config.data.path or not idle:
        return ()
    shown = printable(", ".join(dict.fromkeys(idle)), LONGEST_REASON)
    return (f"no effect with data.path, whose graph is used as it is: {shown}",)


def _parse_flags(config: ConfigDict, arguments: Sequence[str]) -> tuple[ConfigDict, flags.FlagValues]:
    """Applies the overrides to `config`; returns it with the other flags."""
    values = flags.FlagValues()
    config_flags.register_flag_parser_for_type(tuple, _TupleParser())
    argv = ["main", *arguments]
    holder = config_flags.DEFINE_config_dict("config", config, flag_values=values, sys_argv=argv)
    flags.DEFINE_string("workdir", None, "folder of the run", flag_values=values)
    flags.DEFINE_string("mode", MODES[0], "what to do", flag_values=values)
    flags.DEFINE_boolean("overwrite", False, "archive the run in the workdir first", flag_values=values)
    try:
        others = values(argv)[1:]
    except flags.UnrecognizedFlagError as error:
        raise UserError(_unknown_flag(error.flagname)) from error
    except flags.Error as error:
        raise UserError(_wrong_flag(error)) from error
    if others:
        _refuse_positional(others[0])
    _check_mode(values.mode)
    if values.workdir == "":
        raise UserError("--workdir is empty: give a folder, or leave the flag out")
    if values.overwrite and values.mode != "train":
        raise UserError(f"--overwrite has no meaning with --mode={values.mode}, which only reads the workdir")
    return holder.value, values


def _check_mode(mode: str) -> None:
    if mode not in MODES:
        hint = did_you_mean(mode, MODES)
        raise UserError(f"--mode={printable(mode)} is not a choice: needs one of {', '.join(MODES)}{hint}")


def _wrong_flag(error: flags.Error) -> str:
    override = re.match(r"flag --(?:no)?config\.([\w.]+)=(.*?): ", str(error), flags=re.DOTALL)
    if override and override[1] in KEYS:
        return wrong_value(override[1], override[2], "has the wrong type")
    return _one_line(error)


def _one_line(error: Exception) -> str:
    return printable(str(error).removeprefix("ERROR:: "), LONGEST_REASON)


def _unknown_flag(name: str) -> str:
    shown = printable(name)
    hint = did_you_mean(name, ("config", "workdir", "mode", "overwrite", "help", "flagfile"), prefix="--")
    if not hint:
        key, similarity = closest_key(name.removeprefix("no"))
        hint = f"; did you mean --config.{key}?" if similarity >= CLOSE_ENOUGH else "; --help lists all"
    return f"--{shown} is not a flag{hint}"


def _refuse_positional(argument: str) -> NoReturn:
    shown = printable(argument)
    name, equals, value = argument.partition("=")
    key, similarity = closest_key(name)
    if equals and name not in SECTIONS and similarity >= CLOSE_ENOUGH:
        raise UserError(f"{shown} is not a flag; did you mean --config.{key}={printable(value)}?")
    if argument.endswith(".py"):
        raise UserError(f"{shown} is not a flag; did you mean --config={shown}?")
    raise UserError(f"{shown} is not a flag: flags are written --name=value, --help lists them")
