"""The files of a graph: in a folder, or inside a zip archive of one."""

import itertools
import os
import stat
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path

from numcoke_jax.data.files.lines import LISTED_LINES, TextFile, member_file, numbered_lines, plain_file
from numcoke_jax.data.files.packed import is_content
from numcoke_jax.data.graph import SPLITS
from numcoke_jax.system.errors import UserError

PACKINGS = ("", ".gz", ".zip")
FACT_FILES = tuple(f"{split}.txt{packing}" for split in SPLITS for packing in PACKINGS)
LITERALS_FOLDER = "literals"
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx")
IDS_FILE, ENTITY_IDS = "train2id.txt", "entity2id.txt"  # of OpenKE


class GraphFiles:
    """What a folder or zip archive holds, by name relative to the folder of train.txt.

    Args:
      path: the folder or archive.
      needed: names of which there must be one.

    Attributes:
      names: sorted names such as "train.txt.gz" or "literals/numerical_literals.txt".
      notes: remarks of `find`, for the user.
      convert: what to say where the facts are ids.

    Raises:
      UserError: `path` is neither, cannot be read, or holds no graph (or, in an archive, several).
    """

    def __init__(self, path: Path, needed: Collection[str] = FACT_FILES):
        train = [name for name in needed if name.startswith("train") and not name.endswith(PACKINGS[1:])]
        wanted = ["train.txt, valid.txt and test.txt"] if needed is FACT_FILES else train
        if _is_kind(path, stat.S_ISDIR):
            found = {name: plain_file(path / name) for name in _names_in_folder(path)}
        elif _is_kind(path, stat.S_ISREG):
            members = _names_in_archive(path, needed)
            found = {name: member_file(name, path, member) for name, member in members.items()}
        else:
            raise UserError(f"{path}: no such folder; expected one with {' or '.join(wanted)}")
        self._openers = {name: file.open for name, file in found.items()}
        self.names = sorted(found)
        self.notes: list[str] = []
        self.convert = (
            f"the facts are ids: numcoke data convert {path} --out=DIR writes them with their names"
        )
        if not set(needed) & set(self.names):
            inner = sorted(file.parent for file in path.glob("*/train.txt*")) if path.is_dir() else []
            hint = f"; it holds {', '.join(self.names[:LISTED_LINES])}" if self.names else ""
            hint = f"; did you mean {inner[0]}?" if inner else hint
            if IDS_FILE in self.names:
                hint = f"; {self.convert}"
            raise UserError(f"{path}: no graph here, {' and '.join(wanted)} are all missing{hint}")

    def find(self, name: str) -> TextFile | None:
        """The file `name`, or else `name`.gz or `name`.zip, or None."""
        found = [name + packing for packing in PACKINGS if name + packing in self._openers]
        if len(found) > 1:
            self.notes.append(f"{' and '.join(found)} both exist: {found[0]} is read")
        return TextFile(found[0], self._openers[found[0]]) if found else None

    def holds_ids(self, facts: TextFile) -> bool:
        """Whether a file's facts are ids, and their names in a file beside it, as in forks of OpenKE."""
        if ENTITY_IDS not in self.names:
            return False
        rows = (line.split() for _, line in numbered_lines(facts) if line.strip())
        first = list(itertools.chain(*itertools.islice(rows, 2)))  # the first line may be a count
        return bool(first) and all(map(bytes.isdigit, first))


def _is_kind(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether there is a file of a kind at `path`; False also if no file can have that path."""
    try:
        return kind(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a NUL character
        return False
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error


def _names_in_folder(path: Path) -> list[str]:
    """The files of a graph's folder; neither Path.glob nor Path.is_dir, which hide what cannot be read."""
    files, literals = _entries(path), path / LITERALS_FOLDER
    if literals in files:
        if _is_kind(literals, stat.S_ISDIR):
            files.remove(literals)
            files += _entries(literals)
        elif literals.is_symlink() and not literals.exists():
            raise UserError(
                f"{literals}: is a link to {os.readlink(literals)}, which does not exist; fix or remove it"
            )
    return [file.relative_to(path).as_posix() for file in files]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({error.strerror or error})") from error


def _names_in_archive(path: Path, needed: Collection[str]) -> dict[str, str]:
    """Name inside the graph's folder -> member of the archive; with slashes even if Windows wrote it."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [(info.filename.replace("\\", "/"), info.filename) for info in archive.infolist()]
    except (zipfile.BadZipFile, OSError) as error:
        remedy = "unpack archives of other kinds"
        if path.suffix.lower() in TABLE_SUFFIXES:
            remedy = f"of a table, numcoke data build --table={path} --name=COLUMN --out=DIR writes one"
        raise UserError(f"{path}: expected a folder or a zip archive of one ({error}); {remedy}") from error
    members = [(name, member) for name, member in members if is_content(name)]
    folders = {name.rpartition("/")[0] for name, _ in members if name.rpartition("/")[2] in needed}
    if len(folders) > 1:
        names = ", ".join(sorted(map(repr, folders)))
        raise UserError(f"{path}: holds several graphs ({names}); unpack it and give one folder")
    start = "".join(f"{folder}/" for folder in folders if folder)
    found: dict[str, str] = {}
    for name, member in members:
        if name.startswith(start):
            if name.removeprefix(start) in found:
                raise UserError(f"{path}: holds {name!r} twice; unpack it and give the folder")
            found[name.removeprefix(start)] = member
    return found
