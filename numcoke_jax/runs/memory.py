"""A dry run before the first byte of a model is allocated: how much memory will training and ranking need?"""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
from ml_collections import ConfigDict

from numcoke_jax.models import MODELS
from numcoke_jax.runs.run import Run
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.free_memory import available_bytes, size


@dataclasses.dataclass(frozen=True)
class Need:
    """Memory that a run needs, in bytes: on a device, or on all CPU devices of a process, which share it.

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


def check_memory(run: Run, console: Console, *, restored: bool = False) -> Need:
    """Report how much memory the run needs; compiles the step and the ranking, allocates at most one batch.

    With `restored`, a state is already on the devices: its memory is neither free nor needed again.

    Raises:
      UserError: it is more than the device has; the message names the settings to lower.
    """
    config, available, sharing = run.config, available_bytes(), _devices_in_one_memory(run)
    parameters, state = sharing * device_bytes(run.abstract_state.params), _state_bytes(run)
    if restored and available is not None:
        available += state
    devices = run.programs.placement.mesh.size
    where = f" on each of {devices} devices" if sharing < devices else ""
    console.note(f"parameters {size(parameters)}, with the optimiser's moments {size(state)}{where}")
    _refuse(state, available, "the parameters with the optimiser's moments need", config, STATE_KEYS)
    with console.compiling(*run.waits_for("step and ranking")):
        need = Need(
            parameters=parameters,
            state=state,
            step=sharing * _step_bytes(run),
            ranking=_ranking_bytes(run),
        )
    step = "" if run.nothing_to_train else f"a training step needs about {size(need.step)}, "
    console.note(f"{step}ranking {'needs about ' if not step else ''}{size(need.ranking)}")
    _refuse(need.step, available, "a training step needs", config, STEP_KEYS)
    _refuse(need.ranking, available, "ranking needs", config, RANKING_KEYS)
    return need


def check_ranking_memory(run: Run, console: Console) -> None:
    """The part of `check_memory` for a process that trains nothing; same errors."""
    with console.compiling(*run.waits_for("ranking")):
        need, available = _ranking_bytes(run), available_bytes()
    console.note(f"ranking needs about {size(need)}")
    _refuse(need, available, "ranking needs", run.config, TRAINED_KEYS)


# What to change if each does not fit; see `memory_remedy`.
STATE_KEYS = ("model.dim", "mesh.entity")

STEP_KEYS = (
    "train.batch_size",
    "train.relations_per_step",
    "model.dim",
    "train.candidates",
    "mesh.entity",
)

RANKING_KEYS = ("eval.chunk", "model.dim", "mesh.entity")

TRAINED_KEYS = ("eval.chunk", "mesh.entity")  # of a ranking once the model is trained

MORE_DEVICES = "raise mesh.entity={} to divide the entity tables among more devices with memory of their own"

SAMPLED = "set train.candidates={} (all entities in every step) to a number of sampled entities"

USE_REMEDY = (  # if the config comes from the workdir
    "give numcoke eval a smaller --eval.chunk, which it stores in the workdir, or use a device with "
    "more memory, such as that of the machine with JAX_PLATFORMS=cpu"
)


def memory_remedy(config: ConfigDict, keys: tuple[str, ...]) -> str:
    """What to do with the keys, such as "lower model.dim=200, or raise mesh.entity=1 to ..."."""
    lowered, others = [], []
    for key in keys:
        section, name = key.split(".")
        value = config[section][name]
        if key == "mesh.entity":
            others.append(MORE_DEVICES.format(value))
        elif key == "train.candidates" and not value:
            others += [SAMPLED.format(value)] if not MODELS[config.model.name].reads_facts else []
        else:
            lowered.append(f"{key}={value}")
    return ", or ".join([f"lower {' or '.join(lowered)}", *others])


@contextlib.contextmanager
def out_of_memory_told(remedy: str) -> Iterator[None]:
    """Turn a failed allocation on the device into a UserError that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        first_line = str(error).splitlines()[0]
        raise UserError(f"the device ran out of memory ({first_line}): {remedy}") from error


def device_bytes(tree: Any) -> int:
    """Bytes of the part that one device has of all arrays of an abstract tree with shardings."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def _step_bytes(run: Run) -> int:
    if run.nothing_to_train:  # its one step is on the host
        return device_bytes(run.abstract_state)
    batch = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), run.batch(0)
    )
    analysis = run.programs.step.lower(run.abstract_state, batch, run.literals).compile().memory_analysis()
    if analysis is None:  # the platform does not say
        return device_bytes(run.abstract_state)
    return (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        - analysis.alias_size_in_bytes
        + analysis.temp_size_in_bytes
    )


def _state_bytes(run: Run) -> int:
    return _devices_in_one_memory(run) * device_bytes(run.abstract_state)


def _ranking_bytes(run: Run) -> int:
    beside_state = run.evaluator.memory(run.abstract_state.params)
    return _state_bytes(run) + _devices_in_one_memory(run) * beside_state


def _devices_in_one_memory(run: Run) -> int:
    """Number of the run's devices that share one memory, as all CPU devices of this process do."""
    local = run.programs.placement.mesh.local_devices
    return len(local) if local[0].platform == "cpu" else 1


def _refuse(need: int, available: int | None, what: str, config: ConfigDict, keys: tuple[str, ...]) -> None:
    if available is not None and need > available:
        raise UserError(
            f"{what} about {size(need)}, but {size(available)} of memory are free: "
            f"{memory_remedy(config, keys)}"
        )
