"""The text reader against a loop that follows its written rules, and its messages for bad files."""

import gzip
import io
import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcoke_jax.data.files import lines as text_files
from numcoke_jax.data.files.lines import (
    FACT_COLUMNS,
    LITERAL_COLUMNS,
    DataError,
    TextFile,
    line_numbers,
    read_triples,
)
from numcoke_jax.system.errors import UserError


def file_of(content: bytes, name: str = "train.txt") -> TextFile:
    return TextFile(name, lambda: io.BytesIO(content))


def rows_of(content: bytes) -> list[tuple[str, ...]]:
    table = read_triples(file_of(content), FACT_COLUMNS)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def message_of(content: bytes) -> str:
    with pytest.raises(DataError) as raised:
        read_triples(file_of(content), FACT_COLUMNS)
    return str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        b"a\tr\tb\nc\tr\td\n",
        b"a\tr\tb\nc\tr\td",  # no final line end
        b"a\tr\tb\r\nc\tr\td\r\n",
        b"a\tr\tb\rc\tr\td\r",
        b"a\tr\tb\rc\tr\td",
        b"a\tr\tb\r\nc\tr\td\r",  # mixed
        b"a\tr\tb\r\r\nc\tr\td\r\r\n",  # what a CRLF file becomes when it is translated twice
        b"\xef\xbb\xbfa\tr\tb\nc\tr\td\n",
        b"\xef\xbb\xbf\xef\xbb\xbfa\tr\tb\nc\tr\td\n",
        b"a\tr\tb\n\xef\xbb\xbfc\tr\td\n",  # two files with marks, joined
        b"\n\n  \n\t\t\na\tr\tb\n \t \n\xc2\xa0\nc\tr\td\n\n",  # blank lines
        gzip.compress(b"a\tr\tb\nc\tr\td\n", mtime=0),
        gzip.compress(b"a\tr\tb\n", mtime=0) + gzip.compress(b"c\tr\td\n", mtime=0),  # gzip files joined
    ],
)
def test_line_ends_marks_and_packing_make_no_difference(content: bytes) -> None:
    assert rows_of(content) == [("a", "r", "b"), ("c", "r", "d")]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"  \n\t\n", gzip.compress(b"", mtime=0)]
)
def test_a_file_without_lines_has_no_rows(content: bytes) -> None:
    table = read_triples(file_of(content), FACT_COLUMNS)
    assert table.num_rows == 0
    assert table.column_names == list(FACT_COLUMNS)


@pytest.mark.parametrize(
    "name",
    [
        "nan",
        "NA",
        "null",
        "None",
        "",
        "1",
        "01",
        "1.0",
        '"Bo"',
        '"',
        '12" pipe',
        "'",
        "a,b",
        "a;b",
        "#x",
        "\\N",
        "\\t",
    ]
    + [
        "a b",
        " a",
        "a ",
        "a\u00a0",
        "two\u2028lines",
        "nel\x85name",
        "form\x0cfeed",
        "vt\x0b",
        "\x1c",
        "naïve",
    ]
    + ["nai\u0308ve", "🧪", "\ufeffnot first", "x\ufeff", "true", "-", "\u202eright to left", "a" * 100_000],
)
def test_names_are_kept_to_the_letter(name: str) -> None:
    if not name.strip():
        assert message_of(f"x\tr\t{name}\n".encode()).startswith("train.txt:1: the tail is blank; ")
    else:
        content = f"x\tr\t{name}\nx\t{name}\ty\nz\tr\ty\n".encode()
        assert rows_of(content) == [("x", "r", name), ("x", name, "y"), ("z", "r", "y")]


def test_a_line_longer_than_a_block_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 16)
    long_name = "x" * 1000
    assert rows_of(f"a\tr\tb\n{long_name}\tr\tb\nc\tr\td".encode()) == [
        ("a", "r", "b"),
        (long_name, "r", "b"),
        ("c", "r", "d"),
    ]


def read_by_the_rules(content: bytes) -> list[tuple[str, ...]] | None:
    """The rules of text_files.py, a line at a time; None for a file that breaks one."""
    rows: list[tuple[str, ...]] = []
    for line in re.split(b"\r\n|\n|\r", content):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return None
        text = text.lstrip("\ufeff")
        if "\0" in text:
            return None
        if not text.strip():
            continue
        fields = tuple(text.split("\t"))
        if len(fields) != 3 or not all(field.strip() for field in fields):
            return None
        rows.append(fields)
    return rows


PIECES = [
    b"a",
    b"\xc3\xa9",
    b" ",
    b'"',
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
]
GOOD_LINES = [
    b"a\tr\tb",
    b"\"\tr\t'",
    b"\xef\xbb\xbfa\t\xc3\xa9\tb",
    b"",
    b" ",
    b"\t\t",
    b"\xc2\x85\tr \t\xef\xbb\xbf",
]
BAD_LINES = [
    b"a\tb",
    b"a",
    b"a\tb\tc\td",
    b"a\t \tb",
    b"\xff\tr\tb",
    b"\xff",
    b"a\0\tr\tb",
    b"a\tr\tb\xe2\x80",
]


