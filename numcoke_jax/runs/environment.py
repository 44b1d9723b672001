"""What a result depends on besides the config: versions, device, random numbers, code, data."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from numcoke_jax.data.graph import NumericGraph, graph_hash

PACKAGES = (
    "numcoke-jax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "pandas",
    "pyarrow",
    "ml-collections",
)
MODEL_KEYS = ("model name", "Hardware", "cpu model", "cpu")  # of /proc/cpuinfo: x86, ARM, MIPS, POWER
GIT_SECONDS = 10  # a revision is not worth waiting longer for, on a slow network file system


def describe_environment(graph: NumericGraph) -> dict[str, Any]:
    """Package versions, Python, processor, devices, XLA flags, PRNG, git revision, the data's hash."""
    import jax  # only here: the hash and the versions alone need no device

    devices, settings = jax.devices(), jax.config.values
    return {
        "packages": package_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor_model(),  # XLA's code for the CPU, and so its bits, differ between kinds
        "device_kind": devices[0].device_kind,
        "backend": jax.default_backend(),
        "cpu_cores": len(os.sched_getaffinity(0)),  # that this process may use: sums are divided among them
        "devices": len(devices),
        "processes": jax.process_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "prng_implementation": str(settings["jax_default_prng_impl"]),
        "prng_partitionable": bool(settings["jax_threefry_partitionable"]),
        "matmul_precision": settings["jax_default_matmul_precision"],
        "git_revision": git_revision(),
        "data_sha256": graph_hash(graph),
    }


def package_versions() -> dict[str, str | None]:
    """The version of each of `PACKAGES`; None for one that is not installed, as in a bare checkout."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def processor_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """What the processor calls itself, or None if the system does not say."""
    with contextlib.suppress(OSError):
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in MODEL_KEYS and value.strip():
                return value.strip()
    return platform.processor() or None


def git_revision(file: Path = Path(__file__)) -> str | None:
    """The commit of the repository that tracks `file`, with "-dirty" after local changes; else None.

    A package installed inside another project's checkout is not part of it, hence the check that the file
    is tracked.
    """
    folder = str(file.resolve().parent)

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", folder, *arguments]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=GIT_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "--", file.name) is None:
        return None
    revision = git("rev-parse", "HEAD")
    if revision is None:
        return None
    return revision + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
