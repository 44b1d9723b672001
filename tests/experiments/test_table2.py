"""Table 2: which runs it makes, its numbers by hand, its files, what it refuses."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from experiments import table2
from experiments.paper_table2 import METRICS, MODELS, PRINTED
from numcoke_jax.config.presets import PRESETS
from numcoke_jax.system.errors import UserError
from tests import tiny_runs

DATA = "configs/credit.py@some/credit,configs/spotify.py"


def report(mrr: float, seed: int = 0, data: str = "a") -> dict[str, Any]:
    test = {"count": 7, "mrr": mrr, "mr": 10 * mrr, "hits@1": mrr / 2, "hits@3": mrr / 4, "hits@10": None}
    environment = {"data_sha256": data * 64}
    return {"seed": seed, "best_epoch": 3, "valid": test, "test": test, "environment": environment}


REPORTS = {
    ("credit", "tucker", "true"): [report(0.4, 0), report(0.6, 1)],
    ("credit", "tucker", "shuffled"): [report(0.3, 0), report(0.5, 1)],
    ("credit", "rakge", "true"): [report(0.25)],
    ("credit", "numeric", "true"): [report(0.75)],
    ("credit", "paper", "true"): [report(0.5)],
    ("spotify", "paper", "true"): [report(0.9)],
}


def commands(*flags: str) -> dict[Any, Any]:
    options, extra = table2._options([f"--data={DATA}", *flags])
    return table2.commands_of(options, table2.data_sets_of(options.data), extra)


def refusal(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert table2.main(arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ") and line.count("\n") == 1
    return line.removeprefix("error: ").rstrip("\n")


def test_every_model_of_the_paper_that_is_here_has_a_preset_and_printed_numbers_of_three_data_sets() -> None:
    beside = {"boosted_pairs", "distmult", "complex", "rotate", "rgcn_transe"}  # not in the paper's table
    assert {model.preset for model in MODELS.values()} == set(PRESETS) - beside
    references = {name for name, model in MODELS.items() if model.group == "References"}
    assert set(PRINTED) == set(MODELS) - references - {"numeric"}  # an extension of this package
    for printed in PRINTED.values():
        assert list(printed) == ["us_cities", "spotify", "credit"]
        for numbers in printed.values():
            assert dict(zip(METRICS, numbers, strict=True))["mr"] >= 1


def test_one_run_a_data_set_model_control_and_seed_in_a_workdir_of_its_own() -> None:
    found = commands("--models=tucker,paper", "--seeds=3,5", "--out=o", "--config.train.batch_size=64")
    assert len(found) == 2 * 2 * 2 * 2 == len({command.workdir for command in found.values()})
    command = found[("credit", "tucker", "shuffled"), 5]
    assert command.workdir == Path("o/credit/tucker-shuffled-seed5")
    config = command.config
    assert (config.model.name, config.model.attributes, config.seed) == ("tucker", "concat", 5)
    assert (config.data.control, config.data.path) == ("shuffled", "some/credit")
    assert config.train.batch_size == 64
    assert found[("spotify", "paper", "true"), 3].config.data.table == "spotify"


def test_the_budget_caps_the_epochs_of_every_run_and_raises_none() -> None:
    flags = ("--models=tucker,numeric", "--seeds=0", "--values=true")
    for command in commands(*flags, "--epochs=15").values():
        assert command.config.train.epochs == command.config.train.eval_every_epochs == 15
    for command in commands(*flags, "--epochs=300").values():
        assert (command.config.train.epochs, command.config.train.eval_every_epochs) == (300, 20)
    for (_, model, _), command in (
        (key, command) for (key, _), command in commands(*flags, "--epochs=9999").items()
    ):
        assert command.config.train.epochs == (PRESETS[model]["train.epochs"] or 9999)


def test_quick_is_small_and_needs_no_data() -> None:
    options, extra = table2._options(["--quick"])
    found = table2.commands_of(options, table2.data_sets_of(options.data), extra)
    assert len(found) == 2 * len(MODELS)
    for command in found.values():
        assert command.config.data.table == "cars" and command.config.train.epochs <= 40
        assert command.config.model.dim < 64


def test_quick_is_40_epochs_unless_told_otherwise_and_0_is_no_cap() -> None:
    for flags, epochs in ((["--quick"], 40), (["--quick", "--epochs=0"], 0), (["--data=c.py"], 0)):
        assert table2._options(flags)[0].epochs == epochs


def test_rows_have_means_deviations_gaps_and_printed_figures_only_of_the_authors_folders() -> None:
    rows = {(row["data"], row["model"]): row for row in table2.rows_of(REPORTS, ["credit"])}
    assert len(rows) == 5
    tucker = rows["credit", "tucker"]
    assert tucker["mrr"]["mean"] == pytest.approx(0.5)
    assert tucker["mrr"]["std"] == pytest.approx(0.1414213562)  # sqrt(0.1^2 + 0.1^2)
    assert tucker["mrr on shuffled values"]["mean"] == pytest.approx(0.4)
    assert tucker["mrr on shuffled values"]["std"] == pytest.approx(0.1414213562)
    assert tucker["gap"] == pytest.approx(0.1)
    assert tucker["paper"] == {"hits@1": 0.405, "hits@3": 0.512, "hits@10": 0.638, "mr": 36, "mrr": 0.485}
    assert rows["credit", "rakge"]["gap"] is None
    assert rows["credit", "numeric"]["paper"] is None  # the paper has no such model
    assert rows["spotify", "paper"]["paper"] is None  # built anew, not the authors' folder


def test_configs_of_the_authors_own_training_facts_show_the_printed_figures_without_being_told() -> None:
    reports = {
        ("rakge_spotify", model, "true"): REPORTS["spotify", "paper", "true"]
        for model in ("printed", "transe")
    }
    rows = {row["model"]: row for row in table2.rows_of(reports, [])}
    assert rows["printed"]["paper"]["mrr"] == 0.680  # the paper's NumCoKE, Spotify
    assert rows["transe"]["paper"]["mrr"] == 0.332


def test_the_improvement_is_of_one_model_over_the_best_other_and_turns_for_mr() -> None:
    shares = table2.improvements(table2.rows_of(REPORTS, []))
    assert shares["credit"]["mrr"] == pytest.approx(0.5)  # 0.75 over 0.5 of TuckER
    assert shares["credit"]["hits@1"] == pytest.approx(0.5)
    # By MRR ours is "numeric": its MR of 7.5 counts, not the 5 of "paper"; RAKGE has 2.5.
    assert shares["credit"]["model"] == "numeric"
    assert shares["credit"]["mr"] == pytest.approx(-2.0)
    assert shares["credit"]["hits@10"] is None  # no figures
    assert shares["spotify"]["mrr"] is None  # nothing to compare with


def test_an_improvement_over_next_to_nothing_is_no_percentage() -> None:
    for base, share in ((0.049, None), (0.05, 9.0)):
        rows = table2.rows_of(REPORTS, [])
        for row in rows:
            if row["data"] == "credit":
                row["mrr"] = {"mean": 0.5 if row["model"] == "numeric" else base, "std": 0.0}
        assert table2.improvements(rows)["credit"]["mrr"] == (share and pytest.approx(share))


def test_markdown_and_csv_hold_the_rows() -> None:
    rows = table2.rows_of(REPORTS, ["credit"])
    markdown = table2.markdown_of(rows, table2.improvements(rows))
    tucker = "| Euclidean | TuckER | 0.250 ± 0.071 (0.405) | 0.125 ± 0.035 (0.512) | - (0.638) |"
    assert f"{tucker} 5.00 ± 1.41 (36) | 0.500 ± 0.141 (0.485) | +0.100 |" in markdown.splitlines()
    line = "| improvement | NumCoKE, order core over the best other model | +50.0% | +50.0% | - | -200.0% |"
    assert f"{line} +50.0% |  |" in markdown.splitlines()
    table = list(csv.DictReader(io.StringIO(table2.csv_of(rows))))
    assert [row["model"] for row in table] == [
        "TuckER",
        "RAKGE",
        MODELS["numeric"].name,
        "NumCoKE",
        "NumCoKE",
    ]
    assert float(table[0]["mrr std"]) == pytest.approx(0.1414213562)
    assert float(table[0]["mrr on shuffled values std"]) == pytest.approx(0.1414213562)
    assert (table[0]["seeds"], table[1]["mrr std"], table[1]["gap"]) == ("0 1", "", "")


def test_failed_seeds_are_named_and_in_no_mean() -> None:
    failed = {"seed": 1, "failed": "why", "environment": {}}
    reports = {
        ("credit", "tucker", "true"): [report(0.4, 0), failed],
        ("credit", "tucker", "shuffled"): [report(0.3, 0), failed],
        ("credit", "rakge", "true"): [failed],
    }
    rows = table2.rows_of(reports, [])
    assert (rows[0]["seeds"], rows[0]["failed"], rows[1]["seeds"]) == ([0], [1], [])
    lines = table2.markdown_of(rows, table2.improvements(rows)).splitlines()
    tucker = "| TuckER, 1 of 2 seeds | 0.200 | 0.100 | - | 4.00 | 0.400 | +0.100 (1 of 2 seeds) |"
    assert f"| Euclidean {tucker}" in lines
    assert f"| Self-supervised | RAKGE, 0 of 1 seeds |{' failed |' * 5} - |" in lines
    assert "RAKGE,,1," in table2.csv_of(rows)


def test_quick_says_what_it_does_before_the_first_run_in_lines_of_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = []

    def trained(commands: dict[Any, Any], tell: Any) -> dict[Any, Any]:
        before.append(capsys.readouterr().out)
        found = {key: report(0.5) for key in commands}
        for key in commands:
            tell(key, found[key])
        return found

    monkeypatch.setattr(table2, "run_rounds", trained)
    monkeypatch.setenv("XLA_FLAGS", "--mine=1")
    assert table2.main(["--quick", f"--out={tmp_path}"]) == 0
    assert os.environ["XLA_FLAGS"].split() == [table2.QUICK_COMPILING, "--mine=1"]
    runs = 2 * len(MODELS)
    assert before == [f"{runs} runs; a line follows each, the first when its model is compiled\n"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"1/{runs} cars transe true seed 0: test MRR 0.5000"
    assert lines[runs - 1].startswith(f"{runs}/{runs} ")
    shown = [line for line in lines if str(tmp_path) not in line]  # a path is as long as its user makes it
    assert max(map(len, shown)) <= 80


def test_the_figure_is_a_png(tmp_path: Path) -> None:
    table2.draw(table2.rows_of(REPORTS, []), tmp_path / "table.png")
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [tmp_path / "table.png"]


def test_wrong_arguments_are_one_line_and_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        return refusal(*arguments, capsys=capsys)

    assert said() == "give --data=configs/credit.py,... or --quick; see --help"
    assert said(f"--data={DATA}", "--models=tuker") == "--models=tuker is not a choice; did you mean tucker?"
    assert said(f"--data={DATA}", "--values=shuffled") == (
        "--values=shuffled must include true, which the table is about"
    )
    assert said(f"--data={DATA}", "--seeds=1,1") == (
        "--seeds=1,1 must be different integers joined by commas, such as 0,1,2"
    )
    assert said(f"--data={DATA}", "--epochs=-1") == (
        "--epochs=-1 is out of range: needs an integer >= 0 and <= 1000000"
    )
    assert said(f"--data={DATA}", "--authors=spotify") == (
        "--authors=spotify: --data has no folder of that name, such as CONFIG@PATH/spotify"
    )
    assert said(f"--data={DATA}", "--authors=cars").startswith("--authors=cars is not in the paper")
    assert said("--data=configs/credit.py,configs/credit.py") == (
        "--data has two data sets named credit: rename a folder"
    )
    assert said(f"--data={DATA}", "--config.model.dmi=3").startswith("model.dmi is not a config key")


def test_data_sets_are_named_by_their_folder_or_config() -> None:
    found = [(data.name, data.config, data.folder) for data in table2.data_sets_of(DATA)]
    assert found == [("credit", "configs/credit.py", "some/credit"), ("spotify", "configs/spotify.py", "")]
    with pytest.raises(UserError, match="must be config files joined by commas"):
        table2.data_sets_of("configs/credit.py,")


@pytest.mark.slow
def test_a_table_is_trained_written_and_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_runs.write_folder(tmp_path / "graph")
    arguments = [
        f"--data=configs/cars.py@{folder}",
        "--models=tucker,kbln",
        "--values=true,shuffled",
        "--seeds=0",
        "--epochs=2",
        f"--out={tmp_path / 'out'}",
        "--config.model.dim=8",
        "--config.train.batch_size=4",
    ]
    with tiny_runs.compiled_fast():
        assert table2.main(arguments) == 0
        first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
        assert set(first) == {"table2.json", "table2.csv", "table2.md", "table2.png"}
        runs = tiny_runs.snapshot(tmp_path / "out" / "graph")
        assert table2.main(arguments) == 0
    assert tiny_runs.snapshot(tmp_path / "out" / "graph") == runs
    assert (tmp_path / "out" / "table2.json").read_bytes() == first["table2.json"]
    rows = json.loads(first["table2.json"])["rows"]
    assert [row["model"] for row in rows] == ["tucker", "kbln"]
    assert all(0 < row["mrr"]["mean"] <= 1 and row["gap"] is not None for row in rows)
    assert "4/4 graph kbln shuffled seed 0: test MRR" in capsys.readouterr().out
