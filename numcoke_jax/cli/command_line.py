"""Arguments of `train` and `eval` -> config, workdir, what to do.  Every mistake is a one-line UserError."""

import argparse
import dataclasses
import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from numcoke_jax.cli.columns import add_table_options
from numcoke_jax.cli.commands import OneLineParser, add_cache_option, as_folder
from numcoke_jax.cli.parser import parse_arguments
from numcoke_jax.cli.train_table import graph_of_table, refuse_table_options, table_file
from numcoke_jax.config.checks import check_config, closest_key
from numcoke_jax.config.files import (
    canonical_config,
    graph_folder,
    load_config,
    shipped_configs,
    split_preset,
)
from numcoke_jax.config.overrides import override
from numcoke_jax.config.presets import PRESETS
from numcoke_jax.config.schema import KEYS, choices
from numcoke_jax.runs.file_names import CONFIG_FILE, GRAPH_FOLDER
from numcoke_jax.runs.stored import run_config
from numcoke_jax.system.errors import CLOSE_ENOUGH, LONGEST_REASON, UserError, printable, shown_path
from numcoke_jax.system.files import home_path
from numcoke_jax.system.processes import initial_arguments, join, process_settings
from numcoke_jax.system.watched import end_if_lost, watch

if TYPE_CHECKING:
    from numcoke_jax.data.numeric_kg import NumericKG
    from numcoke_jax.runs.screen import Screen

DEFAULT_CONFIG = "cars"
INTERRUPTED = "interrupted; the same command resumes from the last checkpoint, if there is one"
EPILOG = """\
examples:
  numcoke train spotify --seed=1 --train.epochs=50
  numcoke train FOLDER                      (with train.txt, ...; no config)
  numcoke train cars.csv --name=Name        (a table; no config)
  numcoke train credit --data.path=FOLDER   (with the settings of a config)
  numcoke train credit:paper                (the paper's model, no extension)
  numcoke eval --workdir=runs/credit-seed0 --eval.calibration=relation
"""


@dataclasses.dataclass(frozen=True)
class Command:
    """What the user asked for: a checked and locked config, the folder of the run, "train" or "eval".

    With `overwrite` the run already in the folder is archived first.  `notices` report what has no effect;
    `processes` are the settings by which several processes find each other;
    `cache` keeps what is compiled; `verbose` shows every config key.  `kg` is the graph of a folder or table
    in place of a config, that one was chosen for, and `chosen` the line that says what was chosen.
    """

    config: ConfigDict
    workdir: Path
    mode: str
    overwrite: bool = False
    notices: tuple[str, ...] = ()
    processes: dict[str, str] = dataclasses.field(default_factory=dict)
    cache: bool = True
    verbose: bool = False
    kg: "NumericKG | None" = dataclasses.field(default=None, compare=False)
    chosen: str = ""


