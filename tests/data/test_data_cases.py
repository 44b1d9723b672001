"""Every case folder about files, names, literals and splits does what its expect.md says."""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import read_folder, write_folder
from numcoke_jax.data.files.lines import DataError
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.literals import fit_normalizer
from numcoke_jax.runs.loop import train_and_evaluate
from numcoke_jax.runs.screen import Screen
from tests.tiny_runs import compiled_fast, config_of, flags_of, run_program

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
BASE_ENTITIES = ("kiln", "lamp", "mast", "nail", "oven", "pump", "quay", "rope")


def value(graph: NumericGraph, entity: str, field: str) -> float | None:
    """The literal of a cell, None where it is missing."""
    cell = graph.vocabulary.entities.index(entity), graph.vocabulary.fields.index(field)
    return float(graph.values[cell]) if graph.observed[cell] else None


def scaled(graph: NumericGraph, field: str) -> list[float]:
    """Min-max scaled values of the observed cells of a field, as float32, in entity order."""
    column = graph.vocabulary.fields.index(field)
    normalizer = fit_normalizer(graph.values, graph.observed, "minmax")
    result = normalizer.apply(graph.values, graph.observed).astype(np.float32)
    return result[graph.observed[:, column], column].tolist()


def counts(graph: NumericGraph) -> tuple[int, int, int]:
    return len(graph.train), len(graph.valid), len(graph.test)


def read_case(cases_dir: Path, name: str) -> tuple[NumericGraph, GraphReport]:
    return read_folder(cases_dir / name)


def refusal(cases_dir: Path, name: str) -> str:
    with pytest.raises(DataError) as raised:
        read_folder(cases_dir / name)
    return str(raised.value)


def test_a01_words_for_missing_values_are_names(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "A01_na_labels")
    assert set(graph.vocabulary.entities) == {"nan", "NA", "null", "None", "inf", "1", "01", "1.0"}
    assert counts(graph) == (7, 1, 1)
    assert value(graph, "nan", "mass") == 5


def test_a02_quotes_are_part_of_names_in_every_file(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "A02_quotes_literal")
    assert graph.vocabulary.entities == ('"Bo"', 'Ann_"Ace"_Lee', "O'Hara", "lamp")
    assert report.unknown_literal_entities == ('"Ann_""Ace""_Lee"',)
    notices = "\n".join(report.notices())
    assert 'literals: 1 row ignored, of 1 entity ("Ann_""Ace""_Lee") that no fact mentions' in notices
    assert "would be known but for quotes" in notices


def test_a04_byte_order_marks_are_no_part_of_names(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "A04_bom")
    assert graph.vocabulary.entities == BASE_ENTITIES
    assert value(graph, "kiln", "mass") == 900
    assert not any("\ufeff" in name for names in vars(graph.vocabulary).values() for name in names)


def test_a06_names_may_hold_spaces(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "A06_names_with_spaces")
    assert len(graph.vocabulary.entities) == 8
    assert "old kiln" in graph.vocabulary.entities
    assert "old" not in graph.vocabulary.entities
    assert graph.vocabulary.relations == ("is heavier than", "near")


def test_a07_a_file_separated_by_spaces_is_refused(cases_dir: Path) -> None:
    message = refusal(cases_dir, "A07_space_separated")
    assert "train.txt:1: expected 3 tab-separated fields, found 1" in message
    assert "separated by spaces" in message


