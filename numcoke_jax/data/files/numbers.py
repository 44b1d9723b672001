"""A literal's text to float64, and one value for each (entity, field).

What counts as a number, after outer white space is removed:

* decimal numbers: `12`, `-0.5`, `.5`, `5.`, `+3e-4`, leading zeros allowed, read to the nearest float64;
* the same inside double quotes (`"12"`), or as an RDF literal of a numeric XML Schema type, also with
  single quotes or none (`"12"^^<http://www.w3.org/2001/XMLSchema#integer>`, `1.5^^xsd:double`,
  `"1960"^^xsd:gYear`), if it is in the type's range; the time zone of a year is left out;
* decimal digits of any script, the minus sign U+2212, the Arabic decimal point U+066B and the full-width
  signs and point: they stand for ASCII characters one to one, so the conversion is exact.

Everything else is refused and listed, because its meaning is not certain: words and empty cells, NaN and
infinities, numbers beyond float64 (1e400) or so small that they would become 0 (1e-400), times, units,
percent and currency signs, thousands separators and decimal commas (`1,234` means different numbers in
different countries), underscores, hexadecimal numbers, fractions.  Dates are refused too, unless a `Reading`
asks for them in a unit (`dates.py`), and so are numbers with signs, separators or commas (`written.py`).

Several different values of one (entity, field) become their median, which does not depend on the order
of the rows; exact repeats of a value count once.  -0.0 is stored as 0.0.
"""

import collections
import dataclasses
import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.files.dates import DESCRIBED, UNITS, date_number
from numcoke_jax.data.files.written import (
    PARSED,
    UNCERTAIN,
    meaning_of_commas,
    other_signs,
    written_number,
)
from numcoke_jax.data.tail_index import differs_from_previous
from numcoke_jax.system.errors import UserError, printable

PLAIN_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
INTEGER = re.compile(r"[-+]?[0-9]+\Z")
TYPED = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^\s"'^]+))\^\^<?([^<>\s]+)>?\Z""")
XSD_TYPE = re.compile(r"(?:http://www\.w3\.org/2001/XMLSchema#|xsd?:)(\w+)\Z")
QUOTED = re.compile(r'"([^"]*)"\Z')
A_DATE, NO_DATE_READ = "a date", "a date, but not year, month, day as 1970-01-31 is"
DATE = re.compile(r"[-+]?\d{1,6}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?\Z")
TIME = re.compile(r"\d{1,3}:\d{2}(:\d{2}(\.\d+)?)?\s*([aApP]\.?[mM]\.?|Z)?\Z")
HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+\Z")
ASCII_SIGNS = str.maketrans({"\u2212": "-", "\u066b": ".", "\uff0e": ".", "\uff0b": "+", "\uff0d": "-"})
_SIGNED = {
    name: (-(2**bits), 2**bits - 1) for name, bits in (("byte", 7), ("short", 15), ("int", 31), ("long", 63))
}
_UNSIGNED = {
    f"unsigned{name}": (0, 2**bits - 1)
    for name, bits in (("Byte", 8), ("Short", 16), ("Int", 32), ("Long", 64))
}
RANGES: dict[str, tuple[int | None, int | None]] = {  # of integer types: the least and the largest
    **_SIGNED,
    **_UNSIGNED,
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
}
INTEGER_TYPES = frozenset(("integer", "gYear", *RANGES))
MOST_DIGITS = 100  # more need not be told apart from infinity, and Python refuses to read thousands
LARGEST_FLOAT = float(np.finfo(np.float32).max)
ZONED_YEARS = "years with a time zone, which is left out"
ZONE = re.compile(r"([-+]?[0-9]+)(?:Z|[-+][0-9]{2}:[0-9]{2})\Z")  # of a year
DATE_TYPES = frozenset(("date", "dateTime", "dateTimeStamp", "gYearMonth"))
REAL_TYPES = frozenset(("decimal", "double", "float"))
NON_FINITE_WORDS = frozenset(("nan", "inf", "infinity"))
THOUSANDS, DECIMAL_COMMA, UNIT = (
    "a number with thousands separators",
    "a decimal comma",
    "a number with a unit",
)
UNSURE_COMMA = "a number with a comma, beside others whose comma or point means something else"
# Why a text that is meant as a number is not one.
NEARLY_NUMBERS = frozenset((THOUSANDS, DECIMAL_COMMA, UNSURE_COMMA, UNIT))
EXACT_INTEGERS = 2.0**53  # every integer up to here is a float64


