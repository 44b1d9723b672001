"""The command that turns a table into a folder: bytes, options, and one line for every mistake."""

import dataclasses
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from numcoke_jax.api import NumericKG
from numcoke_jax.cli.build import build, chosen_settings
from numcoke_jax.cli.columns import split_names
from numcoke_jax.cli.main import main
from numcoke_jax.cli.parser import parse
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.graph import graph_hash
from numcoke_jax.data.public.tables import packaged_cars
from numcoke_jax.data.tables.cells import TableFile
from numcoke_jax.data.tables.comparisons import ComparisonSettings
from numcoke_jax.data.tables.own import numeric_columns
from numcoke_jax.system.errors import UserError

HEADER = "Name,Weight,Power,Colour\n"
ROWS = [f"car {number:02d},{1000 + 7 * (number % 13)},{number % 5 or ''},red\n" for number in range(30)]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text(HEADER + "".join(ROWS))
    return path


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(*options):
    return main(["data", "build", *map(str, options)])


def test_a_flag_is_given_once_and_those_of_training_are_named() -> None:
    """The last of two files would be read alone."""
    words = ["data", "build", "--table=a.csv", "--table", "b.csv", "--out=g"]
    with pytest.raises(
        UserError, match=r"^--table is given twice: a.csv and b.csv; it takes one file: put all into one$"
    ):
        parse(words)
    assert parse([*words[:3], "--table=a.csv", "--out=g"]).table == "a.csv"
    said = "^--patience=3 is not a flag of numcoke data build; numcoke train has --train.patience"
    with pytest.raises(UserError, match=said):
        parse(["data", "build", "--table=cars", "--patience=3", "--out=g"])


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (";2", "leave none for training; compare more values; Power: no two values differ in its group, so"),
        (";2", "so it has no relation; t.csv: fields Power; column 'Weight' left out"),
        (";red", "as facts (numcoke data build --facts, NumericKG.from_facts); column 'Weight' left out"),
    ],
)
def test_an_error_says_which_columns_were_left_out(rest, said, tmp_path, capsys):
    """A table with decimal commas: what is left of it compares nothing."""
    rows = "".join(f"car {row};{row},5{rest}\n" for row in range(9))
    (tmp_path / "t.csv").write_text(f"Name;Weight;Power\n{rows}")
    assert run(f"--table={tmp_path / 't.csv'}", "--name=Name", f"--out={tmp_path / 'out'}") == 2
    line = capsys.readouterr().err
    assert said in line and "'0,5' in data row 1 (a decimal comma)" in line and line.count("\n") == 1


def test_the_folder_holds_what_the_table_says(table, tmp_path, capsys):
    out = tmp_path / "new" / "graph"
    options = ("--name=Name", "--relations=Weight", f"--out={out}", "--missing-rate=0", "--groups=common")
    assert run(f"--table={table}", "--group-size=0", "--split=0.5,0.25,0.25", *options) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert f"written: {out}" in captured.out
    assert "cars.csv: fields Weight, Power" in captured.out
    weights = {row.split(",")[0]: float(row.split(",")[1]) for row in ROWS}
    expected = {
        (head, "Weight_comp", tail) for head in weights for tail in weights if weights[head] > weights[tail]
    }
    facts = [
        tuple(line.split("\t"))
        for split in ("train", "valid", "test")
        for line in (out / f"{split}.txt").read_text().splitlines()
    ]
    assert len(facts) == len(expected)
    assert set(facts) == expected
    graph, _ = read_folder(out)
    assert graph.vocabulary.fields == ("Power", "Weight")
    assert graph.observed[:, 1].all()
    assert (~graph.observed[:, 0]).sum() == 6  # Power is empty for car 00, 05, 10, 15, 20, 25
    train = {tuple(line.split("\t")) for line in (out / "train.txt").read_text().splitlines()}
    for line in (out / "neg.txt").read_text().splitlines():
        head, relation, tail = line.split("\t")
        assert (tail, relation, head) in train


def test_same_seed_same_bytes_whatever_the_order_of_rows(table, tmp_path):
    options = (f"--table={table}", "--name=Name", "--group-size=20")
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        assert run(*options, f"--seed={seed}", f"--out={tmp_path / name}") == 0
    table.write_text("\ufeff" + HEADER + "".join(ROWS[::-1]))
    assert run(*options, "--seed=3", f"--out={tmp_path / 'reversed'}") == 0
    one = bytes_of(tmp_path / "one")
    assert set(one) == {"train.txt", "valid.txt", "test.txt", "neg.txt", "literals/numerical_literals.txt"}
    assert one == bytes_of(tmp_path / "two")
    assert one == bytes_of(tmp_path / "reversed")
    three = bytes_of(tmp_path / "three")
    assert all(one[name] != three[name] for name in one)


