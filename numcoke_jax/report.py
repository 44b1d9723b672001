"""What a run leaves behind for people and other programs: report.json, vocabulary.json.

A file is complete or absent: it is written under another name, flushed to the disk and renamed.
"""

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.config_checks import printable, shown_path
from numcoke_jax.environment import describe_environment
from numcoke_jax.errors import UserError
from numcoke_jax.graph import SPLITS, NumericGraph, Vocabulary

REPORT_FILE = "report.json"
METRICS = ("count", "mrr", "mr", "hits@1", "hits@3", "hits@10")


def write_json_atomically(path: str | os.PathLike[str], obj: Any) -> None:
    """Writes `obj` as UTF-8 JSON with keys in the given order; a reader sees the old file or the new one.

    NumPy scalars and arrays, tuples and paths are allowed; so are names with any character.

    Raises:
      UserError: the file cannot be written: disk full, no permission, the folder is missing.
      ValueError: `obj` holds a NaN or an infinity; the message says where.
    """
    path = Path(path)
    _refuse_non_finite(obj, path.name)
    text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False, default=_as_json) + "\n"
    # A path that is not UTF-8 reaches us with lone surrogates; as JSON escapes they read back the same.
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes it to the disk and renames it.

    Raises:
      UserError: the file cannot be written; the old file, if any, is untouched.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UserError:
    """The message for a file of the workdir that the system refuses to write."""
    reason = error.strerror or type(error).__name__
    return UserError(f"cannot write {shown_path(path)}: {reason}; free space or choose another folder")


def build_report(
    *,
    seed: int,
    best_epoch: int,
    seconds: float,
    complete: bool,
    graph: NumericGraph,
    valid: Mapping[str, Any],
    test: Mapping[str, Any],
) -> dict[str, Any]:
    """The content of report.json.

    Args:
      seed: config.seed of the run.
      best_epoch: the epoch whose parameters were ranked.
      seconds: wall-clock seconds of training over all its parts.
      complete: False if training has not come to its end, as with --mode=eval on a stopped run.
      graph: the data, for their hash among the facts about the environment.
      valid, test: count, mrr, mr, hits@1, hits@3, hits@10, and the same under exclude_self.

    Returns:
      {"seed", "best_epoch", "seconds", "complete", "valid", "test", "protocol", "environment"}; a split as
      given, with its keys in a fixed order.  Metrics of a split without queries are None.
    """
    return {
        "seed": int(seed),
        "best_epoch": int(best_epoch),
        "seconds": round(float(seconds), 3),
        "complete": bool(complete),
        "valid": _metrics(valid) | {"exclude_self": _metrics(valid["exclude_self"])},
        "test": _metrics(test) | {"exclude_self": _metrics(test["exclude_self"])},
        "protocol": {
            "ranked": "tails",  # heads are never ranked: not to be compared with a mean over both sides
            "filtered_by": list(SPLITS),
            "ties": "mean rank",
            "inverse_relations": False,  # none is added; those in the data are relations like any other
            "facts": {split: len(graph.split(split)) for split in SPLITS},
        },
        "environment": describe_environment(graph),
    }


def environments(report: Mapping[str, Any], *, before: Path) -> dict[str, Any]:
    """Entries of a report by a process that only evaluates.

    `environment` is where the run was trained, as the report in the file `before` tells;
    `evaluation_environment` is where this report was made, if that is another one.
    """
    try:
        trained, here = read_json(before)["environment"], report["environment"]
    except (UserError, KeyError, TypeError):  # missing, damaged or something else
        return {}
    return {} if trained == here else {"environment": trained, "evaluation_environment": here}


def calibration_kind(report: Mapping[str, Any]) -> str:
    """The `eval.calibration` of a report; one that is older than this entry tells by what it holds."""
    found = report["calibration"]
    return report.get("calibration_kind", "none" if found is None else found["kind"])


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


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file.

    Raises:
      UserError: the file is missing, unreadable or not JSON.
    """
    shown = shown_path(path)
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{shown} is damaged: {printable(str(error))}") from error


def _metrics(metrics: Mapping[str, Any]) -> dict[str, float | int | None]:
    return {name: _metric(metrics[name]) for name in METRICS}


def _metric(value: Any) -> float | int | None:
    if value is None or isinstance(value, int):
        return value
    return int(value) if isinstance(value, np.integer) else float(value)


def _refuse_non_finite(obj: Any, place: str) -> None:
    if isinstance(obj, np.ndarray):
        obj = obj.tolist()
    if isinstance(obj, Mapping):
        for key, value in obj.items():
            _refuse_non_finite(value, f"{place}: {key}" if ":" not in place else f"{place}.{key}")
    elif isinstance(obj, list | tuple):
        for index, value in enumerate(obj):
            _refuse_non_finite(value, f"{place}[{index}]")
    elif isinstance(obj, float | np.floating) and not math.isfinite(obj):
        raise ValueError(f"{place} is {obj}: JSON has no such number")


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _flush_folder(folder: Path) -> None:
    """Makes the renaming itself survive a power cut; some file systems cannot, which is not an error."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
