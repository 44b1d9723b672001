"""Table files to cells, cells to names and numbers, specs of the known tables."""

import contextlib
import csv
import gzip
import importlib.util
import io
import math
import time
import zipfile
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from numcoke_jax.data.tables.cells import column_names, column_numbers, read_table
from numcoke_jax.system.errors import UserError, suggestion

PLAIN = "name,x\nnan,1\nNA,2\n01,3\n"
CELLS = {"name": ["nan", "NA", "01"], "x": ["1", "2", "3"]}


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\r"),
        PLAIN.removesuffix("\n"),
        PLAIN.replace("\n", "\n\n"),
        "  \n" + PLAIN.replace("\n", "\n \t\n"),
        '"name","x"\n"nan","1"\n"NA",2\n01,"3"\n',
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        "sep=;\n" + PLAIN.replace(",", ";"),
        "\ufeffSEP=|\r\n" + PLAIN.replace(",", "|").replace("\n", "\r\n"),
        '"sep=:"\n' + PLAIN.replace(",", ":"),
        "sep=,\n" + PLAIN,
    ],
    ids=["plain", "bom", "crlf", "cr", "no-final-newline", "blank-lines", "white-lines", "quoted"]
    + ["semicolons", "tabs", "bars", "declared", "declared-bom-crlf", "declared-quoted", "declared-comma"],
)
def test_csv_variants_give_the_same_cells(tmp_path, content):
    assert read_table(write(tmp_path, "t.csv", content)).columns == CELLS


def test_tsv_and_packed_files(tmp_path):
    tabs = PLAIN.replace(",", "\t")
    assert read_table(write(tmp_path, "t.tsv", tabs)).columns == CELLS
    assert read_table(write(tmp_path, "t.tab", tabs.replace("nan", "a,b"))).columns["name"][0] == "a,b"
    assert read_table(write(tmp_path, "t.csv.gz", gzip.compress(PLAIN.encode()))).columns == CELLS
    assert read_table(write(tmp_path, "packed.csv", gzip.compress(PLAIN.encode()))).columns == CELLS
    assert read_table(write(tmp_path, "T.TSV.GZ", gzip.compress(tabs.encode()))).columns == CELLS
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("readme.md", "no table")
        archive.writestr("inner/t.csv", PLAIN)
    assert read_table(tmp_path / "t.zip").columns == CELLS


def test_cells_are_kept_to_the_letter(tmp_path):
    content = 'name,x\n"  a ""b"", c  ",1e3\n"two\nlines", 2 \nÅsa\u00a0,\n'
    columns = read_table(write(tmp_path, "t.csv", content)).columns
    assert columns == {"name": ['  a "b", c  ', "two\nlines", "Åsa\u00a0"], "x": ["1e3", " 2 ", ""]}


def test_a_long_cell_is_read(tmp_path):
    """The csv module stops at 131,072 characters unless told otherwise, for the whole process."""
    before = csv.field_size_limit()
    story = "once, " * 50_000
    columns = read_table(write(tmp_path, "t.csv", f'name,story\na,"{story}"\n')).columns
    assert columns == {"name": ["a"], "story": [story]}
    with pytest.raises(UserError, match=r"t\.csv:2: unexpected end of data"):
        read_table(write(tmp_path, "t.csv", f'name,story\na,"{story}\n'))
    assert csv.field_size_limit() == before


def test_unnamed_columns(tmp_path):
    running_number = read_table(write(tmp_path, "a.csv", ",x\n7,1\n"))
    assert running_number.columns == {"": ["7"], "x": ["1"]}
    spreadsheet = read_table(write(tmp_path, "b.csv", "x,,\n1,,\n"))
    assert spreadsheet.columns == {"x": ["1"]}


def test_parquet(tmp_path):
    table = pa.table({"name": ["a", None], "x": pa.array([1, None], pa.int64()), "f": [1.5, float("nan")]})
    pq.write_table(table, tmp_path / "t.parquet")
    columns = read_table(tmp_path / "t.parquet").columns
    assert columns["name"] == ["a", None]
    assert columns["x"] == [1, None]
    assert column_numbers(columns["f"])[1].tolist() == [True, False]


