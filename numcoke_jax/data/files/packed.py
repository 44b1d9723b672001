"""What tells a packed file from text, and the content of an archive from what a packer adds.

Files can be made that fill a machine's memory when they are unpacked: what unpacks to more than `MOST_TIMES`
its size is refused, unless it is small.  Facts and tables pack to a twelfth or so.
"""

import gzip
import io
import zipfile
from collections.abc import Callable
from typing import Any

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
ADDED_FOLDER = "__MACOSX"  # by macOS, to the zip archives that it makes
MOST_TIMES = 100
ALWAYS_UNPACKED = 1 << 26  # bytes


def is_content(member: str) -> bool:
    """Whether the member of a zip archive with this name is one of the files that somebody packed.

    A folder is none, and a damaged archive has members without a name.
    """
    return bool(member) and not member.endswith("/") and ADDED_FOLDER not in member.split("/")


def refuse_bomb(unpacked: int, packed: int) -> None:
    """Raises OSError for a file of `packed` bytes that unpacks to `unpacked` ones, if these are too many."""
    if unpacked > max(ALWAYS_UNPACKED, MOST_TIMES * packed):
        raise OSError(
            f"it unpacks to over {MOST_TIMES} times its size, as files do that are made to fill a machine's "
            "memory; if it is yours, unpack it"
        )


def gunzipped(packed: Any) -> io.BufferedReader:
    """The bytes in a gzip stream, an IO[bytes]; reading raises OSError where they are too many."""
    return io.BufferedReader(_Unpacking(gzip.GzipFile(fileobj=packed), packed.tell))


def opened_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> io.BufferedReader:
    """The bytes of a member of an archive; reading raises OSError where they are too many."""
    file: Any = archive.fp
    packed = min(member.compress_size, file.seek(0, io.SEEK_END))  # the first is what the archive says
    refuse_bomb(member.file_size, packed)
    return io.BufferedReader(_Unpacking(archive.open(member), lambda: packed))


class _Unpacking(io.RawIOBase):
    """A stream, an IO[bytes], whose bytes are counted against those that it was made of."""

    def __init__(self, stream: Any, packed: Callable[[], int]) -> None:
        self._stream, self._packed = stream, packed

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:  # for an archive inside
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        refuse_bomb(self._stream.tell(), self._packed())
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