@dataclasses.dataclass(frozen=True)
class Reading:
    """Which texts are numbers besides plain ones.

    Attributes:
      dates: one of `dates.UNITS`, in which dates are read; "": they are no numbers.
      parse: "numbers": those of `written.py`, too; "": they are none.
      commas: what they separate in the column that is read, which `parse_values` finds out.
    """

    dates: str = ""
    parse: str = ""
    commas: str = ""

    def __post_init__(self) -> None:
        """Raises UserError for anything else."""
        for name, allowed in (("dates", UNITS), ("parse", PARSED)):
            if getattr(self, name) not in ("", *allowed):
                raise UserError(
                    f"{name}: must be one of {', '.join(allowed)}, got {printable(getattr(self, name))!r}"
                )


PLAIN = Reading()


@dataclasses.dataclass(frozen=True)
class ParsedValues:
    """Texts turned into numbers.

    Attributes:
      values: float64 [rows]; 0 in rows listed in `bad`.
      bad: row index -> why its text is not a number.
      converted: what was rewritten before it was a plain number ("typed RDF literals", ...) -> rows.
      dates: the rows whose text is a date.
      rounded: number of rows whose integer is beyond 2^53 and not a float64, so that it was rounded.
    """

    values: np.ndarray
    bad: dict[int, str]
    converted: dict[str, int]
    dates: tuple[int, ...]
    rounded: int


def parse_values(texts: pa.ChunkedArray, reading: Reading = PLAIN) -> ParsedValues:
    """Numbers of a string column by the rules at the top of this module; nothing is raised."""
    plain = pc.match_substring_regex(texts, PLAIN_NUMBER)
    is_plain = np.asarray(plain.to_numpy(), dtype=bool)
    safe = pc.if_else(plain, texts, "0")
    values = np.array(pc.cast(safe, pa.float64()).to_numpy(), dtype=np.float64)
    bad: dict[int, str] = {}
    converted: dict[str, list[int]] = collections.defaultdict(list)
    rounded = 0
    has_digit = np.asarray(pc.match_substring_regex(safe, "[1-9]").to_numpy(), dtype=bool)
    underflow = (values == 0) & has_digit
    special = ~is_plain | underflow | (np.abs(values) >= EXACT_INTEGERS)
    special_texts = texts.filter(pa.array(special)).to_pylist()
    if reading.parse:
        points = bool(pc.any(pc.match_substring(texts.filter(plain), ".")).as_py())
        bare = (_unwrapped(text)[1] for text in special_texts)
        reading = dataclasses.replace(reading, commas=meaning_of_commas(bare, points))
    for row, text in zip(np.flatnonzero(special).tolist(), special_texts, strict=True):
        value, note = parse_number(text, reading)
        if value is None:
            bad[row] = note
            values[row] = 0.0
            continue
        values[row] = value
        if note:
            converted[note].append(row)
        rounded += is_rounded(text, value)
    if reading.parse:
        for row, why in _other_signs(texts, converted).items():
            bad[row], values[row] = why, 0.0
    dates = tuple(converted[DESCRIBED[reading.dates]]) if reading.dates else ()
    counts = {note: len(rows) for note, rows in converted.items() if rows}
    return ParsedValues(values + 0.0, bad, counts, dates, rounded)


def _other_signs(texts: pa.ChunkedArray, converted: dict[str, list[int]]) -> dict[int, str]:
    """The rows with another sign than most that have one, and why; taken out of `converted`."""
    signs, counts = {}, collections.Counter[str]()
    for note, rows in converted.items():
        way = written_number(_unwrapped(texts[rows[0]].as_py())[1]) if rows else None
        if way is not None and way.sign:
            signs[note] = way.sign
            counts[way.sign] += len(rows)
    wrong = other_signs(counts)
    return {row: wrong[sign] for note, sign in signs.items() if sign in wrong for row in converted.pop(note)}


def is_rounded(text: str, value: float) -> bool:
    """Whether `text` is an integer that float64 cannot hold, so that `value` is the nearest one."""
    digits = text.strip().lstrip("+-").lstrip("0")
    return abs(value) >= EXACT_INTEGERS and digits.isdecimal() and int(abs(value)) != int(digits)


def parse_number(text: str, reading: Reading = PLAIN) -> tuple[float | None, str]:
    """(value, what was rewritten or "") of a number; (None, why not) of anything else."""
    note, number, typed = _unwrapped(text)
    if typed:
        known = XSD_TYPE.match(typed)
        datatype = known[1] if known else re.split("[/#:]", typed)[-1]
        if known and datatype in DATE_TYPES:
            value, why = _not_plain(number, reading)
            is_date = value is not None or why in (A_DATE, NO_DATE_READ)
            return (value, why) if is_date else (None, f"type {datatype} is not numeric")
        if not known or datatype not in INTEGER_TYPES | REAL_TYPES:
            return None, f"type {datatype} is not numeric"
        if datatype == "gYear" and (zoned := ZONE.match(number)):
            note, number = ZONED_YEARS, zoned[1]
        if wrong := _outside_type(number, datatype):
            return None, wrong
    if not re.match(PLAIN_NUMBER, number):
        return _not_plain(number, reading)
    value = float(number)
    if not np.isfinite(value):
        return None, "beyond the range of float64"
    if value == 0 and re.search("[1-9]", re.split("[eE]", number)[0]):
        return None, "not zero, but too small for float64"
    return value + 0.0, note


