"""Tab-separated text files: bytes on disk to columns of strings.

The rules, the same for every file (facts, negatives, literals):

* Encoding is UTF-8.  A byte-order mark (U+FEFF) at the start of a line is dropped: editors leave one
  at the start of a file, and joining files leaves more inside.
* Lines end at LF, CRLF or CR, in any mixture, and the last one may lack its end.  Nothing else ends a
  line: U+0085, U+2028, form feeds and the like stay inside names.
* A line of nothing but white space is blank and ignored.
* Every other line has exactly three fields separated by tabs.  There is no quoting and no escaping: a
  quotation mark is part of the name.  No word means "missing": nan, NA, null and 1.0 are names.
* A name is kept to the letter, outer white space (NBSP included) too, but must not be blank and must
  not hold a NUL character.
* gzip, and a zip archive of one file, are recognised by their first bytes, whatever the file is called.

A file that breaks a rule raises one `DataError` that lists its bad lines.  The happy path is pyarrow's
CSV parser on blocks of whole lines; only a bad file is walked line by line, to name its lines and to say
what to do about them.
"""

import contextlib
import dataclasses
import functools
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from numcoke_jax.data.files.packed import GZIP_MAGIC, ZIP_MAGIC, gunzipped, is_content, opened_member
from numcoke_jax.system.errors import UserError, list_some

BLOCK_BYTES = 1 << 24  # read at once; the memory above the parsed columns is a few times this
CHUNK_BYTES = 1 << 20  # parsed at once by one thread
LONGEST_LINE_BYTES = 1 << 26  # a longer one holds no names: a device, a disk image, zeros
LISTED_LINES = 20  # bad lines named in one error; the rest is counted
BYTE_ORDER_MARK = "\ufeff".encode()
FACT_COLUMNS = ("head", "relation", "tail")
LITERAL_COLUMNS = ("entity", "field", "value")
OTHER_KINDS = {  # first bytes -> what a file of them is, and what to do
    b"\xff\xfe\0\0": "is UTF-32, expected UTF-8; convert it: iconv -f UTF-32 -t UTF-8",
    b"\0\0\xfe\xff": "is UTF-32, expected UTF-8; convert it: iconv -f UTF-32 -t UTF-8",
    b"\xff\xfe": "is UTF-16, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfd7zXZ\0": "is packed by xz, which is not read; unpack it",
    b"\x28\xb5\x2f\xfd": "is packed by zstd, which is not read; unpack it",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive, which is not read; unpack it",
    b"BZh91AY&SY": "is packed by bzip2, which is not read; unpack it",
    GZIP_MAGIC: "is packed twice; unpack it once",
    ZIP_MAGIC: "is packed twice; unpack it once",
}
LONGEST_MAGIC = max(map(len, OTHER_KINDS))
SEPARATORS = (",", ";", "|", "\\t")  # the last: a backslash and a t, as programs print tabs


class DataError(UserError):
    """The content of data files is wrong.  `problems` holds one line per kind of fault and file."""

    def __init__(self, problems: Iterable[str]):
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file that can be opened again: in a folder or inside a zip archive.

    Attributes:
      name: how messages call it, such as "train.txt".
      open: returns a context manager of a new binary stream of the stored bytes.
    """

    name: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]


def plain_file(path: Path) -> TextFile:
    """The file at `path`, called by its path in messages."""
    return TextFile(str(path), lambda: open(path, "rb", buffering=0))


def member_file(name: str, archive: Path, member: str) -> TextFile:
    """A member of a zip archive, called `name` in messages."""

    @contextlib.contextmanager
    def open_member() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(archive) as opened, opened_member(opened, opened.getinfo(member)) as stream:
            yield stream

    return TextFile(name, open_member)


def read_triples(file: TextFile, columns: tuple[str, str, str], plain: tuple[str, ...] = ()) -> pa.Table:
    """The rows of `file` in file order, blank lines left out.

    Columns are dictionary<int32, string> with one dictionary each; those in `plain` are strings and may
    be blank.
    Raises DataError listing the lines that break the rules at the top of this module, and UserError
    when the file cannot be read.
    """
    types = {
        name: pa.string() if name in plain else pa.dictionary(pa.int32(), pa.string()) for name in columns
    }
    tables = []
    with _open_text(file) as stream:
        for block in filter(None, _line_blocks(stream, file.name)):
            table = _parse_block(block, types)
            if table is None:
                raise DataError(_describe_bad_lines(file, columns, plain))
            tables.append(table)
    schema = pa.schema(list(types.items()))
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    tables.clear()
    with ThreadPoolExecutor() as pool:  # pyarrow hashes names without the interpreter's lock
        table = pa.table(list(pool.map(_compact, table.columns)), names=list(columns))
    blank = _blank_cells(table)
    if blank is None:
        return table
    all_blank = pc.and_(pc.and_(blank[0], blank[1]), blank[2])
    any_blank = functools.reduce(
        pc.or_, [cells for name, cells in zip(columns, blank, strict=True) if name not in plain]
    )
    if pc.any(pc.and_(any_blank, pc.invert(all_blank))).as_py():
        raise DataError(_describe_bad_lines(file, columns, plain))
    return table.filter(pc.invert(all_blank))


def read_names(file: TextFile) -> list[str]:
    """The names of a file with one on each line, blank lines left out.

    Raises DataError for a line that is not one name, and UserError when the file cannot be read.
    """
    names = []
    for number, line in numbered_lines(file):
        try:
            name = line.decode()
        except UnicodeDecodeError:
            raise DataError([f"{file.name}:{number}: is not UTF-8; save the file as UTF-8"]) from None
        if "\t" in name or "\0" in name:
            raise DataError([f"{file.name}:{number}: needs one name, without tabs and NUL characters"])
        if name.strip():
            names.append(name)
    return names


def in_one_chunk(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A dictionary-encoded column as one array with one dictionary."""
    if column.num_chunks > 1:  # unifying hashes the dictionary of every chunk: once is enough
        return pa.concat_arrays(column.unify_dictionaries().chunks)
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)


