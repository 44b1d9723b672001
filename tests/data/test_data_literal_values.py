"""Literals: which texts are numbers, exactly which float64 they become, and how repeats are settled."""

import math
import random
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax.data.files.numbers import aggregate, parse_number, parse_values

XSD = "http://www.w3.org/2001/XMLSchema#"


def parse(*texts: str) -> np.ndarray:
    parsed = parse_values(pa.chunked_array([pa.array(texts, pa.string())]))
    assert parsed.bad == {}
    assert parsed.values.dtype == np.float64
    return parsed.values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12.0),
        ("-0.5", -0.5),
        ("+7", 7.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("007", 7.0),
        ("3e-4", 0.0003),
        ("1E+3", 1000.0),
        ("0", 0.0),
        ("0e999", 0.0),
        ("-0.0", 0.0),
        ("1955.0312", 1955.0312),
        ("16777217", 16777217.0),  # 2^24 + 1, which float32 does not have
        ("9007199254740992", 2.0**53),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        (" 12\u00a0", 12.0),
        ('"12"', 12.0),
        (f'"12"^^<{XSD}integer>', 12.0),
        (f'"+0.702"^^<{XSD}decimal>', 0.702),
        ('"1.5E3"^^xsd:double', 1500.0),
        (f'"-7"^^{XSD}int', -7.0),
        ('"1960"^^xsd:gYear', 1960.0),
        ("١٢٣", 123.0),  # Arabic-Indic
        ("۲۴", 24.0),  # Persian
        ("１２．５".replace("．", "."), 12.5),  # full-width digits
        ("\u22125", -5.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert parse(text)[0] == value
    assert not np.signbit(parse(text)[0]) or value < 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nan", "not finite"),
        ("NaN", "not finite"),
        ("inf", "not finite"),
        ("-INF", "not finite"),
        ("Infinity", "not finite"),
        ('"INF"^^xsd:double', "not finite"),
        ("1e400", "beyond the range of float64"),
        ("-1e309", "beyond the range of float64"),
        ("1e-400", "not zero, but too small for float64"),
        ("009e-5540", "not zero, but too small for float64"),
        ("1960-01-01", "a date"),
        ("1967-8-9", "a date"),
        ("-999-1-1", "a date"),
        ("01/02/2003", "a date"),
        ("1960-01-01T00:00:00Z", "a date"),
        (f'"1960-01-01T00:00:00Z"^^<{XSD}dateTime>', "a date"),
        (f'"1960-01-01"^^<{XSD}date>', "a date"),
        (f'"true"^^<{XSD}boolean>', "type boolean is not numeric"),
        (f'"1.5"^^<{XSD}integer>', "not of type integer"),
        (f'"300"^^<{XSD}byte>', "outside the range of byte"),
        ("-1^^xsd:nonNegativeInteger", "outside the range of nonNegativeInteger"),
        ("1e39^^xsd:float", "outside the range of float"),
        ('"5"^^<http://dbpedia.org/datatype/kilogram>', "not a number"),
        ('"12"@en', "not a number"),
        ("12 kg", "a number with a unit"),
        ("12kg", "a number with a unit"),
        ("5%", "a number with a unit"),
        ("12€", "a number with a unit"),
        ("$12", "a number with a unit"),
        ("-€ 1,200.50", "a number with a unit"),
        ("1,200 kg", "a number with a unit"),
        ("$", "not a number"),
        ("1,234", "a number with thousands separators"),
        ("1,234,567.5", "a number with thousands separators"),
        ("1.234,5", "a number with thousands separators"),
        ("1 234", "a number with thousands separators"),
        ("1\u202f234", "a number with thousands separators"),
        ("1'234", "a number with thousands separators"),
        ("1_000", "a number with thousands separators"),
        ("3,14", "a decimal comma"),
        ("5050_2011", "not a number"),
        ("0x1F", "not a number"),
        ("1/2", "not a number"),
        ("1e", "not a number"),
        ("e5", "not a number"),
        (".", "not a number"),
        ("--1", "not a number"),
        ("x²", "not a number"),
        ("½", "not a number"),
        ("true", "not a number"),
        ("NA", "not a number"),
        ("", "empty"),
        ('""', "empty"),
    ],
)
def test_everything_else_is_refused_with_a_reason(text: str, reason: str) -> None:
    assert parse_number(text) == (None, reason) or (
        reason == "not a number" and parse_number(text)[0] is None
    )
    parsed = parse_values(pa.chunked_array([pa.array(["1", text, "2"], pa.string())]))
    assert list(parsed.bad) == [1]
    np.testing.assert_array_equal(parsed.values, [1.0, 0.0, 2.0])


