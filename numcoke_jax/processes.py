"""Processes of one run on several hosts, joined by `jax.distributed`: from flags or from the environment.

    --coordinator=HOST:PORT --processes=N --process=I     as flags
    NUMCOKE_COORDINATOR, NUMCOKE_PROCESSES, NUMCOKE_PROCESS   the same in the environment
    --coordinator=auto                                    from the cluster itself: TPU pods, Slurm, Open MPI

Every process runs the same command.  Process 0 writes the workdir and the screen.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

from numcoke_jax.errors import UserError

FLAGS = ("coordinator", "processes", "process")
AUTO = "auto"


def take_process_flags(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of `FLAGS` among the arguments, with those of the environment; and the other arguments."""
    found = {
        name: os.environ[f"NUMCOKE_{name.upper()}"]
        for name in FLAGS
        if f"NUMCOKE_{name.upper()}" in os.environ
    }
    others = []
    for argument in arguments:
        flag = re.fullmatch(rf"--?({'|'.join(FLAGS)})=(.*)", argument)
        if flag:
            found[flag[1]] = flag[2]
        else:
            others.append(argument)
    return found, others


def join(settings: dict[str, str]) -> None:
    """Join the other processes, before JAX computes anything; without settings there are none.

    Raises:
      UserError: settings that are not complete or no numbers, or the others do not answer.
    """
    if not settings:
        return
    coordinator = settings.get("coordinator")
    if coordinator is None:
        raise UserError(f"--{next(iter(settings))} needs --coordinator=HOST:PORT, or --coordinator={AUTO}")
    arguments: dict[str, Any] = {}
    if coordinator != AUTO:
        if not re.fullmatch(r".+:\d+", coordinator):
            raise UserError(f"--coordinator={coordinator} must be HOST:PORT, or {AUTO}")
        count, number = (_integer(settings, name) for name in ("processes", "process"))
        if not 0 <= number < count:
            raise UserError(f"--process={number} is out of range: needs an integer >= 0 and < {count}")
        arguments = {"coordinator_address": coordinator, "num_processes": count, "process_id": number}
    import jax  # only here: a mistyped flag is answered before it is loaded

    try:
        jax.distributed.initialize(**arguments)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"--coordinator={coordinator}: cannot join the other processes ({error})") from error


def _integer(settings: dict[str, str], name: str) -> int:
    value = settings.get(name)
    if value is None or not value.isdigit():
        found = " is missing" if value is None else f"={value} is no integer >= 0"
        raise UserError(f"--{name}{found}: --coordinator=HOST:PORT needs --processes=N and --process=I")
    return int(value)