def parse_command_line(arguments: Sequence[str]) -> Command:
    """The command of arguments that ask for `train` or `eval`.

    Raises:
      UserError: one line that names the flag or key, the value found, and the closest valid key or the
        allowed set.  Nothing but the config file has been read by then, or the folder in its place.
    """
    command = parse_arguments(arguments or ["train"])
    if not isinstance(command, Command):
        raise UserError(f"{printable(' '.join(arguments))}: neither trains nor evaluates a run")
    return command


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of `train` or `eval`: flags, and one for each key of the config."""
    parser.set_defaults(checked=command_of, run=run, keys=[])
    parser.usage = "%(prog)s [CONFIG|DIR|TABLE] [--workdir=FOLDER] [--KEY=VALUE ...]"
    parser.epilog = EPILOG
    names = ", ".join(shipped_configs())
    default = "the run's own, if --workdir is given; else " if command == "eval" else ""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="CONFIG[:PRESET]",
        help="a folder with train.txt, or a table, whose facts decide the settings; or a Python file with "
        f"get_config(), or the name of one that comes with the package: {names} (default: "
        f"{default}{DEFAULT_CONFIG}); the preset is one of {', '.join(PRESETS)}",
    )
    parser.add_argument("--config", metavar="CONFIG", help="the same, as a flag")
    where = (
        "where the run is written, or resumed if it is there; default runs/CONFIG-seedSEED, with the preset "
        "and the folder of data.path, or a data.table other than CONFIG's, in the middle"
    )
    parser.add_argument("--workdir", type=as_folder, metavar="FOLDER", help=where)
    aside = "first move the run in the workdir aside, to FOLDER.old-1 and so on; deletes nothing"
    aside = aside if command == "train" else argparse.SUPPRESS
    parser.add_argument("--overwrite", action="store_true", help=aside)
    add_cache_option(parser)
    parser.add_argument("--verbose", action="store_true", help="show every config key, not only changed ones")
    parser.add_argument("--flagfile", metavar="FILE", help="more flags, one per line")
    if command == "train":
        add_table_options(parser.add_argument_group("a table in place of CONFIG, a row for each entity"))
    places = parser.add_argument_group("one of N processes of the same command")
    places.add_argument("--coordinator", metavar="HOST:PORT", help="of process 0; auto asks the cluster")
    places.add_argument("--processes", metavar="N", help="how many there are")
    places.add_argument("--process", metavar="I", help="which one this is, from 0")
    _key_options(parser.add_argument_group("keys, each with its value unless it is changed"))


def _key_options(options: argparse._ArgumentGroup) -> None:
    """One option per key; all of them fill the list `keys` with (key, text)."""
    for name, key in KEYS.items():
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if key.allowed.kind == "bool" else {}
        options.add_argument(
            f"--{name}",
            action=_Override,
            metavar=printable(key.default) if key.default != "" else "''",
            help=f"{key.meaning} [{key.allowed.needs()}]".replace("%", "%%"),
            **switch,
        )
        if switch:
            options.add_argument(
                f"--no-{name}", dest=name, action=_Override, nargs=0, const="false", help=argparse.SUPPRESS
            )


class _Override(argparse.Action):
    """Adds (key, text) to `keys`: the last text of a key counts."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.keys = [*namespace.keys, (self.dest, self.const if values == [] else values)]


def command_of(options: argparse.Namespace) -> Command:
    """The command that the options describe; raises UserError as `parse_command_line` does."""
    if options.overwrite and options.command == "eval":
        raise UserError("--overwrite has no meaning with eval, which only reads the workdir")
    named = _named_config(options)
    table, preset = table_file(named)
    if not table:
        refuse_table_options(options, named)
    folder, preset = ("", preset) if table else graph_folder(named)
    notices: list[str] = []
    chosen, kg = "", None
    workdir, evaluates = options.workdir, options.command == "eval"
    if evaluates and not named and workdir and (workdir / CONFIG_FILE).exists():
        config = run_config(workdir, notices.append)
    elif table or folder:
        with _waiting("reading the graph", process_settings(vars(options))):
            kg = graph_of_table(table, options) if table else _graph_of_folder(folder, options.keys)
            from numcoke_jax.runs.chosen import chosen_config

            config, chosen = chosen_config(kg.graph, preset, compared=kg.compared_relations)
        config.data.path = folder
    else:
        config = load_config(named or DEFAULT_CONFIG)
    named_table = config.data.table
    override(config, options.keys)
    if table:
        workdir = workdir or default_workdir(named, config, named_table)
        config.data.path = str(workdir.resolve() / GRAPH_FOLDER)
    check_config(config)
    config = canonical_config(config).lock()
    if not table:
        notices += _without_effect(config, [key for key, _ in options.keys])
    return Command(
        config=config,
        workdir=workdir or default_workdir(named or DEFAULT_CONFIG, config, named_table),
        mode=options.command,
        overwrite=options.overwrite,
        notices=tuple(notices),
        cache=not options.no_cache,
        verbose=options.verbose,
        kg=kg,
        chosen=chosen,
        processes=process_settings(vars(options)),
    )


def _waiting(text: str, processes: Mapping[str, str]) -> AbstractContextManager[None]:
    """Says what is being waited for; one of several processes says nothing before it knows which it is."""
    from numcoke_jax.system.console import Console  # not yet needed to answer a wrong flag

    return nullcontext() if processes else Console().waiting(text)


def _graph_of_folder(folder: str, keys: Sequence[tuple[str, str]]) -> "NumericKG":
    from numcoke_jax.data.load import load_folder  # with pandas, which no wrong flag should wait for
    from numcoke_jax.data.numeric_kg import NumericKG

    if "data.path" in dict(keys):
        raise UserError(f"{shown_path(folder)} and --data.path: give only one graph")
    # A value that is not allowed is refused later, with all other keys.
    given = {name: dict(keys).get(f"data.{name}") for name in ("bad_values", "dates")}
    known = {name: value for name, value in given.items() if value in choices(f"data.{name}")}
    return NumericKG(load_folder(folder, **known))