def _not_plain(text: str, reading: Reading) -> tuple[float | None, str]:
    """What `parse_number` returns for a text that is no plain number."""
    if reading.dates and (number := date_number(text, reading.dates)) is not None:
        return number, DESCRIBED[reading.dates]
    if reading.parse and (written := written_number(text, reading.commas)) is not None:
        if reading.commas == UNCERTAIN and "," in text:
            return None, UNSURE_COMMA
        value, why = parse_number(written.plain)
        return (None, why) if value is None else (value, written.note)
    why = _why_not_a_number(text)
    return None, NO_DATE_READ if reading.dates and why == A_DATE else why


def _outside_type(number: str, datatype: str) -> str:
    """Why a number is none of its XML Schema type; "" if it is one, or no number at all."""
    if datatype in INTEGER_TYPES:
        if not INTEGER.match(number):
            return f"not of type {datatype}"
        least, largest = RANGES.get(datatype, (None, None))
        value = int(number) if len(number) <= MOST_DIGITS else float(number)
        if least is not None and value < least or largest is not None and value > largest:
            return f"outside the range of {datatype}"
    is_float = datatype == "float" and re.match(PLAIN_NUMBER, number)
    return (
        f"outside the range of {datatype}" if is_float and LARGEST_FLOAT < abs(float(number)) < np.inf else ""
    )


def aggregate(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, int]:
    """One value for each distinct key: the median of its different values.

    Args:
      keys: int64 [rows]; values: finite float64 [rows].

    Returns:
      (keys int64 [k] ascending, values float64 [k], rows that exactly repeat another row, keys that had
      several different values).
    """
    order = np.argsort(keys, kind="stable")
    if (keys[order[1:]] == keys[order[:-1]]).any():
        order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    first = differs_from_previous(keys, values)
    repeats = int(len(keys) - first.sum())
    keys, values = keys[first], values[first]
    groups, starts, counts = np.unique(keys, return_index=True, return_counts=True)
    low, high = values[starts + (counts - 1) // 2], values[starts + counts // 2]
    middle = np.where(low == high, low, low / 2 + high / 2)  # halves first: the sum may overflow
    return groups, middle, repeats, int((counts > 1).sum())


def _unwrapped(text: str) -> tuple[str, str, str]:
    """What is left out in words, the text without quotes and with ASCII digits, and its datatype or ""."""
    stripped = text.strip()
    typed, quoted = TYPED.match(stripped), QUOTED.match(stripped)
    note, number = "", stripped
    if typed:
        note, number = "typed RDF literals", next(part for part in typed.groups() if part is not None).strip()
    elif quoted:
        note, number = "quoted numbers", quoted.group(1).strip()
    if not number.isascii():
        ascii_number = _ascii_digits(number)
        if ascii_number != number:
            note, number = note or "numbers in non-ASCII digits", ascii_number
    return note, number, typed[4] if typed else ""


def _ascii_digits(text: str) -> str:
    """`text` with decimal digits of every script, and signs and points with an ASCII equivalent, in ASCII."""
    digits = {
        character: str(digit)
        for character in text
        if (digit := unicodedata.decimal(character, None)) is not None
    }
    return "".join(digits.get(character, character) for character in text).translate(ASCII_SIGNS)


def _why_not_a_number(text: str) -> str:
    if text == "":
        return "empty"
    if text.lstrip("+-").casefold() in NON_FINITE_WORDS:
        return "not finite"
    if DATE.match(text):
        return A_DATE
    if TIME.match(text):
        return "a time"
    if HEXADECIMAL.match(text):
        return "a hexadecimal number"
    if re.match(
        r"[-+]?[0-9]{1,3}([,.' \u00a0\u2009\u202f\u2019\u066c\uff0c_][0-9]{3})+([.,][0-9]+)?\Z", text
    ):
        return THOUSANDS
    if re.match(r"[-+]?[0-9]+,[0-9]+\Z", text):
        return DECIMAL_COMMA
    if re.match(r"[-+]?\.?[0-9][0-9.,]*\s*[^\s0-9.,:_/-]", text):
        return UNIT
    sign = text.lstrip("+-")[:1]  # of a currency: $12, -€3.50
    if sign and unicodedata.category(sign) == "Sc" and re.search("[0-9]", text):
        return UNIT
    return "not a number"
