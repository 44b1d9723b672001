"""Numbers as people write them: with signs (percent, currency), separated thousands, decimal commas.

    14.2 %   -3%   $12   €-3.50   12 €   1,065   $1,065.50   1 065   1'065   196,1   1 065,5   3,5 %

The sign is left out and nothing is rescaled: 14.2 % is 14.2.  Thousands are groups of three digits behind a
comma, a space, an apostrophe or an underscore, never behind a point, since 1.065 is a plain number.

What a comma or a sign means can only be said of a whole column: 1,065 is about one beside 3,5 and 1065 beside
1,065,000 (`meaning_of_commas`), and $3 cannot be compared with €3 (`other_signs`).
"""

import collections
import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping

PARSED = ("numbers",)  # what a `Reading` may ask for
THOUSANDS, DECIMALS = "thousands", "decimals"  # what the commas of a column separate,
GUESSED, UNCERTAIN = "thousands, it seems", "uncertain"  # with nothing for or against, or something for both
SPACES_AND_MARKS = " '_\u00a0\u2009\u202f\u2019\u066c"
WRITTEN = re.compile(
    rf"(?P<minus>[-+]?)(?P<before>[^\w\s.,'+%-]?)\s?(?P<inner>[-+]?)"
    rf"(?P<digits>(?!0,)[0-9]{{1,3}}(?P<mark>[,{SPACES_AND_MARKS}])[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*|[0-9]*)"
    r"(?P<rest>(?:\.[0-9]*|(?<=[0-9]),[0-9]+)?)\s?(?P<after>[^\w\s.,'+-]?)\Z"
)
POINT_OF_THOUSANDS = re.compile(r"\.[0-9]+[.,]")  # 1.065.000, 1.065,5: then a comma separates decimals
PERCENT = "%"


@dataclasses.dataclass(frozen=True)
class Written:
    """A number that is written in another way.

    Attributes:
      plain: the same as a plain number.
      sign: what was left out, "%" or a currency's; "" for none.
      mark: what separated the thousands; "" for nothing.
      decimal_comma: whether a comma stood for the decimal point.
      sure: whether a comma in it can mean nothing else; in 1,065 it could.
      guessed: whether nothing in its column says that either.
    """

    plain: str
    sign: str
    mark: str
    decimal_comma: bool
    sure: bool
    guessed: bool

    @property
    def note(self) -> str:
        """What was done, in words."""
        sign = "percent signs" if self.sign == PERCENT else self.sign
        left_out = " and ".join(filter(None, (sign, self.mark and "thousands separators")))
        done = (
            left_out and f"{left_out} left out",
            "decimal commas read as points" * self.decimal_comma,
            "if they are no decimal commas" * self.guessed,
        )
        return ", ".join(filter(None, done))


def written_number(text: str, commas: str = "") -> Written | None:
    """The number of a text without outer white space and with ASCII digits; None if it is none.

    Args:
      text: of one cell.
      commas: `DECIMALS` if that is what they separate in its column, else thousands where the text allows it.
    """
    found = WRITTEN.match(text)
    if not found or not re.search("[0-9]", found["digits"] + found["rest"]):
        return None
    sign, minus, mark = found["before"] + found["after"], found["minus"] + found["inner"], found["mark"] or ""
    digits, rest = found["digits"], found["rest"]
    sure = "," not in text or mark != "," or digits.count(",") > 1 or bool(rest)
    if commas == DECIMALS and not sure:
        digits, comma, rest = digits.partition(",")
        mark, rest = "", comma + rest
    decimal_comma = rest.startswith(",")
    if not (sign or mark or decimal_comma) or len(sign) > 1 or len(minus) > 1:
        return None
    if (found["inner"] and not found["before"]) or (decimal_comma and mark == ","):
        return None
    if sign and sign != PERCENT and unicodedata.category(sign) != "Sc":
        return None
    digits = digits.replace(mark, "") if mark else digits
    plain, guessed = minus + digits + rest.replace(",", "."), commas == GUESSED and mark == ","
    return Written(plain, sign, mark, decimal_comma, sure, guessed)


def meaning_of_commas(texts: Iterable[str], points: bool) -> str:
    """What commas separate in a column: thousands unless one cannot, `UNCERTAIN` if cells contradict.

    It is `GUESSED` if each could be a decimal comma too and no number has a decimal point.

    Args:
      texts: its cells that are no plain numbers, without outer white space and with ASCII digits.
      points: whether one of its plain numbers has a decimal point.
    """
    found = set()
    for text in texts:
        points |= "." in text
        way = written_number(text)
        if POINT_OF_THOUSANDS.search(text) or (way is not None and way.decimal_comma):
            found.add(DECIMALS)
        elif way is not None and way.mark == "," and way.sure:
            found.add(THOUSANDS)
    if DECIMALS not in found:
        return THOUSANDS if THOUSANDS in found or points else GUESSED
    return UNCERTAIN if points or THOUSANDS in found else DECIMALS


def other_signs(rows: Mapping[str, int]) -> dict[str, str]:
    """The signs of a column that are not its most frequent one, and what is said of their cells.

    Args:
      rows: sign -> how many cells have it.
    """
    signs = collections.Counter(rows)
    usual = max(signs, key=lambda sign: signs[sign], default="")
    return {sign: f"a number with {sign} beside others with {usual}" for sign in signs if sign != usual}