def test_a09_unicode_names_survive_the_c_locale(cases_dir: Path, tmp_path: Path) -> None:
    case = cases_dir / "A09_unicode_c_locale"
    graph, report = read_folder(case)
    assert counts(graph) == (6, 1, 1)
    assert len({name for row in graph.train for name in (row[0], row[2])}) == 7
    assert {"two\u2028lines", "nel\x85name", "Găgă", "🧪"} < set(graph.vocabulary.entities)
    assert report.look_alikes == (("nai\u0308ve", "naïve"),)
    assert "'nai\\u0308ve' (unseen in training) / 'na\\xefve'" in "\n".join(report.notices())

    environment = os.environ | C_LOCALE
    program = (
        "import sys; from numcoke_jax.data.files.folder import read_folder, write_folder; "
        "from numcoke_jax.cli.main import main; "
        "write_folder(read_folder(sys.argv[1])[0], sys.argv[2]); "
        "sys.exit(main(['data', 'check', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", program, str(case), str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"nai\\u0308ve" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert read_folder(tmp_path / "out")[0].vocabulary == graph.vocabulary


@pytest.mark.slow
def test_a09_such_names_train_and_evaluate_in_the_c_locale(cases_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Ünïcode 二"
    shutil.copytree(cases_dir / "A09_unicode_c_locale", folder)
    flags = flags_of(config_of(folder, train__epochs=1), tmp_path / "run")
    for mode in ("train", "eval"):
        done = run_program([*flags, f"--mode={mode}"], tmp_path / "cache", **C_LOCALE)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.isascii()
        assert "look-alike names" in done.stdout and "nai\\u0308ve" in done.stdout
    stored = json.loads((tmp_path / "run" / "vocabulary.json").read_text(encoding="utf-8"))
    assert tuple(stored["entities"]) == read_folder(folder)[0].vocabulary.entities


def test_a11_every_short_and_long_line_is_listed_and_blank_ones_are_not(cases_dir: Path) -> None:
    message = refusal(cases_dir, "A11_short_long_blank")
    assert "train.txt:3: expected 3 tab-separated fields, found 2" in message
    assert "train.txt:5: expected 3 tab-separated fields, found 4" in message
    assert message.count("expected 3") == 2
    assert "valid.txt" not in message


def test_a11_trailing_blank_lines_are_no_rows(cases_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mended"
    shutil.copytree(cases_dir / "A11_short_long_blank", folder)
    lines = (folder / "train.txt").read_text().split("\n")
    (folder / "train.txt").write_text("\n".join(line for line in lines if line.count("\t") in (0, 2)))
    graph, _ = read_folder(folder)
    assert counts(graph) == (8, 2, 2)


def test_a12_header_rows_are_skipped_with_a_notice(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "A12_header_row")
    assert graph.vocabulary.entities == BASE_ENTITIES
    assert graph.vocabulary.relations == ("heavier_than", "near")
    assert graph.vocabulary.fields == ("age", "mass")
    assert counts(graph) == (10, 2, 2)
    assert set(report.overlaps.values()) == {0}
    notices = "\n".join(report.notices())
    for name in ("train.txt", "valid.txt", "test.txt", "neg.txt", "literals/numerical_literals.txt"):
        assert name in notices


def test_a13_missing_parts_are_said_in_one_line_each(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "A13_missing_parts")
    assert counts(graph) == (10, 0, 2)
    assert ("rope", "near", "nail") in [
        (graph.vocabulary.entities[h], graph.vocabulary.relations[r], graph.vocabulary.entities[t])
        for h, r, t in graph.train
    ]  # the last row, without a line end
    assert report.notices() == [
        "no neg.txt: no negatives are given",
        "valid.txt holds no facts: early stopping has nothing to go by",
        "no literals/numerical_literals.txt: the graph has no numeric fields",
    ]


def test_a13_missing_parts_train(cases_dir: Path, tmp_path: Path) -> None:
    config = config_of(cases_dir / "A13_missing_parts", train__epochs=2, train__patience=1)
    screen = io.StringIO()
    with compiled_fast():
        report = train_and_evaluate(config, tmp_path / "run", Screen(screen))
    shown = screen.getvalue()
    for line in (
        "notice: no neg.txt: no negatives are given",
        "notice: valid.txt holds no facts: early stopping has nothing to go by",
        "notice: no literals/numerical_literals.txt: the graph has no numeric fields",
    ):
        assert shown.count(line) == 1
    assert "10 train, 0 valid, 2 test" in shown
    assert report["test"]["count"] == 2 and 0.0 < (report["test"]["mrr"] or 0.0) <= 1.0
    assert (report["valid"]["count"], report["valid"]["mrr"]) == (0, None)
    assert report["best_epoch"] == 2  # not stopped by a metric that does not exist


def test_b01_unseen_entities_are_counted_as_entities_and_as_facts(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "B01_unseen_entities")
    assert report.unseen_entities == ("tank", "urn")
    assert report.unseen_facts == {"valid": 1, "test": 2}
    expected = "unseen in training: 2 entities (tank; urn) in 3 facts (1 valid, 2 test); entities are ranked"
    assert report.warnings()[0].startswith(expected)
    assert counts(graph) == (10, 2, 3)


def test_b03_ids_depend_on_neither_row_order_nor_hash_seed(cases_dir: Path, tmp_path: Path) -> None:
    case = cases_dir / "B03_stable_ids"
    shuffled = tmp_path / "shuffled"
    shutil.copytree(case, shuffled)
    (shuffled / "train_shuffled.txt").rename(shuffled / "train.txt")
    program = (
        "import sys; from numcoke_jax.data.files.folder import read_folder\n"
        "for folder in sys.argv[1:]:\n"
        "    graph, _ = read_folder(folder)\n"
        "    print(graph.vocabulary, [getattr(graph, name).tobytes().hex() for name in "
        "('train', 'valid', 'test', 'negatives', 'values', 'observed')])\n"
    )
    outputs = set()
    for seed in ("0", "1", "2"):
        command = [sys.executable, "-c", program, str(case), str(shuffled)]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        lines = subprocess.run(command, env=environment, capture_output=True, check=True).stdout.splitlines()
        assert len(lines) == 2
        outputs.update(lines)
    assert len(outputs) == 1
    graph, _ = read_folder(case)
    near = graph.vocabulary.relations.index("near")
    assert set(graph.valid[:, 1].tolist()) == {near}
    assert near in graph.train[:, 1]


def test_b04_entities_of_literals_alone_are_ignored_and_named(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "B04_literal_only_entity")
    assert graph.vocabulary.entities == BASE_ENTITIES
    assert report.unknown_literal_entities == ("ghost",)
    assert report.entities_without_literals == ("rope",)
    assert report.warnings() == [
        "literals: 1 row ignored, of 1 entity (ghost) that no fact mentions",
        "literals: 1 entity (rope) without any value",
    ]


def test_b05_case_matters_and_no_field_name_changes_a_value(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "B05_case_and_id_substring")
    assert graph.vocabulary.entities == ("Kiln", "kiln", "lamp")
    cells: dict[tuple[str, str], float | None]
    cells = {("Kiln", "width"): 12.5, ("Kiln", "humidity"): 40, ("Kiln", "residents"): 7}
    cells |= {("kiln", "width"): 3, ("Kiln", "id"): 991, ("kiln", "id"): None}
    assert {cell: value(graph, *cell) for cell in cells} == cells


def test_c01_values_that_are_not_finite_are_listed_by_line(cases_dir: Path) -> None:
    message = refusal(cases_dir, "C01_nonfinite_values")
    for line, text in ((2, "nan"), (3, "inf"), (4, "-INF"), (5, "Infinity"), (6, "1e400")):
        assert f"literals/numerical_literals.txt:{line}:{text}: " in message
    assert message.count("literals/numerical_literals.txt:") == 5
    graph, report = read_folder(cases_dir / "C01_nonfinite_values", bad_values="missing")
    assert report.literals_bad == 5
    assert [value(graph, entity, "mass") for entity in ("kiln", "lamp", "rope", "mast")] == [900, 2, 5, None]


def test_c03_values_beyond_float32_keep_their_order(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "C03_huge_values_float32")
    assert scaled(graph, "serial") == [0, 0.5, 1]
    assert scaled(graph, "epoch") == [0, 0.5, 1]
    assert scaled(graph, "star") == [0, 1]
    assert scaled(graph, "over") == [0, 1]


def test_c04_what_is_no_plain_number_is_listed_or_converted_exactly(cases_dir: Path) -> None:
    message = refusal(cases_dir, "C04_dates_units_typed")
    for line, text in (
        (1, "1960-01-01: a date"),
        (2, "1967-8-9: a date"),
        (3, "-999-1-1: a date"),
        (4, '"1960-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>: a date'),
        (6, "12 kg: a number with a unit"),
    ):
        assert f"literals/numerical_literals.txt:{line}:{text}" in message
    assert "4 are dates: --data.dates=year" in message
    assert message.count("literals/numerical_literals.txt:") == 5  # line 5 is the decimal 0.702, exactly
    graph, _ = read_folder(cases_dir / "C04_dates_units_typed", bad_values="missing")
    assert value(graph, "oven", "mass") == 0.702
    assert value(graph, "quay", "built") == 1955.0312


def test_c07_a_missing_value_is_not_a_zero(cases_dir: Path) -> None:
    graph, _ = read_case(cases_dir, "C07_missing_vs_zero")
    assert scaled(graph, "year") == [0, 0.5, 1]
    assert scaled(graph, "balance") == [0, 0.5, 1]
    assert value(graph, "lamp", "balance") == 0
    assert value(graph, "nail", "balance") is None


def test_e06_repeats_and_overlaps_are_reported_and_count_once(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "E06_duplicates_and_overlap")
    assert report.repeated == {"train": 2, "valid": 0, "test": 0}
    assert report.overlaps == {("train", "valid"): 1, ("train", "test"): 2, ("valid", "test"): 1}
    assert counts(graph) == (12, 2, 3)
    assert len(np.unique(graph.train, axis=0)) == 12
    assert len(report.warnings()) == 4


def test_e07_only_training_facts_change_the_negatives(cases_dir: Path) -> None:
    graph, report = read_case(cases_dir, "E07_negatives_contradict")
    entities, relations = graph.vocabulary.entities, graph.vocabulary.relations
    kept = {(entities[h], relations[r], entities[t]) for h, r, t in graph.negatives}
    assert kept == {
        ("kiln", "heavier_than", "quay"),
        ("mast", "heavier_than", "kiln"),
        ("pump", "heavier_than", "mast"),
        ("oven", "heavier_than", "kiln"),
        ("quay", "heavier_than", "mast"),  # a valid fact
        ("kiln", "heavier_than", "pump"),  # a test fact
    }
    assert (report.negatives_training_facts, report.negatives_repeated, report.negatives_unknown) == (1, 1, 1)
    assert report.unknown_negative_names == ("vase",)
    assert report.negatives_contradicting == {"valid": 1, "test": 1}
    assert "negatives contradict facts of other splits (1 valid, 1 test)" in "\n".join(report.warnings())


# Published data with faults of its own


def test_the_odd_folders_load_or_fail_as_they_deserve(shared_dir: Path) -> None:
    graph, report = read_folder(shared_dir / "data/odd/Comp7")
    assert counts(graph) == (815, 817, 6535)  # train has no final line end; test is longer than train
    assert report.repeated == {"train": 0, "valid": 0, "test": 0}

    _, report = read_folder(shared_dir / "data/odd/Sparse-YAGO15k-75")
    assert report.repeated["train"] == 447
    assert report.overlaps["train", "test"] == 50

    with pytest.raises(DataError) as raised:  # numbers such as the ISSN 009E-5540, cut at their "E"
        read_folder(shared_dir / "data/odd/Sparse-FB15k-237")
    assert "literals/numerical_literals.txt:495:009e-5540: not zero, but too small" in str(raised.value)
    graph, report = read_folder(shared_dir / "data/odd/Sparse-FB15k-237", bad_values="missing")
    assert report.literals_bad == 7
    assert "header row skipped in test.txt, train.txt, valid.txt" in report.source_notes
    assert counts(graph) == (12_119, 774, 824)
    assert "head" not in graph.vocabulary.entities


def test_fb15k_237_reads_from_its_zip(shared_dir: Path) -> None:
    graph, report = read_folder(shared_dir / "data/fb15k_237/FB15k-237.zip")
    assert (graph.num_entities, graph.num_relations) == (14_541, 237)
    assert counts(graph) == (272_115, 17_535, 20_466)
    assert report.unseen_facts == {"valid": 9, "test": 28}


def test_every_prepared_graph_loads_without_faults_and_round_trips(shared_dir: Path, tmp_path: Path) -> None:
    for folder in sorted((shared_dir / "data/kg").iterdir()):
        graph, report = read_folder(folder)
        assert set(report.overlaps.values()) == {0}, folder
        assert sum(report.repeated.values()) == 0, folder
        assert report.negatives_training_facts == 0, folder
        write_folder(graph, tmp_path / folder.name)
        again, _ = read_folder(tmp_path / folder.name)
        assert again.vocabulary == graph.vocabulary
        np.testing.assert_array_equal(again.train, graph.train)
        np.testing.assert_array_equal(again.values, graph.values)


def test_the_command_reports_a_case_as_json(cases_dir: Path) -> None:
    command = [sys.executable, "-m", "numcoke_jax.data.check", "--json"]
    folder = cases_dir / "E06_duplicates_and_overlap"
    done = subprocess.run([*command, str(folder)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["overlaps"] == {"train,valid": 1, "train,test": 2, "valid,test": 1}
