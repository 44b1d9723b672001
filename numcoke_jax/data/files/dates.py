"""Dates as numbers: the year, or the days since 1970-01-01 in the Gregorian calendar carried backwards.

Only dates whose meaning is certain are read, those with the year first: `1970-01-31`, `1970/1/31`, `1970-01`,
and with a time or a zone, `1970-01-31T12:00:00Z`.  3/4/1970 is two dates, so it is none.

* "year" is the calendar year as written; month, day, time and zone are left out.  A month or day of 00, which
  Wikidata writes for "unknown", is as good as any.
* "days" counts days, with their fraction if there is a time (UTC unless it has a zone); it needs month and
  day.
"""

import datetime
import re

UNITS = ("year", "days")
DESCRIBED = {"year": "dates read as years", "days": "dates read as days since 1970-01-01"}
YEAR_FIRST = re.compile(
    r"(?P<year>[-+]?[0-9]{3,6})(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?:(?P=mark)(?P<day>[0-9]{1,2}))?"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?))?(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?\Z"
)
CYCLE = 400  # years after which the calendar repeats
DAYS_OF_CYCLE = 146_097
FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
DAY = datetime.timedelta(days=1)


def date_number(text: str, unit: str) -> float | None:
    """The number of a date in one of `UNITS`; None if the text is no date, or lacks what the unit needs."""
    found = YEAR_FIRST.match(text)
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"]), int(found["day"] or 0)
    within = _offset(found["time"], found["zone"])
    if within is None:
        return None
    if month and day or unit == "days":
        days = _days(year, month, day)
        if days is None:
            return None
        return float(year) if unit == "year" else days + within
    return float(year) if month <= 12 and day == 0 else None


def _days(year: int, month: int, day: int) -> float | None:
    """Days from 1970-01-01 to a date, also of years that `datetime` does not have; None if there is none."""
    alike = 2000 + year % CYCLE
    try:
        ordinal = datetime.date(alike, month, day).toordinal()
    except ValueError:
        return None
    return float(ordinal - FIRST_DAY + (year - alike) // CYCLE * DAYS_OF_CYCLE)


def _offset(time: str | None, zone: str | None) -> float | None:
    """The days that a time (midnight without one) is after midnight UTC; None if there is no such time."""
    try:
        clock = datetime.time.fromisoformat(f"{time or '00:00'}{zone or 'Z'}")
    except ValueError:
        return None
    since = datetime.timedelta(hours=clock.hour, minutes=clock.minute, seconds=clock.second)
    since += datetime.timedelta(microseconds=clock.microsecond)
    return (since - (clock.utcoffset() or datetime.timedelta())) / DAY