def test_file_kinds_write_the_same_bytes(table, tmp_path):
    (tmp_path / "cars.tsv").write_text((HEADER + "".join(ROWS)).replace(",", "\t"))
    cells = [row.strip().split(",") for row in ROWS]
    columns = {
        "Name": [row[0] for row in cells],
        "Weight": [int(row[1]) for row in cells],
        "Power": [float(row[2]) if row[2] else None for row in cells],
        "Colour": [row[3] for row in cells],
    }
    pq.write_table(pa.table(columns), tmp_path / "cars.parquet")
    for kind in ("csv", "tsv", "parquet"):
        assert run(f"--table={tmp_path / f'cars.{kind}'}", "--name=Name", f"--out={tmp_path / kind}") == 0
    assert bytes_of(tmp_path / "csv") == bytes_of(tmp_path / "tsv") == bytes_of(tmp_path / "parquet")


def test_written_folder_trains_like_the_built_graph(tmp_path):
    """A round trip through text changes no array of the graph."""
    assert run("--table=cars", f"--out={tmp_path / 'cars'}", "--seed=2") == 0
    graph, report = read_folder(tmp_path / "cars")
    assert report.errors == []
    from numcoke_jax.config.schema import default_config
    from numcoke_jax.data.load import load_graph

    config = default_config().data
    config.seed = 2
    built = load_graph(config).graph
    assert graph.vocabulary == built.vocabulary
    for name in ("train", "valid", "test", "negatives", "values", "observed"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(built, name), err_msg=name)


def test_known_table_with_other_relations(tmp_path):
    options = ("--table=cars", "--relations=Year,Cylinders", "--protocol=nearest", "--neighbours=2")
    assert run(*options, f"--out={tmp_path / 'g'}", "--split=1,0,0", "--direction=<") == 0
    graph, _ = read_folder(tmp_path / "g")
    assert graph.vocabulary.relations == ("Cylinders_comp", "Year_comp")
    tails_a_pair = np.unique(graph.train[:, :2], axis=0, return_counts=True)[1]
    assert tails_a_pair.max() == 2


def test_names_of_several_columns(tmp_path):
    path = tmp_path / "cities.csv"
    path.write_text("city,state,x\nParis,TX,1\nParis,FR,2\nRome,IT,3\n")
    assert run(f"--table={path}", "--name=city,state", f"--out={tmp_path / 'g'}", "--split=1,0,0") == 0
    assert read_folder(tmp_path / "g")[0].vocabulary.entities == ("Paris, FR", "Paris, TX", "Rome, IT")


def test_a_column_with_a_comma_in_its_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('n,"size, cm"\na,1\nb,2\n')
    options = ("--name=n", "--relations=size, cm", "--split=1,0,0", "--missing-rate=0")
    assert run(f"--table={path}", *options, f"--out={tmp_path / 'g'}") == 0
    assert read_folder(tmp_path / "g")[0].vocabulary.relations == ("size, cm_comp",)


def test_chosen_fields_are_stored_beside_the_compared_ones(table, tmp_path):
    options = (f"--table={table}", "--name=Name", "--missing-rate=0", "--split=1,0,0")
    assert run(*options, "--relations=Weight", "--fields=Weight", f"--out={tmp_path / 'one'}") == 0
    assert read_folder(tmp_path / "one")[0].vocabulary.fields == ("Weight",)
    assert run(*options, "--relations=Weight", "--fields=Power", f"--out={tmp_path / 'two'}") == 0
    assert read_folder(tmp_path / "two")[0].vocabulary.fields == ("Power", "Weight")


