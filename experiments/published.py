r"""Our ports beside PyKEEN's models: same facts, loss, size and epochs, both sides ranked, three seeds.

    python -m venv ENV && ENV/bin/pip install pykeen
    python -m experiments.published --peer-python=ENV/bin/python [--graphs=nations,umls] [--models=complex]

The graphs are the text files of Nations, UMLS and Kinships that come with PyKEEN.  It runs in an environment
and processes of its own (`published_peer.py`): LCWA training, which is our loss over all entities, with
inverse triples, Adam at a constant rate and no early stopping; constraints and regularisers of its own are
off, and vectors start with the same deviation.  Its batches are of the size that gives it as many steps an
epoch as ours take: a tenth more steps is a tenth more training, and, without a regulariser, of overfitting.
Ours choose nothing by validation either: the last epoch counts.

Every run is kept under --out and never made again; a stopped run of ours resumes, so the same command after a
stop ends with the result of an uninterrupted one.  published.json has every figure; two sides are level if
their means differ by at most 0.02.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich.console
from rich.table import Table

from experiments import sweep
from experiments.commands import RESUMES, command
from experiments.rounds import has_failed, raise_failed, round_command, run_rounds
from experiments.seeds import cell, mean_and_deviation
from numcoke_jax.cli.command_line import Command
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.runs.file_names import METRICS_FILE
from numcoke_jax.runs.logs import read_metrics
from numcoke_jax.system.errors import UserError, did_you_mean, printable, shown_path
from numcoke_jax.system.files import home_path, read_json, write_json_atomically

PEER = Path(__file__).with_name("published_peer.py")
GRAPHS = {"nations": "nations", "umls": "umls", "kinship": "kinships"}  # PyKEEN's folder of each
SPLITS = ("train", "valid", "test")
LEVEL = 0.02  # of MRR
SIDES = ("tails", "heads", "both")
FOUND_PACKAGE = (
    "import importlib.util as found; print(found.find_spec('pykeen').submodule_search_locations[0])"
)

DROPOUT = ("query.input_dropout", "query.feature_dropout", "query.hidden_dropout")
SHARED: Mapping[str, Any] = {
    "data.inverse": True,
    "model.attributes": "none",
    "model.dim": 64,
    "score.dropout": 0.0,
    "train.loss": "bce",
    "train.batch_size": 256,
    "train.candidates": 0,
    "train.relations_per_step": 0,
    "train.epochs": 50,
    "train.patience": 0,
    "train.unknown_weight": 1.0,
    "train.label_smoothing": 0.0,
    "train.schedule": "constant",
    "eval.selection": "seen",
    "eval.calibration": "none",
}
OF_MODEL: Mapping[str, Mapping[str, Any]] = {
    "transe": {"train.learning_rate": 0.01, "score.norm": 1, "score.margin": 9.0},
    "distmult": {"train.learning_rate": 0.01},
    "complex": {"train.learning_rate": 0.01},
    "rotate": {"train.learning_rate": 0.03, "score.norm": 2, "score.margin": 2.0},
    "conve": {"train.learning_rate": 0.003, "query.filters": 32, **dict.fromkeys(DROPOUT, 0.2)},
    "tucker": {"train.learning_rate": 0.003, **dict.fromkeys(DROPOUT, 0.2)},
}
Key = tuple[str, str, int]  # graph, model, seed


def folder_of(package: Path, graph: str, out: Path) -> Path:
    """A graph of the installed package as a folder in text layout under `out`.

    Raises:
      UserError: the package lacks a file of it.
    """
    folder = out / "graphs" / graph
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        source = package / "datasets" / GRAPHS[graph] / f"{split}.txt"
        if not source.is_file():
            raise UserError(
                f"--peer-python: there is no {shown_path(source)} in its PyKEEN; take release 1.11"
            )
        shutil.copyfile(source, folder / f"{split}.txt")
    return folder


def package_of(python: Path) -> Path:
    """The folder of the PyKEEN that belongs to an interpreter.

    Raises:
      UserError: it does not run, or has no PyKEEN.
    """
    try:
        done = subprocess.run([str(python), "-c", FOUND_PACKAGE], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"--peer-python={printable(str(python))}: {error.strerror}") from error
    if done.returncode:
        raise UserError(
            f"--peer-python={printable(str(python))} has no PyKEEN: python -m venv ENV && "
            "ENV/bin/pip install pykeen, then give ENV/bin/python"
        )
    return Path(done.stdout.strip())


def commands_of(options: argparse.Namespace, folders: Mapping[str, Path]) -> dict[Key, Command]:
    """Our run of every graph, model and seed; raises UserError for a wrong name."""
    models = options.models.split(",")
    for flag, names, known in (("models", models, OF_MODEL), ("graphs", folders, GRAPHS)):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known) or f"; needs some of {','.join(known)}"
                raise UserError(f"--{flag}={printable(name)} is not a choice{hint}")
    epochs = options.epochs or SHARED["train.epochs"]
    commands = {}
    for graph, folder in folders.items():
        for model in models:
            values = {**SHARED, **OF_MODEL[model], "train.epochs": epochs, "train.eval_every_epochs": epochs}
            for seed in sweep.seeds_of(options.seeds):
                workdir = options.out / graph / f"{model}-seed{seed}"
                flags = sweep.flags_of(f"fb15k_237:{model}", values, workdir, data=str(folder), seed=seed)
                commands[graph, model, seed] = round_command(flags)
    return commands


def steps_of(workdir: Path) -> int:
    """The steps of an epoch of the finished run in `workdir`."""
    last = [entry for entry in read_metrics(workdir / METRICS_FILE) if entry["kind"] == "train"][-1]
    return int(last["step"]) // int(last["epoch"])


def asked_of(command: Command, model: str, steps: int) -> dict[str, Any]:
    """What the peer is asked to train: the same as our run, which took so many steps an epoch."""
    config = command.config
    return {
        "model": model,
        "folder": config.data.path,
        "seed": config.seed,
        "dim": config.model.dim,
        "epochs": config.train.epochs,
        "steps": steps,
        "learning_rate": config.train.learning_rate,
        "norm": config.score.norm,
        "margin": config.score.margin if "score.margin" in OF_MODEL[model] else 0.0,
        "dropout": [config.query.input_dropout, config.query.feature_dropout, config.query.hidden_dropout],
        "filters": config.query.filters,
        "threads": 1,
    }


def peer_answer(python: Path, asked: Mapping[str, Any], kept: Path) -> dict[str, Any]:
    """The peer's figures, from the file where they are kept if it was asked the same.

    Raises:
      UserError: the peer ended without an answer; the message has its last line.
    """
    try:
        stored = read_json(kept)
        if isinstance(stored, dict) and stored.get("asked") == asked:
            return stored
    except UserError:  # missing or damaged: asked again
        pass
    command = [str(python), str(PEER), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = {"asked": dict(asked), **json.loads(done.stdout)}
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"--peer-python: PyKEEN ended at {asked['model']}: {printable(last)}") from None
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(kept, found)
    return found


def mrr_of(report: Mapping[str, Any]) -> dict[str, float]:
    """The test MRR of a report by side."""
    test = report["test"]
    return {"tails": test["mrr"], "heads": test["heads"]["mrr"], "both": test["both"]["mrr"]}


def check_facts(key: Key, report: Mapping[str, Any], peer: Mapping[str, Any]) -> None:
    """Raises UserError unless both sides have read the same number of facts of each split."""
    ours, theirs = report["protocol"]["facts"], peer["facts"]
    if ours != theirs:
        raise UserError(f"{key[0]}: we read {ours} facts and PyKEEN {theirs}: the figures would not compare")


def rows_of(reports: Mapping[Key, Mapping[str, Any]], peers: Mapping[Key, Any]) -> list[dict[str, Any]]:
    """One row per graph and model: MRR of both by side, their difference, whether they are level."""
    rows = []
    for graph, model in dict.fromkeys(key[:2] for key in reports):
        keys = [key for key in reports if key[:2] == (graph, model) and not has_failed(reports[key])]
        if not keys:
            continue
        ours, theirs = [mrr_of(reports[key]) for key in keys], [peers[key]["mrr"] for key in keys]
        means = {
            side: [mean_and_deviation([found[side] for found in part]) for part in (ours, theirs)]
            for side in SIDES
        }
        difference = means["both"][0]["mean"] - means["both"][1]["mean"]  # type: ignore[operator]
        rows.append(
            {
                "graph": graph,
                "model": model,
                "seeds": [key[2] for key in keys],
                "ours": {side: pair[0] for side, pair in means.items()},
                "pykeen": {side: pair[1] for side, pair in means.items()},
                "difference": difference,
                "level": abs(difference) <= LEVEL,
                "seconds": [
                    sum(reports[key]["seconds"] for key in keys),
                    sum(peers[key]["seconds"] for key in keys),
                ],
            }
        )
    return rows


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows as a table of at most 80 columns."""
    caption = f"mean ± standard deviation over the seeds; level: within {LEVEL}"
    table = Table(title="Test MRR of heads and tails, filtered", caption=caption)
    for name in ("graph", "model", "ours", "PyKEEN", "difference", "level"):
        table.add_column(name, justify="left" if name in ("graph", "model") else "right")
    for row in rows:
        figures = (cell(row["ours"]["both"]), cell(row["pykeen"]["both"]), f"{row['difference']:+.4f}")
        table.add_row(row["graph"], row["model"], *figures, "yes" if row["level"] else "no")
    rich.console.Console(width=80, markup=False, highlight=False).print(table)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.published", description=__doc__)
    options.add_argument("--peer-python", type=home_path, required=True, help="interpreter that has PyKEEN")
    options.add_argument("--graphs", default=",".join(GRAPHS), help="(default: %(default)s)")
    options.add_argument("--models", default=",".join(OF_MODEL), help="(default: %(default)s)")
    options.add_argument("--seeds", default="0,1,2", help="(default: %(default)s)")
    options.add_argument("--epochs", type=int, default=0, help=f"0: {SHARED['train.epochs']} (default)")
    options.add_argument(
        "--out", type=home_path, default=Path("runs/published"), help="(default: %(default)s)"
    )
    return options


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """Makes the runs that are missing, prints the table, writes the JSON; returns the exit code."""
    options = parser().parse_args(arguments)
    names = options.graphs.split(",")
    commands_of(options, dict.fromkeys(names, Path("anywhere")))  # flags first: PyKEEN starts slowly
    package = package_of(options.peer_python)
    folders = {graph: folder_of(package, graph, options.out).resolve() for graph in names}
    commands, peers, began = commands_of(options, folders), {}, time.monotonic()

    def tell(key: Key, report: dict[str, Any]) -> None:
        graph, model, seed = key
        if not has_failed(report):
            kept = options.out / "pykeen" / f"{graph}-{model}-seed{seed}.json"
            asked = asked_of(commands[key], model, steps_of(commands[key].workdir))
            peers[key] = peer_answer(options.peer_python, asked, kept)
            check_facts(key, report, peers[key])
        figures = (
            "failed"
            if has_failed(report)
            else f"{mrr_of(report)['both']:.4f}, PyKEEN {peers[key]['mrr']['both']:.4f}"
        )
        place = list(commands).index(key) + 1
        minutes = (time.monotonic() - began) / 60
        print(
            f"{place}/{len(commands)} {graph} {model} seed {seed}: {figures} ({minutes:.1f} min)", flush=True
        )

    reports = run_rounds(commands, tell)
    rows = rows_of(reports, peers)
    runs = [
        {"graph": g, "model": m, "seed": s, "ours": mrr_of(reports[g, m, s]), "pykeen": peers[g, m, s]}
        for g, m, s in peers
    ]
    write_json_atomically(options.out / "published.json", {"rows": rows, "runs": runs})
    show(rows)
    print(f"the same numbers and those of each run are in {options.out / 'published.json'}")
    raise_failed(commands, reports)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
