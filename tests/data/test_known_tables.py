"""Rows of a table to entities and fields; the specs of the known tables."""

from decimal import Decimal

import numpy as np
import pytest

from numcoke_jax.data.public.tables import known_table
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.known import TABLES, TableSpec, entity_table, table_spec
from numcoke_jax.system.errors import UserError

TWO_COLUMNS = TableSpec(
    name="two",
    files=(),
    source="",
    name_columns=("city", "state"),
    name_format="{}, {}",
    fields=("y", "x"),
    relations=("x",),
)


def entities_of(spec, columns):
    return entity_table(spec, TableFile("t.csv", columns))


def test_entities_are_sorted_by_name_and_fields_too():
    columns = {"city": ["b", "é", "B"], "state": ["Z", "Z", "Z"], "x": ["1", "", "3"], "y": ["4", "5", "6"]}
    table = entities_of(TWO_COLUMNS, columns)
    assert table.entities == ("B, Z", "b, Z", "é, Z")  # code points
    assert table.fields == ("x", "y")
    assert table.values.tolist() == [[3, 6], [1, 4], [0, 5]]
    assert table.observed.tolist() == [[True, True], [True, True], [False, True]]
    assert table.notices == ()


def test_braces_in_names_are_only_text():
    columns = {"city": ["{0}"], "state": ["{x}"], "x": ["1"], "y": ["1"]}
    assert entities_of(TWO_COLUMNS, columns).entities == ("{0}, {x}",)


def test_of_rows_with_one_name_the_kept_one_does_not_depend_on_their_order():
    rows = [("a", "S", "2", "1"), ("a", "S", "1", ""), ("a", "S", "1", "9"), ("a", "S", "", "0")]
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)):
        city, state, x, y = (list(column) for column in zip(*(rows[row] for row in order), strict=True))
        table = entities_of(TWO_COLUMNS, {"city": city, "state": state, "x": x, "y": y})
        assert table.values.tolist() == [[1, 9]]  # smallest x, then smallest y, a missing one last
        assert table.notices == ("two: 3 rows left out that repeat a name",)
    twice = entities_of(
        TWO_COLUMNS, {"city": ["a"] * 2, "state": ["S"] * 2, "x": ["1", "2"], "y": ["1", "2"]}
    )
    assert twice.notices == ("two: 1 row left out that repeats a name",)


@pytest.mark.parametrize(
    ("keep", "expected"),
    [({"keep_smallest": "rank"}, 7.0), ({"keep_largest": "rank"}, 5.0), ({"keep_largest": "absent"}, 5.0)],
)
def test_a_column_decides_which_row_is_kept(keep, expected):
    spec = TableSpec("t", (), "", ("n",), "{}", ("x",), ("x",), **keep)
    columns = {"n": ["a"] * 3, "rank": ["10", "9", ""], "x": ["5", "7", "6"]}
    for order in ((0, 1, 2), (2, 1, 0)):
        shuffled = {name: [cells[row] for row in order] for name, cells in columns.items()}
        assert entities_of(spec, shuffled).values.tolist() == [[expected]]


def test_rows_without_a_name_are_counted():
    columns = {"city": ["a", " ", "b"], "state": ["S", "", ""], "x": ["1", "2", "3"], "y": ["1", "2", "3"]}
    table = entities_of(TWO_COLUMNS, columns)
    assert table.entities == ("a, S", "b, ")
    assert table.notices == ("two: 1 row without a name left out",)
    with pytest.raises(UserError, match="no row has a name in 'city', 'state'"):
        entities_of(TWO_COLUMNS, {"city": [""], "state": [""], "x": ["1"], "y": ["1"]})


@pytest.mark.parametrize("cell", [str, int, Decimal])
def test_integers_that_float64_lacks_are_told(cell):
    """Two of them may become equal, and are then not compared."""
    large = [cell(2**53), cell(2**53 + 1), cell(-(2**60) - 1), cell(7)]
    table = TableFile("t", {"name": list("abcd"), "x": large, "y": ["1e300", 2.0**70, "", "9"]})
    spec = TableSpec("t", (), "", ("name",), "{}", ("x", "y"), ("x",))
    assert entity_table(spec, table).notices == ("t: column 'x': 2 integers beyond 2^53 rounded to float64",)


