"""Dates as numbers, in folders and tables: exactly which number, each conversion counted, nothing guessed."""

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax import NumericKG
from numcoke_jax.cli.main import main
from numcoke_jax.config.files import default_config
from numcoke_jax.data.files.dates import date_number
from numcoke_jax.data.files.folder import inspect_folder, read_folder
from numcoke_jax.data.files.lines import DataError
from numcoke_jax.data.files.numbers import Reading, parse_number
from numcoke_jax.data.load import load_graph
from numcoke_jax.system.errors import UserError

XSD = "http://www.w3.org/2001/XMLSchema#"


@given(st.datetimes())
def test_days_are_those_of_numpy_and_years_those_of_the_text(when: datetime.datetime) -> None:
    hours = (np.datetime64(when) - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    assert date_number(when.isoformat(), "days") == pytest.approx(hours, abs=1e-9)
    assert date_number(when.isoformat(" "), "year") == when.year
    assert date_number(str(when.date()), "days") == np.datetime64(when.date(), "D").astype(int)


@pytest.mark.parametrize(
    ("text", "year", "days"),
    [
        ("1970-01-01", 1970, 0.0),
        ("1969/12/31", 1969, -1.0),
        ("1970-1-2", 1970, 1.0),
        ("1970-01-01T12:00:00Z", 1970, 0.5),
        ("1970-01-01T01:00:00+01:00", 1970, 0.0),
        ("1970-01-02-12:00", 1970, 1.5),  # a day that begins at noon UTC
        ("-0001-12-31", -1, float((np.datetime64("-0001-12-31") - np.datetime64("1970-01-01")).astype(int))),
        (
            "12024-02-29",
            12024,
            float((np.datetime64("12024-02-29") - np.datetime64("1970-01-01")).astype(int)),
        ),
        ("1960-00-00", 1960, None),  # Wikidata: month and day unknown
        ("1960-05", 1960, None),
        ("1960-05-00T00:00:00Z", 1960, None),
        ("2023-02-29", None, None),
        ("1970-13-01", None, None),
        ("1970-01-01T25:00", None, None),
        ("3/4/1970", None, None),  # the third of April, or the fourth of March
        ("1970-01/02", None, None),
        ("70-01-02", None, None),
        ("1970", None, None),
    ],
)
def test_dates_of_every_kind(text: str, year: float | None, days: float | None) -> None:
    assert (date_number(text, "year"), date_number(text, "days")) == (year, days)


def test_a_date_is_a_number_only_if_it_is_asked_for() -> None:
    assert parse_number("1960-05-01") == (None, "a date")
    assert parse_number("1960-05-01", Reading("year")) == (1960.0, "dates read as years")
    assert parse_number(f'"1960-05-01"^^<{XSD}date>', Reading("days"))[0] == -3532.0
    assert parse_number("5/1/1960", Reading("year"))[1].startswith("a date, but not year, month, day")
    assert parse_number("1960.25", Reading("year")) == (1960.25, "")
    with pytest.raises(UserError, match="dates: must be one of year, days, got 'month'"):
        Reading("month")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "g" / "literals").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (tmp_path / "g" / f"{split}.txt").write_text("a\tr\tb\nb\tr\tc\n")
    rows = (
        f'a\tborn\t"1960-05-01T00:00:00Z"^^<{XSD}dateTime>',
        f'b\tborn\t"1970"^^<{XSD}gYear>',
        f'c\tmade\t"1970-01-11"^^<{XSD}date>',
        "c\tmass\t3",
    )
    (tmp_path / "g" / "literals" / "numerical_literals.txt").write_text("\n".join(rows) + "\n")
    return tmp_path / "g"


def test_literals_that_are_dates_load_as_years_or_days(folder: Path) -> None:
    with pytest.raises(DataError, match="2 are dates: --data.dates=year"):
        read_folder(folder)
    graph, report = read_folder(folder, dates="year")
    fields = graph.vocabulary.fields
    assert fields == ("born", "made", "mass")
    assert graph.values[0, 0] == 1960 and graph.values[1, 0] == 1970 and graph.values[2, 1] == 1970
    assert "literals: 2 values converted (dates read as years)" in report.notices()
    graph, report = read_folder(folder, dates="days")
    assert graph.values[0, 0] == -3532 and graph.values[2, 1] == 10
    mixed = [note for note in report.notices() if "beside other numbers" in note]
    assert len(mixed) == 1 and "field born" in mixed[0], "made has dates only, mass none"


