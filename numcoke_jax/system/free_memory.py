"""How much memory is free: of a device, a machine, a container or a cluster's job."""

import dataclasses
import pathlib

import jax

GIB = 2**30
# One line per hierarchy: its number, its controllers, the path of this process' group below the mount.
OWN_CGROUPS = pathlib.Path("/proc/self/cgroup")


@dataclasses.dataclass(frozen=True)
class Cgroups:
    """The control groups by which the kernel limits the memory of containers and of a cluster's jobs.

    Attributes:
      mount: folder of the outermost group; the folders of the other groups are below it.
      controller: name of the hierarchy in `OWN_CGROUPS`.
      limit, use: files with the limit and the use of a group.
      cached: names in memory.stat of cached files within that use, which make room when it is needed.
    """

    mount: str
    controller: str
    limit: str
    use: str
    cached: tuple[str, ...]


CGROUPS = (
    Cgroups("/sys/fs/cgroup", "", "memory.max", "memory.current", ("inactive_file", "active_file")),
    Cgroups(
        "/sys/fs/cgroup/memory",
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
)


def available_bytes() -> int | None:
    """Free memory of the first device, or of the machine, container or job for a CPU; None if unknown."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        stats = device.memory_stats() or {}
        limit = stats.get("bytes_limit")
        return None if limit is None else limit - stats.get("bytes_in_use", 0)
    free = [_free_of_machine()]
    for groups in CGROUPS:
        free += [_free_of_group(folder, groups) for folder in _own_groups(groups)]
    return min((known for known in free if known is not None), default=None)


def size(number: int) -> str:
    """Bytes as "0.75 GiB", "12.3 MiB" or "4.0 KiB"."""
    if number >= GIB / 10:
        return f"{number / GIB:.2f} GiB"
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 / 10 else f"{number / 2**10:.1f} KiB"


def _free_of_machine() -> int | None:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kibibytes[0]) if kibibytes else None


def _own_groups(groups: Cgroups) -> list[pathlib.Path]:
    """The folders of this process' group and of the groups around it, each of which may have a limit.

    Only the outermost group if the process' own is not visible, as in some containers.
    """
    mount = pathlib.Path(groups.mount)
    try:
        lines = [line.split(":", 2) for line in OWN_CGROUPS.read_text().splitlines()]
    except OSError:
        return [mount]
    own = [fields[2] for fields in lines if len(fields) == 3 and groups.controller in fields[1].split(",")]
    folder = mount / own[0].lstrip("/") if own and ".." not in own[0].split("/") else mount
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(mount))]


def _free_of_group(folder: pathlib.Path, groups: Cgroups) -> int | None:
    try:
        limit, use = (int((folder / file).read_text()) for file in (groups.limit, groups.use))
    except (OSError, ValueError):  # no limit, or "max"
        return None
    return max(limit - use + _cached_files(folder / "memory.stat", groups.cached), 0)


def _cached_files(stat: pathlib.Path, names: tuple[str, ...]) -> int:
    try:
        entries = dict(line.split(maxsplit=1) for line in stat.read_text().splitlines())
        return sum(int(entries.get(name, 0)) for name in names)
    except (OSError, ValueError):  # not reported
        return 0
