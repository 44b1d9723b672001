"""What a finished run has left, of which nothing may depend on how often it was stopped."""

import hashlib
import json
import resource
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numcoke_jax.inference.trained import load_trained
from numcoke_jax.runs.checkpoints import Name
from numcoke_jax.runs.file_names import CHECKPOINTS_FOLDER, METRICS_FILE, REPORT_FILE
from numcoke_jax.runs.logs import EVENTS_FOLDER
from numcoke_jax.runs.resume import checkpoints_of
from numcoke_jax.system.errors import UserError

TIMES = ("seconds", "environment", "queries_per_second")  # which no two runs share


def outcome_of(workdir: Path) -> dict[str, Any]:
    """Report, log, progress, digests of the newest and the best state, and the names of the files.

    Raises:
      UserError: it cannot be loaded, or only with a warning.
    """
    warnings: list[str] = []
    trained = load_trained(workdir, warnings.append)
    with checkpoints_of(trained.run, workdir) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    if newest is None or faults or warnings:
        raise UserError(f"{workdir}: {'; '.join([*faults, *warnings]) or 'there is no checkpoint'}")
    lines = (workdir / METRICS_FILE).read_text(encoding="utf-8").splitlines()
    state = newest.state.replace(key=jax.random.key_data(newest.state.key))
    return {
        "report": _without_times(json.loads((workdir / REPORT_FILE).read_text(encoding="utf-8"))),
        "log": [_without_times(json.loads(line)) for line in lines],
        "progress": _without_times(newest.progress),
        "newest checkpoint": _digest(state),
        "best checkpoint": _digest(trained.params),
        "files": sorted({_name(path.relative_to(workdir)) for path in workdir.rglob("*")}),
    }


def _digest(tree: Any) -> str:
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = np.asarray(leaf)
        found.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _name(path: Path) -> str:
    """A name without what stops and the clock change: event files, checkpoints between validations."""
    first, *others = path.parts
    if first == EVENTS_FOLDER:
        return first
    if first == CHECKPOINTS_FOLDER and others:
        return f"{first}/{'whole' if Name.parse(others[0]) else others[0]}"
    return str(path)


def _without_times(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in TIMES}


def resident_mebibytes() -> int:
    """Memory of this process now, which has loaded the run of every round (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20