def test_columns_of_numbers_and_near_misses():
    columns = {"": ["1", "2"], "x": ["1", ""], "empty": ["", "NA"], "text": ["a", "b"], "bad": ["1", "1,5"]}
    columns |= {"commas": ["", "2,5"], "units": ["5 kg", "1,000"], "streets": ["5 Elm Road", "Elm Road"]}
    columns |= {"prices": ["$9", "$1,200"], "weights": ["1,200 kg", ""]}
    found, notices = numeric_columns(TableFile("t.csv", {**columns, "n": ["7", "8"]}), ("n",))
    assert found == ("x",)
    unit, read, plain = "a number with a unit", "parse=numbers reads them", "write plain numbers, as 1065.5"
    assert notices == [
        f"column 'bad' left out: not only numbers, '1,5' in data row 2 (a decimal comma); {read}",
        f"column 'commas' left out: not only numbers, '2,5' in data row 2 (a decimal comma); {read}",
        f"column 'units' left out: not only numbers, '5 kg' in data row 1 ({unit}) and 1 more; {plain}",
        f"column 'prices' left out: not only numbers, '$9' in data row 1 ({unit}) and 1 more; {read}",
        f"column 'weights' left out: not only numbers, '1,200 kg' in data row 1 ({unit}); {plain}",
        "left out, without any number: 'empty', 'text', 'streets'",
    ]


def test_columns_of_dates_share_a_notice_and_so_do_those_of_text():
    columns = {"n": ["a"], "x": ["1"], "day": ["2024-01-01"], **{f"text{i}": ["Trueish"] for i in range(9)}}
    found, (dates, notice) = numeric_columns(TableFile("t.csv", {**columns, "flag": ["True"]}), ("n",))
    assert found == ("x", "flag")
    assert dates == "left out, with dates: 'day'; dates=year or dates=days makes them numbers"
    texts = ", ".join(f"'text{i}'" for i in range(8))
    assert notice == f"left out, without any number: {texts} and 1 more"


@pytest.mark.parametrize("title", ["__index_level_0__", "Unnamed: 0", "Unnamed: 0.1"])
def test_an_index_that_pandas_saved_is_no_field(title):
    columns = {title: ["0", "1"], "n": ["a", "b"], "x": ["1", "2"], "Unnamed: 02": ["7", "8"]}
    file = TableFile("t.csv", columns)
    found, notices = numeric_columns(file, ("n",))
    assert found == ("x", "Unnamed: 02")
    what = "an index that pandas saved; ask for it by name if it is a field"
    assert notices == [f"column {title!r} left out: {what}"]
    assert numeric_columns(file, ("n", title))[1] == []


def test_a_table_of_pandas_with_its_index_makes_no_relation_of_it(tmp_path):
    frame = pd.DataFrame({"n": ["a", "b", "c"], "x": [1, 2, 3]}, index=[4, 9, 2])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "once.csv")
    pd.read_csv(tmp_path / "once.csv").to_csv(tmp_path / "twice.csv")
    options = ("--name=n", "--split=1,0,0", "--missing-rate=0")
    for name in ("t.parquet", "once.csv", "twice.csv"):
        assert run(f"--table={tmp_path / name}", *options, f"--out={tmp_path / f'from {name}'}") == 0
        assert read_folder(tmp_path / f"from {name}")[0].vocabulary.fields == ("x",)
    asked = (f"--table={tmp_path / 'twice.csv'}", "--fields=Unnamed: 0", f"--out={tmp_path / 'asked'}")
    assert run(*asked, *options) == 0
    assert read_folder(tmp_path / "asked")[0].vocabulary.relations == ("Unnamed: 0_comp",)


def test_a_split_without_facts_is_told(table, tmp_path, capsys):
    command = [f"--table={table}", "--name=Name", "--split=1,0,0"]
    assert main(["data", "build", *command, f"--out={tmp_path / 'g'}"]) == 0
    said = capsys.readouterr().out
    assert "valid.txt holds no facts: early stopping has nothing to go by\n" in said
    assert "test.txt holds no facts: nothing to rank\n" in said


def test_split_names():
    assert split_names("--fields", "b, a,b", ("a", "b")) == ("b", "a")
    with pytest.raises(UserError, match="--fields: no column 'bb'; did you mean 'b'"):
        split_names("--fields", "a,bb", ("a", "b"))
    with pytest.raises(UserError, match="--fields: no column ''"):
        split_names("--fields", "a,", ("", "a"))


def test_an_existing_path_is_never_touched(table, tmp_path, capsys):
    folder, file, link = tmp_path / "folder", tmp_path / "file", tmp_path / "link"
    folder.mkdir()
    file.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    for out in (folder, file, link):
        assert run(f"--table={table}", "--name=Name", f"--out={out}") == 2
        assert f"--out: {out} exists already; give another folder" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    assert file.read_text() == "mine"


