"""Files of public sources, over HTTP: resumed, checked, saved whole or not at all.

What is received is kept in `NAME.part` until it is complete; a download resumes after its connection broke
or its run was stopped.  Only files whose SHA-256 is known get their final names.
"""

import dataclasses
import fcntl
import os
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import pooch
import rich.console
import rich.progress

from numcoke_jax.system.errors import UserError

FOLDER_VARIABLE = "NUMCOKE_DATA"
CHUNK_BYTES = 1 << 13  # of a connection that breaks, at most this much is lost
TIMEOUT_SECONDS = 30.0  # without a byte
RETRY_SECONDS = 1.0  # before the second attempt, twice that before the third
FRUITLESS_ATTEMPTS = 3  # attempts in a row without a new byte after which the download fails
BUSY = frozenset((429, 500, 502, 503, 504))  # answers that another attempt may change
WHOLE_CONTENT, RANGE_NOT_SATISFIABLE = 200, 416
LONGEST_REASON = 200


@dataclasses.dataclass(frozen=True)
class PublicFile:
    """A file that a source offers.

    Attributes:
      name: what it is called here.
      hashes: SHA-256 of the bytes that are known, the released ones first.
      member: its name inside the source's zip archive, in whichever folder; "" if there is no archive.
    """

    name: str
    hashes: tuple[str, ...]
    member: str = ""


@dataclasses.dataclass(frozen=True)
class Source:
    """An address from which one download gives one or several files.

    Attributes:
      title: what messages call it.
      address: of a zip archive, or of the one file itself.
      page: where people can read about it and get it by hand.
      licence: one line, printed with every download.
      files: what is kept of it.
      fixed: whether the publisher leaves the content as it is.  If not, files from a sound archive are
        kept whatever their hash is, and `version_notice` says so when they are read.
    """

    title: str
    address: str
    page: str
    licence: str
    files: tuple[PublicFile, ...]
    fixed: bool = True


def file_hash(path: str | os.PathLike) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return pooch.file_hash(str(path), alg="sha256")


def version_notice(where: str, found: str, known: Sequence[str]) -> list[str]:
    """One line when the hash `found` is not a `known` one: another version may give other results."""
    if found in known:
        return []
    return [f"{where} is another version than the known one: its SHA-256 is {found}, known is {known[0]}"]