def test_a_parquet_file_with_a_repeated_column_names_it(tmp_path):
    table = pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["name", "x", "x"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"t\.parquet: two columns are called 'x'; rename one$"):
        read_table(tmp_path / "t.parquet")
    pq.write_table(table.rename_columns(["name", "", ""]), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns == {"name": ["a"]}  # as with csv


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary(2), pa.dictionary(pa.int32(), pa.binary())],
    ids=["binary", "large", "fixed", "dictionary"],
)
def test_bytes_in_parquet_are_text(tmp_path, kind):
    names = ["\u00e5".encode(), None, b"NA"]
    column = pa.array(names, pa.binary(2) if kind == pa.binary(2) else pa.binary()).cast(kind)
    pq.write_table(pa.table({"name": column, "x": [b"1", b"", b"-2"]}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.columns == {"name": ["\u00e5", None, "NA"], "x": ["1", "", "-2"]}
    assert table.names("name") == ["\u00e5", "", "NA"]


def test_bytes_that_are_not_utf8_are_refused_as_names_only(tmp_path):
    """Another column may hold pictures."""
    pq.write_table(pa.table({"name": ["a", "b"], "blob": [b"a", b"\xff"]}), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.names("name") == ["a", "b"]
    assert column_numbers(table.columns["blob"])[2] == {0: "a bytes", 1: "a bytes"}
    message = r"t\.parquet: column 'blob': the bytes b'.xff' are not UTF-8; save names as text$"
    with pytest.raises(UserError, match=message):
        table.names("blob")
    assert column_names([b"a"]) == ["a"]  # of a pandas table


def test_xlsx_names_the_missing_library(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"xlsx needs openpyxl: pip install openpyxl, or save the table as csv"
    ):
        read_table(write(tmp_path, "t.xlsx", b""))


def test_xlsx(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="the optional reader of xlsx files is not installed")
    book = openpyxl.Workbook()
    for row in (["Name", "Weight\n(lbs)", 2020], ["nan", 1.5, 1], ["NA", None, "n/a"]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert list(table.columns) == ["Name", "Weight (lbs)", "2020"]
    assert table.columns["Name"] == ["nan", "NA"]
    assert column_numbers(table.columns["Weight (lbs)"])[1].tolist() == [True, False]
    assert column_numbers(table.columns["2020"])[1].tolist() == [True, False]
    with pytest.raises(UserError, match="bad.xlsx: is not a readable xlsx file"):
        read_table(write(tmp_path, "bad.xlsx", b"nothing"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "t.csv: is empty; the first row must name the columns"),
        ("t.csv", "\n\n", "t.csv: is empty"),
        ("t.csv", "a,b\n", "t.csv: has column names but no rows"),
        ("t.csv", ",,\na,b,c\n1,2,3\n", "t.csv: the first row names no column; remove empty rows above"),
        ("t.csv", "a,b\n1,2\n3\n4,5,6\n", "every row needs 2 cells; line 3 has 1, line 4 has 3$"),
        ("t.csv", "sep=;\na;b\n1;2\n3\n", "every row needs 2 cells; line 4 has 1$"),
        ("t.csv", "a;b\n1;2\n3\n4|5|6\n", "every row needs 2 cells; line 3 has 1, line 4 has 1$"),
        ("t.csv", "a,b\n" + "1\n" * 7, "line 2 has 1, .* line 6 has 1 and 2 more$"),
        ("t.csv", 'a,b\n1,"open\n2,3\n', "t.csv:3: unexpected end of data; quote cells as csv does"),
        ("t.csv", "a,a\n1,2\n", "t.csv: two columns are called 'a'; rename one"),
        ("t.csv", b"a,b\r1,2\r\xe9,3\r", "t.csv:3: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), "t.csv: is UTF-16; save it as UTF-8"),
        ("t.xls", "a,b\n1,2\n", r"t.xls: a table's name ends in .csv, .tsv.*, .xlsx \(.*\); save it as one"),
        ("t", "a,b\n1,2\n", "a table's name ends in .csv, .tsv"),
        ("t.csv.gz", "a,b\n1,2\n", "t.csv.gz: damaged archive"),
        (
            "t.csv.gz",
            gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9],
            "t.csv.gz: damaged archive .*; fetch it again",
        ),
        ("t.zip", "a,b\n1,2\n", "t.zip: damaged archive"),
        ("t.parquet", "a,b\n1,2\n", "t.parquet: is not a parquet file"),
    ],
)
def test_malformed_files(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message) as caught:
        read_table(write(tmp_path, name, content))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_archive_with_several_tables(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    with pytest.raises(UserError, match="holds 2 csv or tsv files, must be 1; unpack it"):
        read_table(tmp_path / "t.zip")


def test_an_archive_made_by_a_mac_holds_one_table(tmp_path):
    """A second "file" beside each, with what a Mac knows of it."""
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", PLAIN)
        archive.writestr("__MACOSX/._t.csv", b"\0\1")
    assert read_table(tmp_path / "t.zip").columns == CELLS


def test_an_archive_with_a_password_is_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", PLAIN)
    data = bytearray((tmp_path / "t.zip").read_bytes())
    data[6] |= 1  # flag "encrypted" of the file and of its entry in the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    with pytest.raises(UserError, match="t.zip: cannot be unpacked here .*password.*; unpack it and give"):
        read_table(write(tmp_path, "t.zip", bytes(data)))


def test_commas_inside_quoted_titles_separate_nothing(tmp_path):
    content = '"Name";"Weight, kg, dry, empty";"Power"\n"a";"1";"2"\n'
    columns = read_table(write(tmp_path, "t.csv", content)).columns
    assert columns == {"Name": ["a"], "Weight, kg, dry, empty": ["1"], "Power": ["2"]}


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("Name;Weight, kg\na;1\nb;2\n", {"Name": ["a", "b"], "Weight, kg": ["1", "2"]}),
        ("Name;Load, kg\na;1,5\nb;2\n", {"Name": ["a", "b"], "Load, kg": ["1,5", "2"]}),
        ("Name\tWeight; kg\na\t1\n", {"Name": ["a"], "Weight; kg": ["1"]}),
        ("Name|Weight; kg, dry\na|1\n", {"Name": ["a"], "Weight; kg, dry": ["1"]}),
        # What was right before stays: the header's commas are believed while the rows agree with them.
        ("Name,Notes; more\na,b; c\n", {"Name": ["a"], "Notes; more": ["b; c"]}),
        ("Name,a|b|c\nx,1|2|3\n", {"Name": ["x"], "a|b|c": ["1|2|3"]}),
        ("Name;a|b|c\nx;1|2|3\n", {"Name": ["x"], "a|b|c": ["1|2|3"]}),
        ("x\n1\n  \n2\n", {"x": ["1", "  ", "2"]}),
    ],
)
def test_the_separator_gives_every_row_as_many_cells(tmp_path, content, columns):
    assert read_table(write(tmp_path, "t.csv", content)).columns == columns


def test_a_time_that_python_lacks_is_one_line(tmp_path):
    times = pa.array([9 * 10**18], pa.timestamp("us"))
    pq.write_table(pa.table({"name": ["a"], "seen": times}), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="t.parquet: column 'seen' cannot be read .*; leave it out"):
        read_table(tmp_path / "t.parquet")


def test_a_damaged_xlsx_is_one_line(tmp_path):
    """Damage in the zip archive, and in the XML that it holds."""
    openpyxl = pytest.importorskip("openpyxl", reason="the optional reader of xlsx files is not installed")
    book = openpyxl.Workbook()
    book.active.append(["Name", "Weight"])
    book.save(tmp_path / "good.xlsx")
    good = (tmp_path / "good.xlsx").read_bytes()
    with zipfile.ZipFile(io.BytesIO(good)) as parts, zipfile.ZipFile(tmp_path / "cut.xlsx", "w") as cut:
        for name in parts.namelist():
            content = parts.read(name)
            cut.writestr(name, content[:190] if name == "xl/workbook.xml" else content)
    with pytest.raises(UserError, match="cut.xlsx: is not a readable xlsx file"):
        read_table(tmp_path / "cut.xlsx")
    for place in range(200, len(good) - 200, 97):
        damaged = bytearray(good)
        damaged[place] ^= 0xFF
        with contextlib.suppress(UserError):
            read_table(write(tmp_path, "bad.xlsx", bytes(damaged)))


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(UserError, match="no such file; give the path of a table"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="no such file"):
        read_table(tmp_path / "absent.parquet")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match="is a folder; give the path of a table file"):
        read_table(tmp_path / "folder.csv")


def test_column_numbers():
    cells = ["1", " -2.5 ", "1e3", "", "NA", "n/a", "NaN", "?", "-", None, 7, 2.5, np.float32(0.5)]
    values, observed, wrong, _ = column_numbers([*cells, Decimal("1.25"), float("nan"), "007", 10**17])
    assert not wrong
    assert values.dtype == np.float64
    assert values[observed].tolist() == [1, -2.5, 1000, 7, 2.5, 0.5, 1.25, 7, 1e17]
    assert observed.tolist() == [*[True] * 3, *[False] * 7, *[True] * 4, False, True, True]
    assert not values[~observed].any()


def test_a_true_zero_is_observed():
    values, observed, _, _ = column_numbers(["0", "", 0, None])
    assert values.tolist() == [0, 0, 0, 0]
    assert observed.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "cell",
    [None, math.nan, np.float32("nan"), np.float16("nan"), pd.NaT, pd.NA, Decimal("NaN"), Decimal("sNaN")]
    + [np.datetime64("NaT", "s"), np.timedelta64("NaT", "s")],
    ids=repr,
)
def test_a_missing_value_of_any_type_has_neither_name_nor_number(cell):
    values, observed, wrong, _ = column_numbers(["1", cell, 2])
    assert not wrong
    assert values.tolist() == [1, 0, 2]
    assert observed.tolist() == [True, False, True]
    assert column_names(["a", cell]) == ["a", ""]


