"""Inputs that nobody thought of: seeds, changed at random."""

import random
from collections.abc import Sequence

MOST_CHANGES = 6  # of one input
LONGEST_REPEAT = 4096  # copies of a piece of an input
# What readers of text, tables, JSON and archives have been known to stumble over.
PIECES = (
    *(b"", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\xa0"),
    *(
        b"\r",
        b"\n",
        b"\r\n",
        b"\t",
        b" ",
        b",",
        b";",
        b'"',
        b"'",
        b"\\",
        b"|",
        b"#",
        b"%",
        b"../",
        b"/",
        b"~",
    ),
    *(b"-", b"+", b".", b"e", b"nan", b"NaN", b"inf", b"-Infinity", b"1e400", b"1e-400", b"-0", b"0x10"),
    *(b"9" * 25, b"1" * 5000, b"9223372036854775808", b"-1", b"2147483648", b"1_000", b"1,234", b"14.2 %"),
    *(b"2024-02-30", b"0000-00-00", b"1960-01-01T25:00:00", b"true", b"null", b"{}", b"[]", b"[", b"{"),
    *(b"head", b"tail", b"relation", b"entity", b"sep=,\n", b"=1+1", b"<a>", b'"1"^^<xsd:int>', b"_:b"),
    *(
        "\u0661\u0662".encode(),
        "\u0130".encode(),
        "e\u0301".encode(),
        "\u202e".encode(),
        "\U0001f600".encode(),
    ),
    *(b"PK\x03\x04", b"\x1f\x8b\x08", b"PAR1", b"\xff\xfe", b"BZh9"),
)


def mutated(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """One of the seeds after a few random changes; sometimes with the end of another."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, MOST_CHANGES)):
        _CHANGES[draw.randrange(len(_CHANGES))](data, seeds, draw)
    return bytes(data)


def _place(data: bytearray, draw: random.Random) -> int:
    return draw.randint(0, len(data))


def _span(data: bytearray, draw: random.Random) -> slice:
    """Mostly a few bytes, sometimes a large part."""
    start = _place(data, draw)
    return slice(start, start + (draw.randint(1, 8) if draw.random() < 0.7 else _place(data, draw)))


def _line(data: bytearray, draw: random.Random) -> slice:
    """A whole line."""
    start = data.rfind(b"\n", 0, _place(data, draw)) + 1
    return slice(start, data.find(b"\n", start) + 1 or len(data))


def _flip(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _insert(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    place = _place(data, draw)
    data[place:place] = draw.choice(PIECES)


def _replace(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    data[_span(data, draw)] = draw.choice(PIECES)


def _replace_cell(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    """A run of letters, digits and signs that stands between separators."""
    place = _place(data, draw)
    separators = b"\t\n,;:\"' {}[]<>="
    start = max((data.rfind(bytes([one]), 0, place) for one in separators), default=-1) + 1
    ends = [end for one in separators if (end := data.find(bytes([one]), place)) >= 0]
    data[start : min(ends, default=len(data))] = draw.choice(PIECES)


def _delete(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    del data[_span(data, draw)]


def _repeat(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    span = _line(data, draw) if draw.random() < 0.5 else _span(data, draw)
    piece = bytes(data[span])
    copies = draw.choice((1, 2, 3, 17, LONGEST_REPEAT if len(piece) <= 16 else 5))
    data[span.start : span.start] = piece * copies


def _swap_lines(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    lines = data.splitlines(keepends=True)
    draw.shuffle(lines)
    data[:] = b"".join(lines)


def _splice(data: bytearray, seeds: Sequence[bytes], draw: random.Random) -> None:
    other = draw.choice(seeds)
    data[_place(data, draw) :] = other[draw.randint(0, len(other)) :]


_CHANGES = (
    *(_flip, _insert, _insert, _replace, _replace_cell, _replace_cell),
    *(_delete, _repeat, _swap_lines, _splice),
)