def test_what_was_rewritten_is_counted() -> None:
    texts = ["1", '"2"', '"3"^^xsd:int', "٤", '"٥"^^xsd:int', " 6 ", '"7"']
    parsed = parse_values(pa.chunked_array([pa.array(texts, pa.string())]))
    np.testing.assert_array_equal(parsed.values, [1, 2, 3, 4, 5, 6, 7])
    assert parsed.converted == {
        "quoted numbers": 2,
        "typed RDF literals": 2,
        "numbers in non-ASCII digits": 1,
    }


def test_only_integers_that_float64_lacks_count_as_rounded() -> None:
    texts = [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740993",
        "18014398509481984",
        "1e300",
        "1e22",
        "0" * 5000 + "9007199254740993",  # more digits than int() takes
    ]
    parsed = parse_values(pa.chunked_array([pa.array(texts, pa.string())]))
    assert parsed.rounded == 3
    assert parsed.bad == {}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_shortest_text_of_a_float_reads_back_to_the_same_bits(floats: list[float]) -> None:
    expected = np.array(floats) + 0.0  # no negative zero
    assert parse(*map(repr, floats)).tobytes() == expected.tobytes()


@given(st.integers(0, 2**64 - 1))
def test_any_bit_pattern_is_read_or_refused(bits: int) -> None:
    (number,) = struct.unpack("d", struct.pack("Q", bits))
    value, reason = parse_number(repr(number))
    assert (value, reason) == ((number, "") if math.isfinite(number) else (None, "not finite"))


@given(st.text(max_size=12))
def test_what_is_accepted_is_what_python_reads(text: str) -> None:
    value, note = parse_number(text)
    if value is not None and note in ("", "numbers in non-ASCII digits"):
        assert value == float(text.strip().replace("\u2212", "-"))


@given(st.lists(st.text(alphabet='0123456789+-.eE"^ ٣\u2212', max_size=8), min_size=1))
def test_the_column_parser_agrees_with_the_single_one(texts: list[str]) -> None:
    parsed = parse_values(pa.chunked_array([pa.array(texts, pa.string())]))
    for row, text in enumerate(texts):
        value, reason = parse_number(text)
        assert parsed.bad.get(row) == (reason if value is None else None)
        assert parsed.values[row] == (0.0 if value is None else value)


def test_several_values_become_their_median() -> None:
    keys = np.array([5, 5, 5, 2, 2, 9, 9, 9], dtype=np.int64)
    values = np.array([1.0, 100.0, 4.0, 1.0, 4.0, 7.0, 7.0, 7.0])
    cells, medians, repeats, conflicts = aggregate(keys, values)
    np.testing.assert_array_equal(cells, [2, 5, 9])
    np.testing.assert_array_equal(medians, [2.5, 4.0, 7.0])  # (1 + 4) / 2; the middle one; all equal
    assert (repeats, conflicts) == (2, 2)


def test_exact_repeats_do_not_pull_the_median() -> None:
    _, medians, repeats, conflicts = aggregate(np.zeros(4, np.int64), np.array([1.0, 1.0, 1.0, 3.0]))
    assert (medians.tolist(), repeats, conflicts) == ([2.0], 2, 1)


def test_the_median_of_the_largest_floats_does_not_overflow() -> None:
    largest = np.finfo(np.float64).max
    below = np.nextafter(largest, 0)
    _, medians, _, _ = aggregate(np.zeros(2, np.int64), np.array([largest, below]))
    assert below <= medians[0] <= largest


@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.floats(allow_nan=False, allow_infinity=False)), min_size=1),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_change_a_bit(
    rows: list[tuple[int, float]], shuffle: random.Random
) -> None:
    shuffled = list(rows)
    shuffle.shuffle(shuffled)
    results = [
        aggregate(
            np.array([key for key, _ in order], np.int64), np.array([value for _, value in order]) + 0.0
        )
        for order in (rows, shuffled)
    ]
    for first, second in zip(*results, strict=True):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()
