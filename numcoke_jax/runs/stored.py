"""What a run has written to its folder, read without JAX: its config, its names, the keys of its report."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from ml_collections import ConfigDict

from numcoke_jax.config.files import stored_config
from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.runs.file_names import CONFIG_FILE, GRAPH_FOLDER
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path, read_json, write_json_atomically


class Report(TypedDict, total=False):
    """report.json, which `runs/report.py` writes; docs/report.md says what the keys mean.

    Any may be missing: in a report of an older version, or because the run has nothing to say.
    """

    seed: int
    best_epoch: int
    seconds: float
    complete: bool
    valid: dict[str, Any]
    test: dict[str, Any]
    protocol: dict[str, Any]
    environment: dict[str, Any]
    selection_mrr: float | None
    compared_fields: dict[str, Any]
    relations: dict[str, Any]
    cardinalities: dict[str, Any]
    unseen_relations: dict[str, dict[str, int]]
    order: dict[str, Any] | None
    order_accuracy: list[dict[str, Any]]
    calibration_kind: str
    calibration: dict[str, Any] | None
    inductive: dict[str, Any]
    faults: list[Any]
    evaluation_environment: dict[str, Any]


def run_config(workdir: Path, warn: Callable[[str], None]) -> ConfigDict:
    """The config of the run in `workdir`; `warn` reports keys that are newer than the run.

    Raises:
      UserError: there is no config, or the data that it names are not there.
    """
    if not workdir.is_dir():
        raise UserError(f"{shown_path(workdir)}: there is no such folder; give the workdir of a finished run")
    config = stored_config(workdir / CONFIG_FILE, warn)
    if (workdir / GRAPH_FOLDER).is_dir():  # wherever the workdir has been moved to
        config.data.path = str(workdir / GRAPH_FOLDER)
    elif config.data.path and not os.path.exists(home_path(config.data.path)):
        raise UserError(
            f"{shown_path(workdir / CONFIG_FILE)}: there is nothing at "
            f"data.path={printable(config.data.path)}, seen from {shown_path(os.getcwd())}; start the "
            "program where the run was trained, or change data.path there to where the data are now"
        )
    return config


def write_vocabulary(path: str | os.PathLike[str], vocabulary: Vocabulary, normalization: Any) -> None:
    """Writes vocabulary.json: entity, relation and field names in id order, and the value scale.

    Args:
      path: the file.
      vocabulary: names; they read back code point for code point, U+2028 and combining marks included.
      normalization: JSON values that turn a field's raw values into the model's (`Normalizer.to_json()`).
    """
    names = {name: list(getattr(vocabulary, name)) for name in ("entities", "relations", "fields")}
    write_json_atomically(path, names | {"normalization": normalization})


def read_vocabulary(path: str | os.PathLike[str]) -> tuple[Vocabulary, Any]:
    """The names and the value scale that `write_vocabulary` was given.

    Raises:
      UserError: the file is missing, damaged or something else.
    """
    stored = read_json(path)
    try:
        names = [tuple(stored[name]) for name in ("entities", "relations", "fields")]
        if not all(isinstance(name, str) for part in names for name in part):
            raise TypeError("names must be strings")
        return Vocabulary(*names), stored["normalization"]
    except (KeyError, TypeError) as error:
        raise UserError(f"{shown_path(path)} is not a vocabulary written by this program") from error
