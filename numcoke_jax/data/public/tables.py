"""The tables that the package knows, as entities with values."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from vega_datasets import local_data

from numcoke_jax.data.public.downloads import file_hash, version_notice
from numcoke_jax.data.public.sources import TABLE_SOURCES, check_directory, find_table
from numcoke_jax.data.tables.cells import TableFile, read_table
from numcoke_jax.data.tables.known import CARS, EntityTable, entity_table, table_spec
from numcoke_jax.data.tables.own import with_categories


def known_table(name: str, directory: str = "", categories: Sequence[str] = ()) -> EntityTable:
    """The entities of a table that the package knows, from the file that `find_table` finds.

    Args:
      name: a key of `known.TABLES`.
      directory: the folder to look in first (config.data.dir); "" for none.
      categories: columns of the file that become facts.

    Raises:
      UserError: no such table, no file of it and no way to get one, or a file with other content.
    """
    spec = table_spec(name)
    check_directory(directory, "raw tables")
    if spec is CARS:
        cars = packaged_cars()
        return with_categories(entity_table(spec, cars), cars, categories)
    path = find_table(spec, directory)
    content = read_table(path)
    table = with_categories(entity_table(spec, content), content, categories)
    (file,) = TABLE_SOURCES[name].files
    return dataclasses.replace(
        table, notices=(*version_notice(str(path), file_hash(path), file.hashes), *table.notices)
    )


def packaged_cars() -> TableFile:
    """The cars table that the package vega_datasets ships: 406 rows, some cells null; needs no network."""
    path = Path(local_data.cars.filepath)
    records = json.loads(path.read_text(encoding="utf-8"))
    columns = {column: [record[column] for record in records] for column in records[0]}
    columns["Year"] = [int(date[:4]) for date in columns["Year"]]  # "1970-01-01": the day says nothing
    return TableFile("vega_datasets cars", columns)