def line_numbers(file: TextFile, rows: Iterable[int]) -> dict[int, int]:
    """Row index of `read_triples(file)` -> line number (from 1), for messages; walks the file."""
    wanted, found, row = set(rows), {}, -1
    for number, line in numbered_lines(file):
        if line.decode(errors="replace").strip():
            row += 1
            if row in wanted:
                found[row] = number
    return found


@contextlib.contextmanager
def _open_text(file: TextFile) -> Iterator[io.BufferedIOBase]:
    """An open stream of `file`'s bytes, unpacked when they start like gzip or zip."""
    with contextlib.ExitStack() as opened:
        with _named_errors(file.name):
            stream = _unpacked(_buffered(opened.enter_context(file.open())), file.name, opened)
            start = stream.peek(LONGEST_MAGIC)[:LONGEST_MAGIC]
        for magic, what in OTHER_KINDS.items():
            if start.startswith(magic):
                raise DataError([f"{file.name}: {what}"])
        yield stream


def _buffered(stream: Any) -> io.BufferedReader:
    """A reader of an IO[bytes], whose type lacks the readinto that its objects have."""
    return io.BufferedReader(stream)


def _unpacked(stream: io.BufferedReader, name: str, opened: contextlib.ExitStack) -> io.BufferedReader:
    """A stream of what is in a gzip stream or in the one file of a zip archive; any other stream itself."""
    start = stream.peek(len(ZIP_MAGIC))
    if start.startswith(GZIP_MAGIC):
        return opened.enter_context(gunzipped(stream))
    if start.startswith(ZIP_MAGIC):
        archive = opened.enter_context(zipfile.ZipFile(stream))
        members = [info for info in archive.infolist() if is_content(info.filename)]
        if len(members) != 1:
            raise DataError([f"{name}: is a zip archive of {len(members)} files, must be of 1; unpack it"])
        return opened.enter_context(opened_member(archive, members[0]))
    return stream


@contextlib.contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Errors of opening and reading as a DataError (damaged content) or UserError that names the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise DataError(
            [f"{name}: the compressed data are damaged or cut short ({error}); fetch or pack it again"]
        ) from error
    except IsADirectoryError as error:
        raise UserError(f"{name}: is a folder; put a text file in its place") from error
    except (OSError, RuntimeError, NotImplementedError) as error:  # the last two: encrypted or rare zips
        raise UserError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _line_blocks(stream: io.BufferedIOBase, name: str) -> Iterator[bytes]:
    """Blocks of whole lines, every line end made LF, no byte-order mark at the start of a line."""
    unfinished: list[bytes] = []
    ended_with_cr = False
    while data := _read_block(stream, name):
        if ended_with_cr and data.startswith(b"\n"):
            data = data[1:]  # the CR before it, at the end of the last block, already ended the line
        ended_with_cr = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            unfinished.append(data)
            if sum(map(len, unfinished)) > LONGEST_LINE_BYTES:
                raise DataError(
                    [f"{name}: has a line of over {LONGEST_LINE_BYTES:,} bytes: it is not a text file"]
                )
            continue
        yield _without_byte_order_marks(b"".join([*unfinished, data[:cut]]))
        unfinished = [data[cut:]]
    if rest := b"".join(unfinished):
        yield _without_byte_order_marks(rest)


def _read_block(stream: io.BufferedIOBase, name: str) -> bytes:
    with _named_errors(name):
        return stream.read(BLOCK_BYTES)


def _without_byte_order_marks(block: bytes) -> bytes:
    if BYTE_ORDER_MARK not in block:
        return block
    while block.startswith(BYTE_ORDER_MARK):
        block = block[len(BYTE_ORDER_MARK) :]
    while b"\n" + BYTE_ORDER_MARK in block:
        block = block.replace(b"\n" + BYTE_ORDER_MARK, b"\n")
    return block


