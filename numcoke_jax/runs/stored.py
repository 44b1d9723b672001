"""What a run has written to its folder, read without JAX: its config, its names, its report."""

import os
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any, NotRequired, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

from ml_collections import ConfigDict

from numcoke_jax.config.files import stored_config
from numcoke_jax.data.graph import HIDDEN_FIELDS, Vocabulary
from numcoke_jax.runs.file_names import CONFIG_FILE, GRAPH_FOLDER, REPORT_FILE
from numcoke_jax.system.errors import UserError, printable, shown_path
from numcoke_jax.system.files import home_path, read_json, write_json_atomically

_MISSING = object()  # of no type

Metrics = TypedDict(  # of ranks; None without any
    "Metrics",
    {
        "count": int,
        "mrr": float | None,
        "mr": float | None,
        "hits@1": float | None,
        "hits@3": float | None,
        "hits@10": float | None,
    },
)


class SideMetrics(Metrics):
    """Of tails; where heads are ranked too, of the other sides."""

    exclude_self: NotRequired[Metrics]
    heads: NotRequired[Metrics]
    both: NotRequired[Metrics]


class CardinalityMetrics(SideMetrics):
    """Of a number of relations."""

    relations: int


class InductiveMetrics(Metrics):
    """Of the facts of entities that were held out."""

    entities: int
    exclude_self: Metrics
    raw_values: Metrics


class OrderMeasures(TypedDict):
    """Of test facts against their reverses, which have more keys if there are any."""

    count: int
    order_accuracy: NotRequired[float | None]


class Order(TypedDict):
    """Measures of all pairs, of those with the narrowest gaps and by relation."""

    all: OrderMeasures
    narrowest_quarter: OrderMeasures
    relations: dict[str, OrderMeasures]
    references: NotRequired[dict[str, Any] | None]


class Report(TypedDict):
    """report.json, which `runs/report.py` makes; docs/report.md says what the keys mean.

    Some may be missing: in a report of an older version, or because the run has nothing to say.
    """

    seed: int
    best_epoch: int
    seconds: float
    complete: NotRequired[bool]
    valid: SideMetrics
    test: SideMetrics
    protocol: NotRequired[dict[str, Any]]
    environment: NotRequired[dict[str, Any]]
    selection_mrr: NotRequired[float | None]
    compared_fields: NotRequired[dict[str, Any]]
    relations: NotRequired[dict[str, SideMetrics]]
    cardinalities: NotRequired[dict[str, CardinalityMetrics]]
    unseen_relations: NotRequired[dict[str, dict[str, int]]]
    order: NotRequired[Order | None]
    order_accuracy: NotRequired[list[Any]]
    calibration_kind: NotRequired[str]
    calibration: NotRequired[dict[str, Any] | None]
    inductive: NotRequired[InductiveMetrics]
    faults: NotRequired[list[Any]]
    evaluation_environment: NotRequired[dict[str, Any]]


def write_report(workdir: Path, report: Report) -> None:
    """Writes report.json; `UserError` if that is impossible."""
    write_json_atomically(workdir / REPORT_FILE, report)


def read_report(workdir: Path) -> Report:
    """The report of the run in `workdir`.

    Raises:
      UserError: there is none, or the file is damaged or something else.
    """
    path = workdir / REPORT_FILE
    if not path.exists():
        raise UserError(
            f"{shown_path(workdir)} has no {REPORT_FILE}: the run is not finished, or this is not a workdir"
        )
    report = read_json(path)
    if (place := _misfit(report, Report, "")) is not None:
        wrong = f": {place[1:]} is missing or has another form" if place else ""
        raise UserError(
            f"{shown_path(path)} is not a report of this program{wrong}; write it again with numcoke eval"
        )
    return report


def _misfit(value: Any, kind: Any, place: str) -> str | None:
    """Where a value of JSON is not of `kind`, a type of this file: ".test.mrr"; None if it is."""
    if kind is Any:
        return None
    if isinstance(kind, UnionType):
        misfits = [_misfit(value, option, place) for option in get_args(kind)]
        return None if None in misfits else misfits[0]
    plain = dict if is_typeddict(kind) else get_origin(kind) or kind
    if not isinstance(value, dict) or plain is not dict:
        return None if isinstance(value, (int, float) if plain is float else plain) else place
    if is_typeddict(kind):
        hints = get_type_hints(kind).items()
        parts = {key: hint for key, hint in hints if key in value or key in kind.__required_keys__}
    else:
        parts = dict.fromkeys(value, get_args(kind)[1])
    misfits = [_misfit(value.get(key, _MISSING), hint, f"{place}.{key}") for key, hint in parts.items()]
    return next((misfit for misfit in misfits if misfit is not None), None)


def run_config(workdir: Path, warn: Callable[[str], None]) -> ConfigDict:
    """The config of the run in `workdir`; `warn` reports keys that are newer than the run.

    Raises:
      UserError: there is no config, or the data that it names are not there.
    """
    if not workdir.is_dir():
        raise UserError(f"{shown_path(workdir)}: there is no such folder; give the workdir of a finished run")
    if not (workdir / CONFIG_FILE).exists():
        raise UserError(f"{shown_path(workdir)} holds no run, no {CONFIG_FILE}; give that of a finished one")
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


def hidden_fields(config: ConfigDict) -> dict[str, str]:
    """The fields that the model of a run is not given -> what hides them: a key, or a file of its graph."""
    path, by_file = home_path(config.data.path), {}
    if config.data.path and (path.is_file() or any(path.glob(f"{HIDDEN_FIELDS}*"))):
        from numcoke_jax.data.files.archive import GraphFiles  # with pyarrow, which others need not wait for
        from numcoke_jax.data.files.lines import read_names

        if file := GraphFiles(path).find(HIDDEN_FIELDS):
            by_file = dict.fromkeys(read_names(file), f"{HIDDEN_FIELDS} of {shown_path(path)}")
    return by_file | dict.fromkeys(config.data.hide, "data.hide")


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
