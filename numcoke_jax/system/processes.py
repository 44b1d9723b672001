"""Processes of one run on several hosts, joined by `jax.distributed`: from flags or from the environment.

    --coordinator=HOST:PORT --processes=N --process=I     as flags
    NUMCOKE_COORDINATOR, NUMCOKE_PROCESSES, NUMCOKE_PROCESS   the same in the environment
    --coordinator=auto                                    from the cluster itself: TPU pods, Slurm, Open MPI

Every process runs the same command.  Process 0 writes the workdir and the screen.

JAX is imported in the functions that need it: it takes seconds, and a mistyped flag is answered before.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from numcoke_jax.system.errors import UserError
from numcoke_jax.system.watched import HEARTBEAT_SECONDS

FLAGS = ("coordinator", "processes", "process")
AUTO = "auto"
LARGEST_PORT = 65535


def process_settings(given: Mapping[str, str | None]) -> dict[str, str]:
    """The values of `FLAGS` that are given, or else set in the environment."""
    values = {name: given.get(name) or os.environ.get(f"NUMCOKE_{name.upper()}") for name in FLAGS}
    return {name: value for name, value in values.items() if value}  # a script may set one to nothing


def initial_arguments(settings: Mapping[str, str]) -> dict[str, Any]:
    """What `jax.distributed.initialize` needs to know; nothing where the cluster says it.

    Raises:
      UserError: the settings are incomplete or not numbers.
    """
    coordinator = settings.get("coordinator")
    if coordinator is None:
        raise UserError(f"--{next(iter(settings))} needs --coordinator=HOST:PORT, or --coordinator={AUTO}")
    if coordinator == AUTO:
        return {}
    place = re.fullmatch(r".+:([0-9]{1,5})", coordinator)
    if not place or not 0 < int(place[1]) <= LARGEST_PORT:  # else it would wait for the others in vain
        raise UserError(
            f"--coordinator={coordinator} must be HOST:PORT, or {AUTO}; a port is 1 to {LARGEST_PORT}"
        )
    count, number = (_integer(settings, name) for name in ("processes", "process"))
    if not 0 <= number < count:
        raise UserError(f"--process={number} is out of range: needs an integer >= 0 and < {count}")
    return {"coordinator_address": coordinator, "num_processes": count, "process_id": number}


def join(settings: Mapping[str, str]) -> None:
    """Join the other processes, before JAX computes anything; without settings there are none.

    Raises:
      UserError: as `initial_arguments`, or the other processes do not answer.
    """
    if not settings:
        return
    coordinator, arguments = settings.get("coordinator"), initial_arguments(settings)
    import jax

    try:
        jax.distributed.initialize(**arguments, heartbeat_timeout_seconds=HEARTBEAT_SECONDS)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"--coordinator={coordinator}: cannot join the other processes ({error})") from error


def _integer(settings: Mapping[str, str], name: str) -> int:
    value = settings.get(name)
    if value is None or not value.isdecimal():
        found = " is missing" if value is None else f"={value} is not an integer >= 0"
        raise UserError(f"--{name}{found}: --coordinator=HOST:PORT needs --processes=N and --process=I")
    return int(value)


def fetch(tree: Any) -> Any:
    """The arrays of a tree on the host of every process, NumPy.  All processes must call it together."""
    import jax
    from jax.experimental import multihost_utils

    if all(leaf.is_fully_addressable or leaf.is_fully_replicated for leaf in jax.tree.leaves(tree)):
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def leads() -> bool:
    """True in the process that writes files and the screen."""
    import jax

    return jax.process_index() == 0


def wait_for_others(name: str) -> None:
    """Wait until all processes have reached the same point."""
    import jax
    from jax.experimental import multihost_utils

    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def agreed(flags: tuple[bool, ...]) -> tuple[bool, ...]:
    """Each flag, True if it is on any process; processes must do the same, whatever their clocks say."""
    import jax
    from jax.experimental import multihost_utils

    if jax.process_count() == 1:
        return flags
    everywhere = multihost_utils.process_allgather(np.asarray(flags, np.int32))
    return tuple(bool(flag) for flag in everywhere.max(axis=0))
