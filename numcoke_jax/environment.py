"""What a result depends on besides the config: versions, device, random numbers, code, data."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.graph import NumericGraph

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
GIT_SECONDS = 10  # a revision is not worth waiting longer for, on a slow network file system


def describe_environment(graph: NumericGraph) -> dict[str, Any]:
    """Package versions, Python, devices, XLA flags, PRNG, git revision (or None) and the hash of the data."""
    import jax  # only here: the hash and the versions alone need no device

    devices, settings = jax.devices(), jax.config.values
    return {
        "packages": package_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
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


def graph_hash(graph: NumericGraph) -> str:
    """SHA-256 of names, triples, negatives and literals; the order of rows in the files does not matter.

    Every part goes in with its name and length, so moving a name from one list to the next changes the
    hash.  Numbers go in as little-endian; values that are not observed do not count.
    """
    digest = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)

    for name in ("entities", "relations", "fields"):
        members = [member.encode("utf-8", "surrogatepass") for member in getattr(graph.vocabulary, name)]
        add(name, b"".join(b"%d %s" % (len(member), member) for member in members))
    for name in ("train", "valid", "test", "negatives"):
        add(name, np.ascontiguousarray(getattr(graph, name), dtype="<i4").tobytes())
    values = np.where(graph.observed, graph.values, 0.0)
    add("values", np.ascontiguousarray(values, dtype="<f8").tobytes())
    add("observed", np.ascontiguousarray(graph.observed, dtype=np.uint8).tobytes())
    return digest.hexdigest()


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
