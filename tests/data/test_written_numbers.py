"""Numbers as people write them, and truth values: exactly which number, each conversion counted."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcoke_jax import NumericKG
from numcoke_jax.cli.main import main
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.files.numbers import PLAIN, Reading, parse_number
from numcoke_jax.data.tables.cells import column_numbers
from numcoke_jax.system.errors import UserError

WRITTEN = Reading(parse="numbers")


@pytest.mark.parametrize(
    ("text", "number", "note"),
    [
        ("14.2 %", 14.2, "percent signs left out"),
        ("-3%", -3.0, "percent signs left out"),
        (".5%", 0.5, "percent signs left out"),
        ("\u22123 %", -3.0, "percent signs left out"),  # a true minus sign
        ("$12", 12.0, "$ left out"),
        ("-$12", -12.0, "$ left out"),
        ("$-12.50", -12.5, "$ left out"),
        ("12 €", 12.0, "€ left out"),
        ("£ 3", 3.0, "£ left out"),
        ("1,065", 1065.0, "thousands separators left out"),
        ("+1,065,000.25", 1065000.25, "thousands separators left out"),
        ("1\u202f065", 1065.0, "thousands separators left out"),
        ("1'065", 1065.0, "thousands separators left out"),
        ("$1,065.50", 1065.5, "$ and thousands separators left out"),
        ("1.065", 1.065, ""),
        ("196,1", 196.1, "decimal commas read as points"),
        ("\u22120,125", -0.125, "decimal commas read as points"),  # no thousands begin with 0
        ("1234,567", 1234.567, "decimal commas read as points"),
        ("1 065,5", 1065.5, "thousands separators left out, decimal commas read as points"),
        ("3,5 %", 3.5, "percent signs left out, decimal commas read as points"),
    ],
)
def test_numbers_with_signs_and_separators(text: str, number: float, note: str) -> None:
    assert parse_number(text, WRITTEN) == (number, note)
    if note:
        assert parse_number(text)[0] is None, "off unless it is asked for"


@pytest.mark.parametrize(
    "text",
    [
        "10,65,000",
        "1.065,5",
        "1.065.000",
        "1,065,5",
        ",5",
        "5,",
        "1,065 000",
        "0,065,1",
        "12 kg",
        "$12M",
        "$",
        "%",
        "%12",
        "$12%",
    ]
    + ["$12$", "--$3", "- -3 %", "-$-3", "(12)", "1e3 %", "# 5", "5 °", "1,065 kg", "", "nan %", "1/2 %"],
)
def test_what_stays_unread(text: str) -> None:
    value, why = parse_number(text, WRITTEN)
    assert value is None and why


@given(st.integers(-(10**15), 10**15), st.integers(0, 99), st.sampled_from([",", " ", "\u00a0"]))
def test_grouping_by_python_reads_back(whole: int, cents: int, mark: str) -> None:
    text = f"{whole:,}.{cents:02d}".replace(",", mark)
    assert parse_number(text, WRITTEN)[0] == float(f"{whole}.{cents:02d}")
    assert parse_number(f"{text} %", WRITTEN)[0] == float(f"{whole}.{cents:02d}")


def test_a_column_decides_what_a_comma_and_a_sign_mean() -> None:
    mixed = column_numbers(["$3", "€3", "$4", "5"], WRITTEN)
    assert mixed.wrong == {1: "a number with € beside others with $"}
    assert mixed.converted == {"$ left out": 2} and mixed.observed.tolist() == [True, False, True, True]
    more = column_numbers(["$1.5", "€3", "'€4'", '"€5"'], WRITTEN)
    assert more.wrong[0] == "a number with $ beside others with €", "quotes do not hide a sign"
    assert column_numbers(["1,065", "2,000"], PLAIN).observed.sum() == 0


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,065", "3,5", "2"], [1.065, 3.5, 2]),
        (["1,065", "0,250"], [1.065, 0.25]),
        (["1,065 €", "1 065,5 €"], [1.065, 1065.5]),
        (["1,065", "2,000"], [1065, 2000]),  # could be either: thousands
        (["1,065", "2.5"], [1065, 2.5]),
        (["1,065", "1,065,000"], [1065, 1065000]),
        (["1 065", "3,5"], [1065, 3.5]),
    ],
)
def test_one_comma_that_is_no_thousands_separator_makes_all_decimal(cells: list, numbers: list) -> None:
    found = column_numbers(cells, WRITTEN)
    assert found.values.tolist() == numbers and not found.wrong


@pytest.mark.parametrize(
    "cells",
    [
        ["1,065", "3,5", "2.5"],  # a plain decimal point
        ["1,065", "3,5", "2.5 %"],
        ["3,5", "1,065,000"],
        ["3,5", "1,065.5"],
        ["1,065", "1.065.000"],
        ["1,065", "1.065,5"],
        ["1,065", '"3,5"', '"2.5"'],
    ],
)
def test_commas_beside_what_contradicts_them_are_unread(cells: list) -> None:
    found = column_numbers(cells, WRITTEN)
    assert found.wrong[0] == "a number with a comma, beside others whose comma or point means something else"
    assert not any("comma" in how or "thousands" in how for how in found.converted)


@pytest.mark.parametrize("words", [(True, False), ("true", "False"), ("Yes", "no "), (np.True_, np.False_)])
def test_truth_values_are_one_and_zero(words: tuple) -> None:
    found = column_numbers([words[0], None, words[1], "" if isinstance(words[0], str) else float("nan")])
    assert found.values.tolist() == [1, 0, 0, 0]
    assert found.observed.tolist() == [True, False, True, False]
    assert found.converted == {"truth values read as 1 and 0": 2} and not found.wrong
    for other in (1, "7", "maybe"):
        mixed = column_numbers([*words, other])
        assert list(mixed.wrong)[:2] == [0, 1], "beside anything else they are no numbers"


TABLE = pd.DataFrame(
    {
        "town": [f"town {row}" for row in range(10)],
        "share": [f"{row}.5 %" for row in range(10)],
        "height": [f"{row},25" for row in range(10)],
        "people": [f"{row + 1},065" for row in range(9)] + ["12"],
        "rent": [f"${100 * row}" for row in range(10)],
        "capital": [row == 3 for row in range(10)],
    }
)


def test_tables_read_them_if_asked_and_count_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.to_csv(tmp_path / "towns.csv", index=False)
    options = [f"--table={tmp_path / 'towns.csv'}", "--name=town"]
    assert main(["data", "build", *options, f"--out={tmp_path / 'plain'}"]) == 0
    told = capsys.readouterr().out
    assert told.count("; parse=numbers reads them") == 4
    assert read_folder(tmp_path / "plain")[0].vocabulary.fields == ("capital",)
    assert main(["data", "build", *options, f"--out={tmp_path / 'all'}", "--parse=numbers"]) == 0
    told = capsys.readouterr().out
    for said in (
        "column 'people': 9 of 10 values converted "
        "(thousands separators left out, if they are no decimal commas)",
        "column 'height': 10 values converted (decimal commas read as points)",
        "column 'rent': 10 values converted ($ left out)",
        "column 'share': 10 values converted (percent signs left out)",
        "column 'capital': 10 values converted (truth values read as 1 and 0)",
    ):
        assert f"towns.csv: {said}\n" in told
    graph, _ = read_folder(tmp_path / "all")
    assert graph.vocabulary.fields == ("capital", "height", "people", "rent", "share")
    np.testing.assert_array_equal(graph.values[4], [0, 4.25, 5065, 400, 4.5])
    kg = NumericKG.from_table(TABLE, name="town", parse="numbers")
    np.testing.assert_array_equal(kg.graph.values, graph.values)


@pytest.mark.parametrize(("other", "sure"), [("12", False), ("1.5", True), ("1,065,000", True)])
def test_commas_are_said_to_be_guessed_if_nothing_in_the_column_tells(other: str, sure: bool) -> None:
    table = pd.DataFrame({"town": TABLE["town"], "people": [*TABLE["people"][:9], other]})
    kg = NumericKG.from_table(table, name="town", parse="numbers")
    (notice,) = (notice for notice in kg.loaded.notices if "'people'" in notice)
    assert "thousands separators left out" in notice
    assert notice.endswith("left out, if they are no decimal commas)") is not sure


def test_a_field_that_is_asked_for_says_how_it_would_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"got '0.5 %' in data row 1 .*; parse=numbers reads them"):
        NumericKG.from_table(TABLE, name="town", fields="share")
    with pytest.raises(UserError, match="parse: must be one of numbers, got 'percent'"):
        NumericKG.from_table(TABLE, name="town", parse="percent")
    facts = pd.DataFrame({"a": TABLE["town"][1:], "b": list(TABLE["town"][:-1])})
    kg = NumericKG.from_facts(facts, TABLE, head="a", tail="b", relation="r", name="town", parse="numbers")
    assert kg.graph.vocabulary.fields == ("capital", "height", "people", "rent", "share")


@pytest.mark.parametrize("other", ["#DIV/0!", "inf"])
def test_single_cells_that_are_no_numbers_have_a_remedy(other: str) -> None:
    table = pd.DataFrame({"town": TABLE["town"], "area": range(10), "rain": [other, *map(str, range(9))]})
    said = NumericKG.from_table(table, name="town").loaded.notices
    (notice,) = (notice for notice in said if "'rain'" in notice)
    assert notice.endswith("; empty these cells if their numbers are missing") and repr(other) in notice


@pytest.mark.parametrize("other", ["2.5", "3,5 kg", "1.065,5"])
def test_commas_that_nothing_reads_have_a_remedy(other: str) -> None:
    table = TABLE.assign(height=["196,1", other, *TABLE["height"][2:]])
    with pytest.raises(
        UserError, match=r"column 'height' must hold .*'196,1'.*; write plain numbers, as 1065.5$"
    ):
        NumericKG.from_table(table, name="town", fields="height")


def test_a_column_of_text_or_of_dates_in_another_order_has_a_remedy_that_works() -> None:
    table = TABLE.assign(
        maker=["Ford", "Opel"] * 5, built=["1/2/1960", *(f"196{row}-03-01" for row in range(9))]
    )
    with pytest.raises(
        UserError, match=r"'Ford' in data row 1 .*; a column of text .* categories=maker makes"
    ):
        NumericKG.from_table(table, name="town", relations="maker")
    assert (
        NumericKG.from_table(table, name="town", parse="numbers", categories="maker").graph.num_relations > 4
    )
    remedy = r"got '1/2/1960' in data row 1 .*; write dates as 1970-01-31, which dates=year and"
    for dates in ("", "year"):
        with pytest.raises(UserError, match=remedy):
            NumericKG.from_table(table, name="town", relations="built", dates=dates)
    mended = table.assign(built=table["built"].replace("1/2/1960", "1960-02-01"))
    kg = NumericKG.from_table(mended, name="town", relations="built", fields="capital", dates="year")
    assert kg.graph.vocabulary.fields == ("built", "capital")
