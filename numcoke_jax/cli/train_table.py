"""`numcoke train cars.csv --name=Name`: the graph of a table, as `numcoke data build` makes it."""

import argparse
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numcoke_jax.cli.columns import READING, TABLE_OPTIONS
from numcoke_jax.config.checks import check_keys
from numcoke_jax.config.files import TRAIN_FILES, apart_from_preset
from numcoke_jax.config.overrides import override
from numcoke_jax.config.schema import KEYS, default_config
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.files import home_path

if TYPE_CHECKING:
    from numcoke_jax.data.numeric_kg import NumericKG
    from numcoke_jax.data.tables.comparisons import ComparisonSettings


def table_file(named: str) -> tuple[str, str]:
    """path/cars.csv:paper -> ("path/cars.csv", "paper") if there is such a file, no config, else ("", "")."""
    return apart_from_preset(
        named, lambda path: os.path.isfile(home_path(path)) and not path.lower().endswith(".py")
    )


def refuse_table_options(options: argparse.Namespace, named: str) -> None:
    """Raises UserError for the first option about a table's columns: what is named is no table."""
    for option in (*TABLE_OPTIONS, *READING):
        if getattr(options, option, ""):
            found = f"{shown_path(named)} is none" if named else "none is given"
            if Path(named).suffix not in ("", ".py") and not os.path.exists(home_path(named)):
                found = f"there is no file {shown_path(named)}"
            raise UserError(
                f"--{option} is about the columns of a table, and {found}: give one, as in numcoke train "
                "cars.csv --name=Name"
            )


def graph_of_table(path: str, options: argparse.Namespace) -> "NumericKG":
    """The graph of the table at `path`, by the options about its columns and the keys of its comparison.

    Raises:
      UserError: it is no table, an option or key is wrong or has no meaning, or the processes are several.
    """
    from numcoke_jax.cli.build import own_entities  # with pandas, which no wrong flag should wait for
    from numcoke_jax.data.files.numbers import Reading
    from numcoke_jax.data.numeric_kg import NumericKG
    from numcoke_jax.data.tables.cells import SUFFIXES, read_table, table_suffix
    from numcoke_jax.data.tables.own import refuse_hidden

    file, shown = home_path(path), shown_path(path)
    if options.command == "eval":
        raise UserError(f"{shown}: eval ranks the facts of a run: give its --workdir alone")
    if file.name in TRAIN_FILES:
        raise UserError(f"{shown} is one file of a graph: give its folder, {shown_path(file.parent)}")
    if not table_suffix(file):
        raise UserError(
            f"{shown} is no config file, whose name ends in .py, and no table, whose name ends in "
            f"{', '.join(SUFFIXES)}"
        )
    if options.processes or options.coordinator:
        raise UserError(
            f"{shown}: of several processes, each reads a graph that is there already: write it first, with "
            f"numcoke data build --table={shown} --name=COLUMN --out=DIR"
        )
    settings, hidden = comparison_settings_of(options.keys)
    table = read_table(Path(file))
    entities, compared = own_entities(options, table)
    read = dataclasses.replace(table, reading=Reading(options.dates, options.parse))
    refuse_hidden(read, hidden, entities.fields, "data.hide")
    return NumericKG.compared(entities, compared, settings)


def comparison_settings_of(
    keys: Sequence[tuple[str, str]],
) -> tuple["ComparisonSettings", tuple[str, ...]]:
    """How a user's own table is compared: `OWN_TABLE`, but for the keys that say otherwise; what they hide.

    Raises:
      UserError: a key has a value that is not allowed, or is about other data than a table.
    """
    from numcoke_jax.data.load import comparison_settings
    from numcoke_jax.data.tables.comparisons import OWN_TABLE

    given = {key.removeprefix("data."): key for key, _ in keys if key.startswith("data.")}
    settings = {field.name for field in dataclasses.fields(OWN_TABLE)}
    for name, key in given.items():
        if key == "data.path" or KEYS[key].scope in ("table", "folder") and name not in settings:
            columns = ", ".join(f"--{option}" for option in (*TABLE_OPTIONS, *READING))
            raise UserError(f"--{key} has no meaning with a table of one's own, which has {columns}")
    config = default_config()
    override(config, keys)
    check_keys(config)
    chosen = comparison_settings(config.data)
    own = {name: getattr(chosen, name) for name in settings & given.keys()}
    return dataclasses.replace(OWN_TABLE, **own), tuple(config.data.hide)