def test_large_numbers_keep_their_order():
    values, *_ = column_numbers([str(2**24), str(2**24 + 1), str(2**53 - 1)])
    assert values.tolist() == [16777216.0, 16777217.0, 9007199254740991.0]


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("abc", "not a number"),
        ("inf", "not finite"),
        ("1,234", "thousands separators"),
        ("1_000", "thousands separators"),
        ("0x10", "a hexadecimal number"),
        ("12 kg", "a number with a unit"),
        ("2020-01-02", "a date"),
        ("1e400", "beyond the range of float64"),
        (float("inf"), "not finite"),
        (10**400, "not finite"),
        (True, "a bool"),
        (np.bool_(True), "a bool"),
        (date(2020, 1, 2), "a date"),
        ([1], "a list"),
    ],
)
def test_cells_that_are_no_numbers(cell, why):
    values, observed, wrong, _ = column_numbers(["1", cell, "2"])
    assert list(wrong) == [1]
    assert why in wrong[1]
    assert values.tolist() == [1, 0, 2]
    assert observed.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("nan", "nan"),
        (" outer ", " outer "),
        ("tab\tand\r\nline", "tab and line"),
        ("\ufeffmark", "mark"),
        ("   ", ""),
        ("\u00a0", ""),
        (None, ""),
        (float("nan"), ""),
        (12, "12"),
        (1.5, "1.5"),
        (1.0, "1"),
        (20231231.0, "20231231"),
        (1e16, "10000000000000000"),
        (-0.0, "0"),
        (np.float32(3), "3"),
        (np.float16(0.5), "0.5"),
        (math.inf, "inf"),
    ],
)
def test_column_names(cell, name):
    assert column_names(["before", cell, "after"]) == ["before", name, "after"]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["1.0", "", "20.0", "-3.0"], ["1", "", "20", "-3"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1.0", "1.5"], ["1.0", "1.5"]),
        (["1.0", "01.0"], ["1.0", "01.0"]),
        (["1.0", "v1.0"], ["1.0", "v1.0"]),
        (["0.0", "-0.0"], ["0.0", "-0.0"]),
    ],
)
def test_a_column_of_whole_decimals_names_integers(cells, names):
    assert column_names(cells) == names