def _parse_block(block: bytes, types: dict[str, pa.DataType]) -> pa.Table | None:
    """The rows of a block of whole lines, or None when some line is bad."""
    try:
        block.decode()  # here and not in pyarrow, which cannot show an undecodable row to a handler
    except UnicodeDecodeError:
        return None
    if b"\0" in block:
        return None
    bad_lines: list[pacsv.InvalidRow] = []

    def on_wrong_field_count(row: pacsv.InvalidRow) -> str:
        if row.text.strip():
            bad_lines.append(row)
        return "skip" if len(bad_lines) < LISTED_LINES else "error"

    for chunk_bytes in (CHUNK_BYTES, len(block) + 1):  # the second for a line longer than a chunk
        bad_lines.clear()
        try:
            table = pacsv.read_csv(
                pa.BufferReader(block),
                read_options=pacsv.ReadOptions(column_names=list(types), block_size=chunk_bytes),
                parse_options=pacsv.ParseOptions(
                    delimiter="\t",
                    quote_char=False,
                    double_quote=False,
                    escape_char=False,
                    newlines_in_values=False,
                    ignore_empty_lines=True,
                    invalid_row_handler=on_wrong_field_count,
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=types, strings_can_be_null=False, check_utf8=False
                ),
            )
        except pa.ArrowInvalid:
            continue
        return None if bad_lines else table
    return None


def _compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([in_one_chunk(column)]) if pa.types.is_dictionary(column.type) else column


def _blank_cells(table: pa.Table) -> list[pa.Array | pa.ChunkedArray] | None:
    """A boolean column for each column of `table`, True where a cell is white space; None if none is."""
    blanks = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            cells = column.chunk(0)
            blanks.append(pc.equal(pc.utf8_trim_whitespace(cells.dictionary), "").take(cells.indices))
        else:
            blanks.append(pc.equal(pc.utf8_trim_whitespace(column), ""))
    return blanks if any(pc.any(blank).as_py() for blank in blanks) else None


def numbered_lines(file: TextFile) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line without its end) for every line of the file."""
    number = 0
    with _open_text(file) as stream:
        for block in _line_blocks(stream, file.name):
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            for line in lines:
                number += 1
                yield number, line


def _describe_bad_lines(file: TextFile, columns: tuple[str, str, str], plain: tuple[str, ...]) -> list[str]:
    """One text that lists the bad lines of `file`, with what to do about them."""
    listed: list[str] = []
    remedies: dict[str, None] = {}  # an ordered set
    total = 0
    for number, line in numbered_lines(file):
        problem, remedy = line_problem(line, columns, plain)
        if problem:
            total += 1
            if len(listed) < LISTED_LINES:
                listed.append(f"{file.name}:{number}: {problem}")
                remedies.setdefault(remedy)
    if not total:
        return [f"{file.name}: cannot be parsed as tab-separated text"]
    hints = "".join(f"; {remedy}" for remedy in remedies)
    return [list_some(listed, total, "bad lines") + hints]


def line_problem(line: bytes, columns: tuple[str, str, str], plain: Collection[str] = ()) -> tuple[str, str]:
    """(what is wrong with a line, a remedy); ("", "") for a good or blank line.

    Args:
      line: without its end.
      columns: names of the three columns.
      plain: those of them that may be blank here, because their reader checks their content.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        remedy = "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8"
        return f"byte 0x{line[error.start]:02x} at byte {error.start + 1} is not UTF-8", remedy
    if "\0" in text:
        return "holds a NUL character", "the file is binary or UTF-16; save it as UTF-8 text"
    if not text.strip():
        return "", ""
    fields = text.split("\t")
    if len(fields) != 3:
        return f"expected 3 tab-separated fields, found {len(fields)}", _remedy(text, fields, columns)
    blank = [
        name for name, field in zip(columns, fields, strict=True) if name not in plain and not field.strip()
    ]
    return (f"the {blank[0]} is blank", "fill it in or remove the line") if blank else ("", "")


def _remedy(text: str, fields: list[str], columns: tuple[str, str, str]) -> str:
    """What to do about a line that does not have three fields."""
    filled = [field for field in fields if field.strip()]
    if len(fields) == 1:
        if text.lstrip().startswith("#"):
            return "comments are not read; remove them"
        if text.strip().isdecimal():
            return "a line with the number of lines is not read; remove it"
        if max(map(text.count, SEPARATORS)) >= 2:
            return "the fields seem to be separated by another character; separate them by single tabs"
        if len(text.split()) >= 3:
            return "the fields seem to be separated by spaces; separate them by single tabs"
    elif len(filled) == 3 and filled == fields[:3]:
        return "some lines end in an extra tab; remove it"
    elif len(filled) == 3:
        return "some fields are empty or separated by several tabs; separate them by single tabs"
    return f"each line needs {' <tab> '.join(columns)} and nothing else"
