"""A disk that is soon full."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(path: Path, kibibytes: int) -> Iterator[Path]:
    """A tmpfs of that size; skips where mounting is not permitted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here; the injected full disk is tested")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