def test_integers_name_the_same_entities_in_csv_and_in_parquet(tmp_path):
    """pandas makes a column of integers with one missing cell a column of floats."""
    frame = pd.DataFrame({"id": [20231231, None, 7], "x": [1, 2, 3]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.astype({"id": "Int64"}).to_csv(tmp_path / "t.csv", index=False)
    names = [column_names(read_table(tmp_path / file).columns["id"]) for file in ("t.parquet", "t.csv")]
    assert names[0] == names[1] == ["20231231", "", "7"]


def test_suggestion():
    assert suggestion("horsepwr", ["Weight", "Horsepower"]) == "did you mean 'Horsepower'?"
    assert suggestion("weight", ["Weight_in_lbs", "Horsepower"]) == "did you mean 'Weight_in_lbs'?"
    assert suggestion("zzz", ["a", "b"]) == suggestion("", ["", "a", "b"]) == "there is 'a', 'b'"
    assert suggestion("zzz", map(str, range(30))).endswith("'19' ...")


def test_a_wide_table_is_read_in_no_time(tmp_path):
    """Each of 40,000 titles was compared with all of them: half a minute and more."""
    titles = [f"gene {number}" for number in range(40_000)]
    path = write(tmp_path, "t.csv", ",".join(titles) + "\n" + ",".join("1" for _ in titles) + "\n")
    before = time.process_time()
    assert len(read_table(path).columns) == len(titles)
    assert time.process_time() - before < 5
