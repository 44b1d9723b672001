"""Files that are complete or absent, and sealed folders.

A file is complete or absent: it is written under another name, flushed to the disk and renamed.

In a sealed folder a manifest with checksums, written last, tells a whole folder from a damaged one.  It is
text in the form of `sha256sum`, one file per line, and ends with a checksum of itself.  A byte that changed
anywhere, in a file or in the manifest, is noticed; so is a file that is cut short or missing.  Files that the
manifest does not list, such as those of a network file system, do not count.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from numcoke_jax.system.errors import UserError, printable, shown_path

MANIFEST = "manifest.sha256"


def write_json_atomically(path: str | os.PathLike[str], obj: Any) -> None:
    """Writes `obj` as UTF-8 JSON with keys in the given order; a reader sees the old file or the new one.

    NumPy scalars and arrays, tuples and paths are allowed; so are names with any character.

    Raises:
      UserError: the file cannot be written: disk full, no permission, the folder is missing.
      ValueError: `obj` holds a NaN or an infinity; the message says where.
    """
    path = Path(path)
    _refuse_non_finite(obj, path.name)
    text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False, default=_as_json) + "\n"
    # A path that is not UTF-8 reaches us with lone surrogates; as JSON escapes they read back the same.
    write_bytes_atomically(path, text.encode("utf-8", "backslashreplace"))


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name, flushes it to the disk and renames it.

    Raises:
      UserError: the file cannot be written; the old file, if any, is untouched.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        with contextlib.suppress(OSError):  # the name as well: some file systems cannot, which is no error
            flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UserError:
    """The message for a file of the workdir that the system refuses to write."""
    reason = error.strerror or type(error).__name__
    return UserError(f"cannot write {shown_path(path)}: {reason}; free space or choose another folder")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file.

    Raises:
      UserError: the file is missing, unreadable or not JSON.
    """
    shown = shown_path(path)
    try:
        return json.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # the last: thousands of brackets
        raise UserError(f"{shown} is damaged: {printable(str(error))}") from error


def _refuse_non_finite(obj: Any, place: str) -> None:
    if isinstance(obj, np.ndarray):
        obj = obj.tolist()
    if isinstance(obj, Mapping):
        for key, value in obj.items():
            _refuse_non_finite(value, f"{place}: {key}" if ":" not in place else f"{place}.{key}")
    elif isinstance(obj, list | tuple):
        for index, value in enumerate(obj):
            _refuse_non_finite(value, f"{place}[{index}]")
    elif isinstance(obj, float | np.floating) and not math.isfinite(obj):
        raise ValueError(f"{place} is {obj}: JSON has no such number")


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def home_path(path: str | os.PathLike[str]) -> Path:
    """A path that a user gave: a leading ~ or ~NAME is a home folder, kept as typed if there is none.

    A shell leaves them to the program in --flag=~/file, and so does a config file.
    """
    return Path(os.path.expanduser(os.fspath(path)))


def seal(folder: Path) -> None:
    """Flush every file of `folder` to the disk, then write and flush its manifest.

    Raises:
      OSError: a file cannot be read or written.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{_checksum(path, flush=True)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    body = "".join(lines).encode()
    with (folder / MANIFEST).open("wb") as file:
        file.write(body + _last_line(body))
        file.flush()
        os.fsync(file.fileno())
    for inner in {path.parent for path in files} | {folder}:
        flush_folder(inner)


def damage(folder: Path) -> str | None:
    """What is wrong with a sealed folder, in a few words that name the file; None if nothing is."""
    if not folder.is_dir():
        return "it is not a folder"
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return f"{MANIFEST} is missing: it was not written to the end, or was written by another program"
    except OSError as error:
        return f"{MANIFEST} cannot be read ({error.strerror})"
    body = content[: -len(_last_line(b""))]
    if content != body + _last_line(body):
        return f"{MANIFEST} is damaged"
    for line in body.decode(errors="replace").splitlines():
        checksum, _, name = line.partition("  ")
        try:
            if _checksum(folder / name) != checksum:
                return f"{name} is damaged: its bytes are not those that were written"
        except (FileNotFoundError, ValueError):  # the last: a NUL character
            return f"{printable(name)} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def flush_folder(folder: Path) -> None:
    """Flush the names in `folder` to the disk: what was renamed there stays renamed after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(path: Path, *, flush: bool = False) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        if flush:
            os.fsync(file.fileno())
    return digest.hexdigest()


def _last_line(body: bytes) -> bytes:
    return f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n".encode()
