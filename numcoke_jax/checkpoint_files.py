"""Sealed folders: a manifest with checksums, written last, tells a whole folder from a damaged one.

The manifest is text in the form of `sha256sum`, one file per line, and ends with a checksum of itself.  A
byte that changed anywhere, in a file or in the manifest, is noticed; so is a file that is cut short or
missing.
Files that the manifest does not list, such as those of a network file system, do not count.
"""

import hashlib
import os
import pathlib

MANIFEST = "manifest.sha256"
BLOCK = 1 << 22  # bytes read at once


def seal(folder: pathlib.Path) -> None:
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


def damage(folder: pathlib.Path) -> str | None:
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
    for line in body.decode().splitlines():
        checksum, _, name = line.partition("  ")
        try:
            if _checksum(folder / name) != checksum:
                return f"{name} is damaged: its bytes are not those that were written"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def flush_folder(folder: pathlib.Path) -> None:
    """Flush the names in `folder` to the disk: what was renamed there stays renamed after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(path: pathlib.Path, *, flush: bool = False) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
        if flush:
            os.fsync(file.fileno())
    return digest.hexdigest()


def _last_line(body: bytes) -> bytes:
    return f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n".encode()
