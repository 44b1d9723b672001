"""Where a raw table is found: a folder given by the user, $NUMCOKE_DATA, the user cache, a package."""

import json
import os
from pathlib import Path

import pooch
from vega_datasets import local_data

from numcoke_jax.data.table_files import TableFile, read_table
from numcoke_jax.data.tables import CARS, EntityTable, TableSpec, entity_table, table_spec
from numcoke_jax.errors import UserError

FOLDER_VARIABLE = "NUMCOKE_DATA"


def known_table(name: str, directory: str = "") -> EntityTable:
    """The entities of a table that the package knows, from the file that `find_table` finds.

    Args:
      name: a key of `tables.TABLES`.
      directory: the folder to search first (config.data.dir); "" for none.

    Raises:
      UserError: no such table, no file of it, or a file that does not hold it.
    """
    spec = table_spec(name)
    return entity_table(spec, packaged_cars() if spec is CARS else read_table(find_table(spec, directory)))


def search_folders(directory: str) -> list[Path]:
    """The folders that are searched for raw tables, in order: `directory`, $NUMCOKE_DATA, the user cache."""
    given = [directory, os.environ.get(FOLDER_VARIABLE, "")]
    return [Path(folder).expanduser() for folder in given if folder] + [Path(pooch.os_cache("numcoke_jax"))]


def find_table(spec: TableSpec, directory: str) -> Path:
    """The first file of `spec.files` in the first folder that has one.

    Raises:
      UserError: a folder that the user named does not exist, or no folder has the file; the message says
        which file to put where and its public source.
    """
    folders = search_folders(directory)
    if directory and not os.path.isdir(folders[0]):
        raise UserError(f"data.dir: {directory!r} is no folder; give the folder of {spec.files[0]}")
    for folder in folders:
        for file in spec.files:
            if os.path.isfile(folder / file):  # False, not an error, in a folder that cannot be read
                return folder / file
    searched = ", ".join(map(str, folders))
    hint = "" if os.environ.get(FOLDER_VARIABLE) else f" or set ${FOLDER_VARIABLE} to its folder"
    raise UserError(
        f"data.table: {spec.name} not found in {searched}; "
        f"get it from {spec.source} and save it as {folders[0] / spec.files[0]}{hint}"
    )


def packaged_cars() -> TableFile:
    """The cars table that the package vega_datasets ships: 406 rows, some cells null; needs no network."""
    path = Path(local_data.cars.filepath)
    records = json.loads(path.read_text(encoding="utf-8"))
    columns = {column: [record[column] for record in records] for column in records[0]}
    columns["Year"] = [int(date[:4]) for date in columns["Year"]]  # "1970-01-01": the day says nothing
    return TableFile("vega_datasets cars", columns)