def test_wrong_columns_and_cells_are_named():
    columns = {"city": ["a", "b"], "State": ["S", "S"], "x": ["1", "tall"], "y": ["1", "2"]}
    with pytest.raises(
        UserError, match=r"column 'x' must hold plain numbers or empty cells, got 'tall' in data row 2"
    ):
        entities_of(TWO_COLUMNS, columns)
    columns["x"] = ["1", "2"]
    with pytest.raises(UserError, match="t.csv: no column 'state'; did you mean 'State'"):
        entities_of(TWO_COLUMNS, columns)


def test_cars():
    table = known_table("cars")
    assert len(table.entities) == 403  # 406 rows, 3 names twice
    assert table.notices == ("cars: 3 rows left out that repeat a name",)
    assert {name: int(n) for name, n in zip(table.fields, (~table.observed).sum(axis=0), strict=True)} == {
        "Acceleration": 0,
        "Cylinders": 0,
        "Displacement": 0,
        "Horsepower": 6,
        "Miles_per_Gallon": 8,
        "Weight_in_lbs": 0,
        "Year": 0,
    }
    row = table.entities.index("chevrolet chevelle malibu (1970)")
    assert table.values[row].tolist() == [12.0, 8.0, 307.0, 130.0, 18.0, 3504.0, 1970.0]
    assert not (table.values[table.observed] == 0).any()


def test_specs_are_consistent():
    for name, spec in TABLES.items():
        assert table_spec(name) is spec
        assert set(spec.relations) <= set(spec.fields)
        assert len(set(spec.fields)) == len(spec.fields)
        assert spec.name_format.count("{}") == len(spec.name_columns)
    with pytest.raises(UserError, match="data.table: no table 'us-cities'; did you mean 'us_cities'"):
        table_spec("us-cities")


@pytest.mark.parametrize("name", ["credit", "spotify", "us_cities"])
def test_names_fields_and_values_are_those_of_the_prepared_graphs(shared_dir, name):
    """Every literal of the prepared graphs is the cell of the entity with that name, duplicates included."""
    table = known_table(name, str(shared_dir / "data" / "raw"))
    rows = {entity: row for row, entity in enumerate(table.entities)}
    columns = {field: column for column, field in enumerate(table.fields)}
    for variant in (name, f"{name}_sparse"):
        folder = shared_dir / "data" / "kg" / variant
        literals = (folder / "literals" / "numerical_literals.txt").read_text(encoding="utf-8").splitlines()
        fields = set()
        for line in literals:
            entity, field, value = line.split("\t")
            fields.add(field)
            assert table.observed[rows[entity], columns[field]]
            assert table.values[rows[entity], columns[field]] == float(value), (entity, field)
        assert fields == set(table.fields)
        facts = (folder / "train.txt").read_text(encoding="utf-8").splitlines()
        relations = {line.split("\t")[1] for line in facts}
        assert relations == {f"{field}_comp" for field in TABLES[name].relations}


def test_shuffled_rows_give_the_same_table(shared_dir, tmp_path):
    """35 rows of the Spotify table repeat a name with other values: the same ones are kept in any order."""
    straight = known_table("spotify", str(shared_dir / "data" / "raw"))
    lines = (shared_dir / "data" / "raw" / "spotify.csv").read_text(encoding="utf-8").splitlines()
    mixed = [lines[0], *np.random.default_rng(0).permutation(lines[1:])]
    (tmp_path / "spotify.csv").write_text("\n".join(mixed), encoding="utf-8")
    shuffled = known_table("spotify", str(tmp_path))
    assert shuffled.entities == straight.entities
    np.testing.assert_array_equal(shuffled.values, straight.values)
    without_numbers = "\n".join(line.split(",", 1)[1] for line in mixed)  # as saved without its index
    (tmp_path / "spotify.csv").write_text(without_numbers, encoding="utf-8")
    assert known_table("spotify", str(tmp_path)).entities == straight.entities


def test_carriage_returns_alone_end_lines(shared_dir):
    odd = known_table("credit", str(shared_dir / "data" / "odd" / "credit_cr_only"))
    raw = known_table("credit", str(shared_dir / "data" / "raw"))
    assert odd.entities == raw.entities
    assert len(odd.entities) == 30_000
    np.testing.assert_array_equal(odd.values, raw.values)