def download(source: Source, folder: Path) -> None:
    """Saves the files of a source in `folder`, which is made; progress and licence go to standard error.

    Raises:
      UserError: nothing was saved; one line with the address, what went wrong and what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{source.title}.part", "a+b") as part:
            fcntl.flock(part, fcntl.LOCK_EX)  # a second process waits for the first
            if all((folder / file.name).is_file() for file in source.files):
                return  # another process saved them while this one waited
            print(f"downloading {source.title} from {source.address} to {folder}", file=sys.stderr)
            print(f"{source.title}: {source.licence}", file=sys.stderr, flush=True)
            resumed = _size(part) > 0
            _receive(source, folder, part)
            if not _keep_files(source, folder, part, again=resumed):
                _receive(source, folder, part)
                _keep_files(source, folder, part, again=False)
            os.unlink(part.name)
    except OSError as error:
        raise UserError(f"{source.title}: {folder} cannot be written ({_reason(error)})") from error


def _size(part: BinaryIO) -> int:
    return part.seek(0, os.SEEK_END)


def _receive(source: Source, folder: Path, part: BinaryIO) -> None:
    """Appends to `part` until it holds the whole answer; raises UserError when that cannot be."""
    fruitless = 0
    answers: list[int] = []
    while True:
        offset = _size(part)
        try:
            return _receive_rest(source, part, offset, answers)
        except OSError as error:  # as are the exceptions of requests
            response: Any = getattr(error, "response", None)
            status = None
            if response is not None:
                status = response.status_code
                response.close()
            if status is None and not hasattr(error, "request"):  # the disk is at fault, not the network
                raise
            if status == RANGE_NOT_SATISFIABLE and offset:
                part.truncate(0)
                continue
            grown = _size(part) > offset
            fruitless = 0 if grown else fruitless + 1
            retried = status in BUSY or (status is None and (answers or offset > 0))
            if not retried or fruitless == FRUITLESS_ATTEMPTS:
                what = f"HTTP status {status}" if status else _reason(error)
                raise UserError(_by_hand(source, folder, f"cannot be downloaded ({what})")) from error
            time.sleep(RETRY_SECONDS * fruitless)


def _receive_rest(source: Source, part: BinaryIO, offset: int, answers: list[int]) -> None:
    """One request for the bytes from `offset` on; the HTTP status, if any comes, is added to `answers`."""

    def restart_unless_resumed(response: Any, **_: Any) -> None:
        answers.append(response.status_code)
        if response.status_code == WHOLE_CONTENT:
            part.truncate(0)  # the server does not support ranges: it sends everything again

    headers = {"Accept-Encoding": "identity"}  # offsets count the bytes of the file, not of a packed form
    if offset:
        headers["Range"] = f"bytes={offset}-"
    progress = DownloadProgress(source.title, offset)
    receive = pooch.HTTPDownloader(
        progressbar=progress,
        chunk_size=CHUNK_BYTES,
        headers=headers,
        hooks={"response": restart_unless_resumed},
        timeout=TIMEOUT_SECONDS,
    )
    try:
        receive(source.address, part, None)
    finally:
        progress.close()


class DownloadProgress:
    """The interface that pooch asks of a progress bar, on the terminal of standard error if there is one."""

    def __init__(self, title: str, offset: int) -> None:
        self._offset = offset
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.DownloadColumn(),
            rich.progress.TransferSpeedColumn(),
            console=rich.console.Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(title, total=None, completed=offset)

    @property
    def total(self) -> float | None:
        """Size of the whole file in bytes, if it is known."""
        return self._bar.tasks[0].total

    @total.setter
    def total(self, rest: int) -> None:
        self._bar.update(self._task, total=self._offset + rest if rest else None)
        self._bar.start()

    def update(self, count: int) -> None:
        """`count` more bytes have arrived."""
        self._bar.advance(self._task, count)

    def reset(self) -> None:
        """Back to where this request began."""
        self._bar.update(self._task, completed=self._offset)

    def close(self) -> None:
        """No more bytes will come; may be called again."""
        self._bar.stop()


def _keep_files(source: Source, folder: Path, part: BinaryIO, *, again: bool) -> bool:
    """Moves the source's files from `part` to their final names: all of them or none.

    If that fails, `part` is emptied.  With `again` the caller downloads everything once more: the first
    bytes of a resumed download may have been those of another version.

    Returns:
      Whether the files are there; False only with `again`.

    Raises:
      UserError: only without `again`: the archive is damaged or lacks a file, or a hash is not known (the
        file is kept as `NAME.unknown-version`).
    """
    unpacked = {file: folder / f"{file.name}.unpacked" for file in source.files}
    is_archive = zipfile.is_zipfile(part)
    try:
        try:
            for file, path in unpacked.items():
                _unpack(part, file.member if is_archive else "", path)
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
            part.truncate(0)
            if again:
                return False
            raise UserError(_by_hand(source, folder, f"the download is damaged ({error})")) from error
        for file, path in unpacked.items():
            found = file_hash(path)
            if found in file.hashes or (is_archive and not source.fixed):
                continue
            part.truncate(0)
            if again:
                return False
            refused = folder / f"{file.name}.unknown-version"
            os.replace(path, refused)
            raise UserError(
                f"{source.title}: {file.name} from {source.address} has SHA-256 {found}, known is "
                f"{file.hashes[0]}: damaged or another version; if you trust it, rename {refused} to "
                f"{folder / file.name}"
            )
        for file, path in unpacked.items():
            os.replace(path, folder / file.name)
        return True
    finally:
        for path in unpacked.values():
            path.unlink(missing_ok=True)


def _unpack(part: BinaryIO, member: str, path: Path) -> None:
    """Copies a member of the archive `part`, or all of `part` if `member` is "", to `path`."""
    with open(path, "wb") as out:
        if not member:
            part.seek(0)
            shutil.copyfileobj(part, out)
            return
        with zipfile.ZipFile(part) as archive:
            found = [
                name
                for name in archive.namelist()
                if PurePosixPath(name).name == member and not name.startswith("__MACOSX/")
            ]
            if len(found) != 1:
                raise KeyError(f"it holds {member} {len(found)} times")
            with archive.open(found[0]) as stored:
                shutil.copyfileobj(stored, out)


def _by_hand(source: Source, folder: Path, problem: str) -> str:
    names = ", ".join(file.name for file in source.files)
    return (
        f"{source.title}: {problem}: {source.address}; get it by hand from {source.page}, save {names} in "
        f"{folder}, or set ${FOLDER_VARIABLE} to a folder that has it"
    )


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: "Connection refused" rather than three exceptions around it."""
    while error.__context__ is not None:
        error = error.__context__
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:LONGEST_REASON]