def _named_config(options: argparse.Namespace) -> str:
    """The config file of the options, "" if there is none."""
    if options.config == "":
        raise UserError(f"--config is empty: give a config, such as --config={DEFAULT_CONFIG}")
    if options.file and options.config:
        raise UserError(
            f"{printable(options.file)} and --config={printable(options.config)}: give only one config"
        )
    name, equals, value = (options.file or "").partition("=")
    key, similarity = closest_key(name)
    if equals and similarity >= CLOSE_ENOUGH:
        raise UserError(f"{printable(options.file)} is not a flag; did you mean --{key}={printable(value)}?")
    return options.config or options.file or ""


def default_workdir(config_path: str, config: ConfigDict, table: str) -> Path:
    """runs/CONFIG[-PRESET][-DATA]-seedN, such as runs/credit-paper-credit_mini-seed0.

    DATA is the folder of `data.path`, or a `data.table` other than that of the config file, `table`.  A
    folder or table in place of a config gives its own name, with the ending: runs/cars.csv-seed0.
    """
    file, preset = table_file(config_path)
    folder, preset = (file, preset) if file else graph_folder(config_path)
    if folder:
        names = [home_path(folder).resolve().name, *filter(None, [preset])]
        return Path("runs") / "-".join([*names, f"seed{config.seed}"])
    file, preset = split_preset(config_path)
    names = [Path(file).stem, *filter(None, [preset])]
    if config.data.path:
        names.append(home_path(config.data.path).resolve().name)
    elif config.data.table != table:
        names.append(config.data.table)
    return Path("runs") / "-".join([*names, f"seed{config.seed}"])


def _without_effect(config: ConfigDict, overridden: Sequence[str]) -> list[str]:
    """A notice about keys for a table that were given along with a folder."""
    idle = [key for key in overridden if KEYS[key].scope == "table"]
    if not config.data.path or not idle:
        return []
    shown = printable(", ".join(dict.fromkeys(idle)), LONGEST_REASON)
    return [f"no effect with data.path, whose graph is used as it is: {shown}"]


def _train(command: Command, console: "Screen") -> None:
    """Train; before, write the graph of a table into the workdir, with a run there moved aside if asked."""
    from numcoke_jax.runs.kept_graph import kept_graph
    from numcoke_jax.runs.loop import train_and_evaluate
    from numcoke_jax.runs.workdir import TRACES, archive

    config, workdir, loaded = command.config, command.workdir, command.kg.loaded if command.kg else None
    if command.kg is None or command.kg.comparisons is None:
        train_and_evaluate(config, workdir, console, overwrite=command.overwrite, loaded=loaded)
        return
    if command.overwrite and (place := archive(workdir, (*TRACES, GRAPH_FOLDER))):
        console.note(f"the run that was in {shown_path(workdir)} is now {shown_path(place)}")
    with kept_graph(command.kg, workdir):
        train_and_evaluate(config, workdir, console, loaded=loaded)


def run(command: Command) -> int:
    """Train or evaluate; the exit code.  JAX is imported here: a wrong flag is answered before."""
    if command.processes:
        initial_arguments(command.processes)  # a mistake is answered by this process
        if (code := watch()) is not None:
            return code
        join(command.processes)
    from numcoke_jax.system.console import LOADING

    with _waiting(LOADING, command.processes):
        from numcoke_jax.runs.loop import evaluate_only
        from numcoke_jax.runs.screen import Screen
        from numcoke_jax.system.compiled import keep_compiled
        from numcoke_jax.system.processes import leads

    if command.cache:
        keep_compiled()

    stream = None if leads() else io.StringIO()  # one of several processes prints
    console = Screen(stream, verbose=command.verbose)
    for notice in command.notices:
        console.warn(notice)
    if command.chosen:
        console.note(command.chosen)
    try:
        if command.mode == "train":
            _train(command, console)
        else:
            evaluate_only(command.config, command.workdir, console)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(INTERRUPTED) from None
    except Exception as error:  # also one that a save, for example, has made of it
        if command.processes:
            end_if_lost(error)
        raise
    return 0