MISTAKES = [
    (["--out=OUT"], "missing: --table"),
    (["TABLE", "--name=Name", "--out=OUT"], "is not a flag of numcoke data build; did you mean --table=/"),
    (["--table=TABLE", "--name=Name"], "missing: --out"),
    (
        ["--table=TABLE", "--out=OUT"],
        "--name: give the column that names an entity, or --name=index for the number of",
    ),
    (["--table=TABLE", "--name=name", "--out=OUT"], "--name: no column 'name'; did you mean 'Name'?"),
    (["--table=TABLE", "--name=Name", "--relations=Wieght", "--out=OUT"], "did you mean 'Weight'?"),
    (
        ["--table=TABLE", "--name=Name", "--fields=Powr", "--out=OUT"],
        "--fields: no column 'Powr'; did you mean",
    ),
    (
        ["--table=TABLE", "--name=Name", "--relations=Colour", "--out=OUT"],
        "'red' in data row 1 (not a number)",
    ),
    (["--table=TABLE", "--name=Colour", "--out=OUT"], "names 1 thing in 30 rows, such as 'red' in several"),
    (["--table=TABLE", "--name=Colour", "--out=OUT"], "unique are 'Name'; or name=\"index\", the number of"),
    (["--table=absent.csv", "--name=n", "--out=OUT"], "absent.csv: no such file"),
    (["--table=car", "--out=OUT"], "--table: no file and no known table 'car'; did you mean 'cars'?"),
    (["--table=cars", "--name=Name", "--out=OUT"], "table cars has its own; leave them out"),
    (["--table=cars", "--relations=Horsepowr", "--out=OUT"], "did you mean 'Horsepower'?"),
    (["--table=cars", "--oot=OUT"], "is not a flag of numcoke data build; did you mean --out?"),
    (["--table=cars", "--out=OUT", "extra"], "extra is not a flag"),
    (["--table=cars", "--out=OUT", "--protocol=full"], "--protocol: invalid choice: 'full'"),
    (
        ["--table=cars", "--out=OUT", "--neighbours=3"],
        "--neighbours=3 has no effect with --protocol=complete",
    ),
    (["--table=cars", "--out=OUT", "--seed=x"], "--seed: invalid int value: 'x'"),
    (["--table=cars", "--out=OUT", "--seed=-1"], "seed: must be at least 0, got -1"),
    (["--table=cars", "--out=OUT", "--split=half"], "--split: must be 3 numbers such as 0.8,0.1,0.1"),
    (["--table=cars", "--out=OUT", "--split=0.5,0.5"], "--split: must be 3 numbers such as"),
    (["--table=cars", "--out=OUT", "--split=0,0.5,0.5"], "--split: must be 3 numbers such as"),
    (["--table=cars", "--out=OUT", "--split=0.5,0.5,nan"], "--split: must be 3 numbers such as"),
    (["--table=cars", "--out=OUT", "--split=0.5,0.5,0.5"], "--split: must sum to 1, got '0.5"),
    (["--table=cars", "--out=OUT", "--missing-rate=2"], "missing_rate: must be in [0, 1], got 2.0"),
    (
        ["--table=cars", "--out=OUT", "--group-size=1"],
        "group_size: one entity has no other to be compared with",
    ),
    (["--table=TABLE", "--name=Name", "--dir=.", "--out=OUT"], "--dir: only known tables are looked for"),
    (["--table=credit", "--dir=/no/such", "--out=OUT"], "data.dir: '/no/such' is not a folder"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_mistakes_end_in_one_line_and_write_nothing(table, tmp_path, capsys, options, message):
    out = tmp_path / "out"
    filled = [option.replace("TABLE", str(table)).replace("OUT", str(out)) for option in options]
    assert main(["data", "build", *filled]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cars.csv"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("--table=cars", f"--out={tmp_path / 'file' / 'graph'}") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_help_names_every_option_and_default(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["data", "build", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in (
        "--table",
        "--name",
        "--relations",
        "--fields",
        "--out",
        "--protocol",
        "--neighbours",
        "--groups",
    ):
        assert option in text
    for word in (
        "cars, spotify, credit, us_cities",
        "(default: 10)",
        "60 for known tables, else 0",
        "examples:",
        "Exit code 0",
    ):
        assert word in text


def test_a_known_table_has_the_defaults_of_the_config():
    from numcoke_jax.config.schema import default_config

    data = default_config().data
    settings = chosen_settings(parse(["data", "build", "--table=cars", "--out=x"]))
    for field in dataclasses.fields(ComparisonSettings):
        assert getattr(settings, field.name) == data[field.name], field.name


def test_a_table_of_ones_own_is_compared_whole_as_from_python(table, tmp_path, capsys):
    """The benchmark's groups of 60 a relation would leave most of a larger table out, its mask a fifth."""
    path = tmp_path / "t.csv"
    different = {name: [step * row % 307 for row in range(200)] for name, step in (("x", 7), ("y", 21))}
    frame = pd.DataFrame({"n": [f"e{row:03d}" for row in range(200)], **different})
    frame.to_csv(path, index=False)
    assert run(f"--table={path}", "--name=n", f"--out={tmp_path / 'g'}") == 0
    said = capsys.readouterr().out
    assert "table t.csv (200 of 200 entities, 0 of 400 values masked, relations x_comp, y_comp)" in said
    graph, _ = read_folder(tmp_path / "g")
    assert len(graph.valid) == len(graph.test) == 2 * (200 * 199 // 2) // 10 == len(graph.train) // 8
    assert graph_hash(graph) == graph_hash(NumericKG.from_table(frame, name="n").graph)
    given = ("--groups=relation", "--group-size=60", "--split=0.1,0.1,0.8", "--missing-rate=0.2")
    assert run(f"--table={path}", "--name=n", *given, f"--out={tmp_path / 'benchmark'}") == 0
    counts = re.search(r"\((\d+) of 200 entities, (\d+) of (\d+) values masked", capsys.readouterr().out)
    assert counts
    kept, masked, values = map(int, counts.groups())
    graph, _ = read_folder(tmp_path / "benchmark")
    assert 60 < kept == graph.num_entities <= 120
    assert values == 2 * kept and masked == (~graph.observed).sum() == round(values / 5)


def test_a_table_that_is_too_large_to_compare_whole_is_told_what_fits(tmp_path, capsys):
    """5,000 x 4,999 / 2 comparisons by each of two relations; 4,472 x 4,471 / 2 are less than 10 million."""
    path = tmp_path / "t.csv"
    path.write_text("n,x,y\n" + "".join(f"e{row},{row},{-row}\n" for row in range(5000)))
    assert run(f"--table={path}", "--name=n", f"--out={tmp_path / 'g'}") == 2
    assert (
        "protocol: complete makes up to 24,995,000 comparisons of 5,000 entities by 2 relations, more than "
        "20,000,000; give protocol=nearest (each with its 10 nearest values only), entities=4472 or "
        "group_size=4472, or fewer relations (as flags of data.build: --protocol=nearest, --entities=4472, "
        "--group-size=4472); t.csv: fields x, y"
    ) in capsys.readouterr().err
    assert run(f"--table={path}", "--name=n", "--protocol=nearest", f"--out={tmp_path / 'g'}") == 0
    assert "(5,000 of 5,000 entities, 0 of 10,000 values masked" in capsys.readouterr().out


def test_notices_are_returned(tmp_path):
    notices = build(parse(["data", "build", "--table=cars", f"--out={tmp_path / 'g'}", "--seed=5"]))
    assert notices[0].endswith("5 negatives per pair, seed 5")
    assert len(packaged_cars().columns["Name"]) == 406


@pytest.mark.parametrize("entities", [0, 50, 403, 1000])
def test_the_line_of_counts_says_how_many_entities_are_kept(tmp_path, entities):
    """The 406 rows of the cars table have 403 different names with years."""
    options = parse(["data", "build", "--table=cars", f"--out={tmp_path / 'g'}", f"--entities={entities}"])
    line = build(options)[0]
    graph, _ = read_folder(tmp_path / "g")
    assert f"({graph.num_entities} of 403 entities, " in line
    assert 50 <= graph.num_entities <= (50 if entities == 50 else 300)  # five groups of 60
    assert ("at most 50 entities" in line) == (entities == 50)


def test_as_a_command_in_an_ascii_locale(tmp_path):
    """Names in any script pass through a terminal that knows ASCII only."""
    path = tmp_path / "städte.csv"
    path.write_text("näme,größe\nä,1\nö,2\nü,3\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "numcoke_jax.data.build", f"--table={path}", f"--out={tmp_path / 'g'}"]
    words = [*command, "--name=näme", "--split=1,0,0"]
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"gr\\xf6\\xdfe_comp" in done.stdout
    assert read_folder(tmp_path / "g")[0].vocabulary.relations == ("größe_comp",)
    failed = subprocess.run([*command, "--name=name"], capture_output=True, env=environment, check=False)
    assert failed.returncode == 2
    assert failed.stderr.count(b"\n") == 1
