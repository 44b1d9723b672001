"""Numbers as people write them: with a percent sign, with that of a currency, with separated thousands.

    14.2 %   -3%   $12   €-3.50   12 €   1,065   $1,065.50   1 065   1'065

The sign is left out and nothing is rescaled: 14.2 % is 14.2.  Thousands are groups of three digits behind a
comma, a space, an apostrophe or an underscore, never behind a point, since 1.065 is a plain number.

What a comma or a sign means can only be said of a whole column, which is what `doubts` is for: 1,065 is about
one beside 3,5, and $3 cannot be compared with €3.
"""

import collections
import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Mapping

PARSED = ("numbers",)  # what a `Reading` may ask for
SPACES_AND_MARKS = " '_\u00a0\u2009\u202f\u2019\u066c"
WRITTEN = re.compile(
    rf"(?P<minus>[-+]?)(?P<before>[^\w\s.,'+%-]?)\s?(?P<inner>[-+]?)"
    rf"(?P<digits>[0-9]{{1,3}}(?:(?P<mark>[,{SPACES_AND_MARKS}])[0-9]{{3}})(?:(?P=mark)[0-9]{{3}})*|[0-9]*)"
    r"(?P<rest>(?:\.[0-9]*)?)\s?(?P<after>[^\w\s.,'+-]?)\Z"
)
PERCENT = "%"


@dataclasses.dataclass(frozen=True)
class Written:
    """A number that is written in another way.

    Attributes:
      plain: the same as a plain number.
      sign: what was left out, "%" or a currency's; "" for none.
      mark: what separated the thousands; "" for nothing.
    """

    plain: str
    sign: str
    mark: str

    @property
    def note(self) -> str:
        """What was done, in words."""
        sign = "percent signs" if self.sign == PERCENT else self.sign
        return f"{' and '.join(filter(None, (sign, self.mark and 'thousands separators')))} left out"


def written_number(text: str) -> Written | None:
    """The number of a text without outer white space and with ASCII digits; None if it is none."""
    found = WRITTEN.match(text)
    if not found or not re.search("[0-9]", found["digits"] + found["rest"]):
        return None
    sign, minus, mark = found["before"] + found["after"], found["minus"] + found["inner"], found["mark"] or ""
    if not (sign or mark) or len(sign) > 1 or len(minus) > 1 or (found["inner"] and not found["before"]):
        return None
    if sign and sign != PERCENT and unicodedata.category(sign) != "Sc":
        return None
    digits = found["digits"].replace(mark, "") if mark else found["digits"]
    return Written(minus + digits + found["rest"], sign, mark)


def doubts(rows: Mapping[Written, int], others: Iterable[str]) -> dict[Written, str]:
    """Which ways of writing mean something else, or nothing certain, in one column, and why.

    Args:
      rows: an example of each way -> how many cells are written so.
      others: why other cells of the column are not numbers.
    """
    signs: collections.Counter[str] = collections.Counter()
    for way, count in rows.items():
        signs[way.sign] += count if way.sign else 0
    usual = max(signs, key=lambda sign: signs[sign], default="")
    commas = any("decimal comma" in why or "thousands separators" in why for why in others)
    found = {}
    for way in rows:
        if way.sign and way.sign != usual:
            found[way] = f"a number with {way.sign} beside others with {usual}"
        elif way.mark == "," and commas:
            found[way] = "a number with a comma, beside others whose comma is no thousands separator"
    return found