def test_the_key_and_the_flag_read_dates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = default_config()
    config.data.path, config.data.dates = str(folder), "year"
    assert load_graph(config.data).graph.vocabulary.fields == ("born", "made", "mass")
    kg = NumericKG.from_folder(folder, dates="year")
    assert np.array_equal(kg.graph.values, load_graph(config.data).graph.values)
    assert main(["data", "check", str(folder), "--dates=year"]) == 0
    assert main(["data", "check", str(folder)]) == 1
    assert "2 are dates" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UserError, match="dates: must be one of"):
        NumericKG.from_folder(folder, dates="month")


def test_the_dates_of_litwd1k(shared_dir: Path, folder: Path) -> None:
    """2,184 of its 10,988 literals are dates; 11 fields have nothing else."""
    source = shared_dir / "data/litwd1k"
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_bytes((source / f"{split}.txt").read_bytes())
    literals = (source / "numeric_literals.txt").read_bytes()
    (folder / "literals" / "numerical_literals.txt").write_bytes(literals)
    assert literals.count(b"XMLSchema#dateTime") == 2184
    graph, report = read_folder(folder, dates="year")
    assert report.literals_converted["dates read as years"] == 2184
    assert graph.num_fields == 81
    born = graph.vocabulary.fields.index("P569")
    years = graph.values[graph.observed[:, born], born]
    assert len(years) > 400 and (years > 1900).all() and (years < 2010).all()


FRAME = pd.DataFrame(
    {
        "film": [f"film {row}" for row in range(12)],
        "length": range(90, 102),
        "shown": pd.date_range("1999-12-30", periods=12),
    }
)


def test_columns_of_dates_become_fields_of_tables(tmp_path: Path) -> None:
    left_out = NumericKG.from_table(FRAME, name="film")
    assert left_out.graph.vocabulary.fields == ("length",)
    assert (
        "left out, with dates: 'shown'; dates=year or dates=days makes them numbers"
        in left_out.loaded.notices
    )
    days = NumericKG.from_table(FRAME, name="film", dates="days")
    column = days.graph.vocabulary.fields.index("shown")
    assert sorted(days.graph.values[:, column]) == list(
        range(10955, 10967)
    )  # 30 years with 7 leap days, less 2
    assert (
        "table: column 'shown': 12 values converted (dates read as days since 1970-01-01)"
        in days.loaded.notices
    )
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "films.parquet")
    FRAME.to_csv(tmp_path / "films.csv", index=False)
    for kind in ("csv", "parquet"):
        table, out = tmp_path / f"films.{kind}", tmp_path / kind
        assert main(["data", "build", f"--table={table}", "--name=film", "--dates=year", f"--out={out}"]) == 0
        graph, _ = read_folder(out)
        assert set(graph.values[:, graph.vocabulary.fields.index("shown")]) == {1999.0, 2000.0}


def test_attributes_of_facts_read_dates(tmp_path: Path) -> None:
    FRAME.assign(shown=FRAME["shown"].astype(str)).to_csv(tmp_path / "films.csv", index=False)
    facts = pd.DataFrame({"a": FRAME["film"], "b": FRAME["film"].shift(1)}).dropna()
    facts.to_csv(tmp_path / "facts.csv", index=False)
    options = [
        f"--facts={tmp_path / 'facts.csv'}",
        "--head=a",
        "--tail=b",
        "--relation=after",
        "--dates=year",
    ]
    assert main(["data", "build", *options, f"--out={tmp_path / 'x'}"]) == 2, "without attributes"
    options += [f"--attributes={tmp_path / 'films.csv'}", "--name=film"]
    assert main(["data", "build", *options, f"--out={tmp_path / 'g'}"]) == 0
    graph, report = inspect_folder(tmp_path / "g")
    assert graph is not None and graph.vocabulary.fields == ("length", "shown")


def test_dates_beside_years_are_said_to_be_mixed_in_days() -> None:
    frame = FRAME.assign(shown=["1999", *FRAME["shown"].astype(str)[1:]])
    notices = NumericKG.from_table(frame, name="film", dates="days").loaded.notices
    said = (
        "table: column 'shown': dates, read as days, beside other numbers; dates=year suits dates and years"
    )
    assert said in notices
    assert said not in NumericKG.from_table(frame, name="film", dates="year").loaded.notices


@pytest.mark.parametrize("dates", ["", "year", "days"])
def test_dates_that_can_be_read_in_two_ways_are_said_to_be(dates: str) -> None:
    """No reading of dates would take them, so none is recommended."""
    frame = pd.DataFrame(
        {"name": list("abc"), "x": [1.0, 2, 3], "day": ["3/14/2001", "5/2/2002", "7/1/2003"]}
    )
    notices = NumericKG.from_table(frame, name="name", dates=dates).loaded.notices
    assert "left out, with dates that can be read in two ways: 'day'; write 2001-03-14" in notices