@settings(max_examples=300)
@given(
    content=st.one_of(
        st.lists(st.tuples(st.sampled_from(GOOD_LINES), st.sampled_from([b"\n", b"\r", b"\r\n"]))).map(
            lambda lines: b"".join(line + end for line, end in lines)
        ),
        st.lists(
            st.tuples(st.sampled_from(GOOD_LINES * 5 + BAD_LINES), st.sampled_from([b"\n", b"\r", b"\r\n"]))
        ).map(lambda lines: b"".join(line + end for line, end in lines)),
        st.lists(st.sampled_from(PIECES)).map(b"".join),
    ),
    block_bytes=st.integers(1, 40),
    chunk_bytes=st.integers(1, 40),
)
def test_any_bytes_read_as_the_rules_say_for_any_block_size(
    content: bytes, block_bytes: int, chunk_bytes: int
) -> None:
    expected = read_by_the_rules(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "BLOCK_BYTES", block_bytes)
        patch.setattr(text_files, "CHUNK_BYTES", chunk_bytes)
        if content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")):
            return
        if expected is None:
            assert re.match(r"train\.txt:\d+: ", message_of(content))
        else:
            assert rows_of(content) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a r b\nc r d\n",
            "train.txt:1: expected 3 tab-separated fields, found 1; "
            "train.txt:2: expected 3 tab-separated fields, found 1; "
            "the fields seem to be separated by spaces; separate them by single tabs",
        ),
        (
            b"a,r,b\n",
            "train.txt:1: expected 3 tab-separated fields, found 1; "
            "the fields seem to be separated by another character; separate them by single tabs",
        ),
        (
            b"a\tr\tb\n\na\tr\r\na\tr\tb\tweight\n",
            "train.txt:3: expected 3 tab-separated fields, found 2; "
            "train.txt:4: expected 3 tab-separated fields, found 4; "
            "each line needs head <tab> relation <tab> tail and nothing else",
        ),
        (
            b"a\tr\tb\t\n",
            "train.txt:1: expected 3 tab-separated fields, found 4; "
            "some lines end in an extra tab; remove it",
        ),
        (
            "a\tr\tcafé\n".encode("latin-1"),
            "train.txt:1: byte 0xe9 at byte 8 is not UTF-8; "
            "save the file as UTF-8, for example: iconv -f LATIN1 -t UTF-8",
        ),
        (
            b"a\tr\tb\na\0\tr\tb\n",
            "train.txt:2: holds a NUL character; the file is binary or UTF-16; save it as UTF-8 text",
        ),
        (
            "a\tr\tb\n".encode("utf-16"),
            "train.txt: is UTF-16, expected UTF-8; convert it: iconv -f UTF-16 -t UTF-8",
        ),
        (
            b"\tr\tb\na\t\tb\n",
            "train.txt:1: the head is blank; train.txt:2: the relation is blank; "
            "fill it in or remove the line",
        ),
    ],
)
def test_bad_lines_are_listed_in_one_message(content: bytes, message: str) -> None:
    assert message_of(content) == message


def test_only_the_first_bad_lines_are_listed_but_all_are_counted() -> None:
    message = message_of(b"a\tr\tb\n" + b"a r b\n" * 5000)
    assert message.count("expected 3") == 20
    assert "train.txt:21: expected" in message
    assert "train.txt:22: expected" not in message
    assert "; ... (5,000 bad lines in all); the fields seem" in message


def test_blank_cells_of_a_literal_are_called_by_their_column_but_values_are_judged_later() -> None:
    with pytest.raises(DataError, match=r"lit\.txt:1: the field is blank"):
        read_triples(file_of(b"a\t \t1\n", "lit.txt"), LITERAL_COLUMNS, plain=("value",))
    table = read_triples(
        file_of(b"a\tmass\t\n\t \t\nb\tmass\t2\n", "lit.txt"), LITERAL_COLUMNS, plain=("value",)
    )
    assert table["value"].to_pylist() == ["", "2"]


@pytest.mark.parametrize("cut", [3, 15, 30, -1])
def test_damaged_gzip_is_named(cut: int) -> None:
    packed = gzip.compress(b"".join(b"a%d\tr\tb\n" % number for number in range(100)))
    assert message_of(packed[:cut]).startswith("train.txt: the compressed data are damaged or cut short")


def test_a_file_that_cannot_be_opened_is_a_path_error_not_a_data_error() -> None:
    def refuse() -> io.BytesIO:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(UserError, match=r"train\.txt: cannot be read \(Permission denied\)") as raised:
        read_triples(TextFile("train.txt", refuse), FACT_COLUMNS)
    assert not isinstance(raised.value, DataError)


def test_columns_have_one_dictionary_each_and_plain_ones_are_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 8)
    table = read_triples(file_of(b"a\tm\t1\nb\tm\t2\na\tm\t3\n"), LITERAL_COLUMNS, plain=("value",))
    assert table["entity"].num_chunks == 1
    assert table["entity"].chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert table["entity"].type.index_type == pa.int32()
    assert table["value"].to_pylist() == ["1", "2", "3"]


def test_line_numbers_count_blank_lines_and_every_kind_of_line_end() -> None:
    file = file_of(b"a\tr\tb\r\n\r\n \t \nc\tr\td\re\tr\tf")
    assert line_numbers(file, [0, 1, 2]) == {0: 1, 1: 4, 2: 5}
