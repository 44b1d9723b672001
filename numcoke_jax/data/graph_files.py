"""The files of a graph: in a folder, or inside a zip archive of one."""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

from numcoke_jax.data.text_files import TextFile
from numcoke_jax.errors import UserError
from numcoke_jax.graph import SPLITS

FACT_FILES = tuple(f"{split}.txt{packing}" for split in SPLITS for packing in ("", ".gz"))
LITERALS_FOLDER = "literals"
IGNORED_FOLDER = "__MACOSX/"  # what macOS adds to archives


class GraphFiles:
    """What a folder or zip archive holds, by name relative to the folder of train.txt.

    Attributes:
      names: sorted names such as "train.txt.gz" or "literals/numerical_literals.txt".
      notes: remarks of `find`, for the user.

    Raises:
      UserError: `path` is neither, cannot be read, or holds none (or, for an archive, several) of the
        graphs looked for.
    """

    def __init__(self, path: Path):
        if path.is_dir():
            self._openers = {name: _plain_opener(path / name) for name in _names_in_folder(path)}
        elif path.is_file():
            members = _names_in_archive(path)
            self._openers = {name: _member_opener(path, member) for name, member in members.items()}
        else:
            raise UserError(f"{path}: no such folder; expected one with train.txt, valid.txt and test.txt")
        self.names = sorted(self._openers)
        self.notes: list[str] = []
        if not set(FACT_FILES) & set(self.names):
            inner = sorted(file.parent for file in path.glob("*/train.txt*")) if path.is_dir() else []
            hint = f"; did you mean {inner[0]}?" if inner else ""
            raise UserError(f"{path}: no graph here, train.txt, valid.txt and test.txt are all missing{hint}")

    def find(self, name: str) -> TextFile | None:
        """The file `name`, or else `name`.gz, or None."""
        found = [candidate for candidate in (name, f"{name}.gz") if candidate in self._openers]
        if len(found) > 1:
            self.notes.append(f"{found[0]} and {found[1]} both exist: {found[0]} is read")
        return TextFile(found[0], self._openers[found[0]]) if found else None


def _plain_opener(path: Path) -> Callable[[], AbstractContextManager[io.IOBase]]:
    return lambda: open(path, "rb", buffering=0)


def _member_opener(archive: Path, member: str) -> Callable[[], AbstractContextManager[io.IOBase]]:
    @contextlib.contextmanager
    def open_member() -> Iterator[io.IOBase]:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as stream:
            yield cast(zipfile.ZipExtFile, stream)

    return open_member


def _names_in_folder(path: Path) -> list[str]:
    try:
        files = [file for file in path.iterdir() if file.name != LITERALS_FOLDER]
        files += path.glob(f"{LITERALS_FOLDER}/*")
        return [file.relative_to(path).as_posix() for file in files]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _names_in_archive(path: Path) -> dict[str, str]:
    """Name inside the graph's folder -> member of the archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info.filename for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path}: expected a folder or a zip archive of one ({error})") from error
    members = [member for member in members if not member.startswith(IGNORED_FOLDER)]
    folders = {member.rpartition("/")[0] for member in members if member.rpartition("/")[2] in FACT_FILES}
    if len(folders) > 1:
        names = ", ".join(sorted(map(repr, folders)))
        raise UserError(f"{path}: holds several graphs ({names}); unpack it and give one folder")
    start = "".join(f"{folder}/" for folder in folders if folder)
    return {member.removeprefix(start): member for member in members if member.startswith(start)}
