"""A dry run before the first byte of a model is allocated: how much memory will training and ranking need?"""

import dataclasses
import pathlib

import jax
from ml_collections import ConfigDict

from numcoke_jax.checkpoints import tree_bytes
from numcoke_jax.console import Console
from numcoke_jax.errors import UserError
from numcoke_jax.run import Run

GIB = 2**30
# The control groups of a container, version 2 and version 1: folder, files with the limit and the use of
# memory, and the names in memory.stat of cached files within that use, which make room when it is needed.
CGROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file")),
    (
        "/sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


@dataclasses.dataclass(frozen=True)
class Need:
    """Memory that a run needs on a device, in bytes.

    Attributes:
      parameters: the model's parameters.
      state: parameters, the optimiser's moments and the rest of the training state.
      step: a training step at its peak, the state included.
      ranking: an evaluation at its peak, the state included.
    """

    parameters: int
    state: int
    step: int
    ranking: int


def check_memory(run: Run, console: Console) -> Need:
    """Report how much memory the run needs; compiles the step and the ranking, allocates at most one batch.

    Raises:
      UserError: it is more than the device has; the message names the settings to lower.
    """
    config, available = run.config, available_bytes()
    parameters, state = tree_bytes(run.abstract_state.params), tree_bytes(run.abstract_state)
    console.note(f"parameters {size(parameters)}, with the optimiser's moments {size(state)}")
    _refuse(state, available, "the parameters with the optimiser's moments need", config, ("model.dim",))
    need = Need(
        parameters=parameters,
        state=state,
        step=_step_bytes(run),
        ranking=state + run.evaluate.memory(run.abstract_state.params),
    )
    console.note(f"a training step needs about {size(need.step)}, ranking {size(need.ranking)}")
    _refuse(need.step, available, "a training step needs", config, STEP_KEYS)
    _refuse(need.ranking, available, "ranking needs", config, RANKING_KEYS)
    return need


STEP_KEYS = ("train.batch_size", "train.relations_per_step", "model.dim")
RANKING_KEYS = ("eval.chunk", "model.dim")


def out_of_memory(error: Exception, config: ConfigDict) -> UserError:
    """The error for an allocation that failed on the device all the same."""
    first_line = str(error).splitlines()[0]
    return UserError(f"the device ran out of memory ({first_line}): lower {_values(config, STEP_KEYS)}")


def available_bytes() -> int | None:
    """Free memory of the first device, or of the machine or container for a CPU; None if unknown."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        limit = stats.get("bytes_limit")
        return None if limit is None else limit - stats.get("bytes_in_use", 0)
    free = [_free_of_machine(), *(_free_of_container(*group) for group in CGROUPS)]
    return min((known for known in free if known is not None), default=None)


def size(number: int) -> str:
    """Bytes as "0.75 GiB", "12.3 MiB" or "4.0 KiB"."""
    if number >= GIB / 10:
        return f"{number / GIB:.2f} GiB"
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 / 10 else f"{number / 2**10:.1f} KiB"


def _step_bytes(run: Run) -> int:
    batch = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), run.batch(0)
    )
    analysis = run.programs.step.lower(run.abstract_state, batch, run.literals).compile().memory_analysis()
    if analysis is None:  # the platform does not say
        return tree_bytes(run.abstract_state)
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        - analysis.alias_size_in_bytes
        + analysis.temp_size_in_bytes
    )


def _refuse(need: int, available: int | None, what: str, config: ConfigDict, keys: tuple[str, ...]) -> None:
    if available is not None and need > available:
        raise UserError(
            f"{what} about {size(need)}, but {size(available)} of memory are free: "
            f"lower {_values(config, keys)}"
        )


def _values(config: ConfigDict, keys: tuple[str, ...]) -> str:
    named = [f"{key}={config[key.split('.')[0]][key.split('.')[1]]}" for key in keys]
    return " or ".join(named)


def _free_of_machine() -> int | None:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kibibytes[0]) if kibibytes else None


def _free_of_container(folder: str, limit_file: str, use_file: str, cached: tuple[str, ...]) -> int | None:
    try:
        limit, use = (int((pathlib.Path(folder) / file).read_text()) for file in (limit_file, use_file))
    except (OSError, ValueError):  # no container, or "max"
        return None
    return max(limit - use + _cached_files(pathlib.Path(folder) / "memory.stat", cached), 0)


def _cached_files(stat: pathlib.Path, names: tuple[str, ...]) -> int:
    try:
        entries = dict(line.split(maxsplit=1) for line in stat.read_text().splitlines())
        return sum(int(entries.get(name, 0)) for name in names)
    except (OSError, ValueError):  # not reported
        return 0
