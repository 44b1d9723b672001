r"""The same random search for every model: learning rate, dropout, weight of unseen facts, d, its own knobs.

    python -m experiments.tune --config=configs/credit.py --data=DIR --presets=numeric,rakge --trials=20

Trial 0 is the preset as it stands.  Trial i of every preset draws the shared knobs from the same stream, so
that all models try the same rates, dropouts, weights and sizes, and its own knobs from another stream; both
depend on --seed and the trial alone.  A trial is judged by the validation MRR that its best checkpoint was
chosen by (`eval.selection`): test facts play no part.  The best trial of each preset is then also trained on
shuffled values (--values=true leaves that out): a model without a gap does not use numbers.

A --config.KEY=VALUE flag of your own fixes that key for every run, so it is not drawn.  Trial i of all
presets comes before trial i + 1 of any.  Each has a workdir of its own under --out/PRESET with its record
next to it, such as trial000.json.  The same command after a kill resumes the trial that was stopped; more
--trials draw more.  tune.json and tune.png have all trials; the commands that repeat the best ones are
printed below the table.
"""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rich.console
from rich.table import Table

from experiments import figures, sweep
from experiments.commands import RESUMES, command
from experiments.rounds import Data, flag_names, mrr_of_test, refuse_flags, round_command, run_round
from numcoke_jax.cli.command_line import Command
from numcoke_jax.config.presets import PRESETS
from numcoke_jax.config.schema import default_config, looks_at
from numcoke_jax.runs.workdir import flat_config
from numcoke_jax.system.errors import UserError, did_you_mean, printable, shown_path
from numcoke_jax.system.files import read_json, write_json_atomically

MOST_TRIALS = 1000
SHARED_STREAM, OWN_STREAM = range(2)
DIGITS = 3  # significant digits of a drawn number, so that flags stay readable
METRICS = ("mrr", "hits@1", "mr")
RECORDED = ("preset", "trial", "config", "selection_mrr", "failed")  # the keys that a record is recognised by

# A knob is ("log", low, high), ("uniform", low, high) or ("choice", values).
Knob = tuple[Any, ...]
SIZES = (40, 60, 100, 140, 200)  # multiples of every preset's heads, even, images for ConvE
SHARED: Mapping[str, Knob] = {
    "train.learning_rate": ("log", 3e-4, 1e-2),
    "score.dropout": ("uniform", 0.2, 0.8),
    "query.hidden_dropout": ("uniform", 0.2, 0.8),
    "train.unknown_weight": ("log", 0.03, 1.0),
    "model.dim": ("choice", SIZES),
}
MARGIN: Mapping[str, Knob] = {"score.margin": ("uniform", 4.0, 14.0)}
QUERY_DROPOUTS: Mapping[str, Knob] = {
    "query.input_dropout": ("uniform", 0.0, 0.6),
    "query.feature_dropout": ("uniform", 0.0, 0.6),
}
SECOND_LOSS: Mapping[str, Knob] = {"okcl.weight": ("log", 0.03, 1.0)}
NUMCOKE: Mapping[str, Knob] = {
    **MARGIN,
    "attention.relation_weight": ("uniform", 0.0, 1.0),
    "experts.count": ("choice", (1, 2, 3, 5)),
    "score.order_weight": ("log", 0.03, 0.3),
}
OWN: Mapping[str, Mapping[str, Knob]] = {
    "paper": {**NUMCOKE, "okcl.weight": ("log", 0.03, 1.0), "okcl.temperature": ("log", 0.3, 3.0)},
    "numeric": {**NUMCOKE, "train.entity_dropout": ("uniform", 0.0, 0.5)},
    "rakge": {**MARGIN, "okcl.weight": ("log", 0.03, 1.0), "score.order_weight": ("log", 0.03, 1.0)},
    "transe": MARGIN,
    "literale": MARGIN,
    "hake": MARGIN,
    "conve": {**QUERY_DROPOUTS, "query.filters": ("choice", (16, 32, 64))},
    "tucker": QUERY_DROPOUTS,
    "rgcn": {"graph.edge_dropout": ("uniform", 0.0, 0.6), "graph.bases": ("choice", (2, 4, 8))},
    "mtkgnn": {"okcl.weight": ("log", 0.1, 10.0)},
    "wgcn": QUERY_DROPOUTS,
    "lorentzkg": MARGIN,
    "cone": SECOND_LOSS,
    "kgdm": SECOND_LOSS,
    "rule": {**MARGIN, **SECOND_LOSS},
    "bigi": {**MARGIN, **SECOND_LOSS},
    "slice": {**MARGIN, **SECOND_LOSS},
    "nekg": MARGIN,
    "nrn": {**MARGIN, "model.value_encoding": ("choice", ("dice", "sinusoidal"))},
    "simgcl": {
        **MARGIN,
        "okcl.weight": ("log", 0.01, 1.0),
        "okcl.temperature": ("log", 0.05, 1.0),
        "graph.noise": ("log", 0.01, 1.0),
    },
}

Record = Mapping[str, Any]
Trial = tuple[str, int]  # preset, number


def drawn_settings(preset: str, trial: int, seed: int) -> dict[str, Any]:
    """The keys that a trial changes, with their values; none for trial 0.

    A function of its arguments alone.  Keys that the preset's model does not look at are left out.
    """
    if trial == 0:
        return {}
    model = PRESETS[preset]["model.name"]
    shared = _draw(SHARED, seed, trial, SHARED_STREAM)
    shared["model.attribute_dim"] = shared["model.dim"]
    used = {key: value for key, value in shared.items() if looks_at(model, key)}
    return used | _draw(OWN.get(preset, {}), seed, trial, OWN_STREAM)


def _draw(knobs: Mapping[str, Knob], seed: int, trial: int, stream: int) -> dict[str, Any]:
    rng = np.random.default_rng(np.random.SeedSequence([seed, trial, stream]))
    return {key: value_at(knobs[key], rng.random()) for key in sorted(knobs)}


def value_at(knob: Knob, share: float) -> Any:
    """The value below which `share` in [0, 1) of the knob's distribution lies."""
    kind, *rest = knob
    if kind == "choice":
        return rest[0][int(share * len(rest[0]))]
    low, high = rest
    value = low * (high / low) ** share if kind == "log" else low + share * (high - low)
    return float(f"{value:.{DIGITS}g}")


def flags_of(trial: Trial, options: argparse.Namespace, extra: Sequence[str], control: str = "") -> list[str]:
    """The arguments of `numcoke_jax.main` for one trial, on the control's values if one is named.

    Raises:
      UserError: a wrong flag, key or value.
    """
    preset, number = trial
    fixed = set(flag_names(extra))
    if "model.dim" in fixed:  # both sizes are one knob
        fixed.add("model.attribute_dim")
    settings = drawn_settings(preset, number, options.seed)
    values = {key: value for key, value in settings.items() if key not in fixed}
    return sweep.flags_of(
        f"{options.config}:{preset}",
        values | ({"data.control": control} if control else {}),
        options.out / preset / f"trial{number:03d}{f'-{control}' if control else ''}",
        data=options.data,
        seed=options.seed,
        epochs=options.epochs,
        extra=extra,
    )


def run_trial(trial: Trial, flags: Sequence[str], data: Data) -> dict[str, Any]:
    """The record of a trial: read if it exists, else made from the run, which is trained or resumed.

    A run whose loss is not finite is recorded as failed, so that the search continues and does not retry it.

    Raises:
      UserError: no validation facts to choose by, other data than those of the other trials, or what the
        training raises.
    """
    command = round_command(flags)
    path = command.workdir.with_suffix(".json")
    known = recorded(path, command)
    if known is not None:
        return known
    record: dict[str, Any] = {
        "preset": trial[0],
        "trial": trial[1],
        "command": shlex.join(["python", "-m", "numcoke_jax.main", *flags]),
        "config": flat_config(command.config),
        "selection_mrr": None,
        "failed": None,
    }
    try:
        report = run_round(command, data)
        data.check(command, report, read=False)
    except FloatingPointError as error:
        record["failed"] = printable(str(error), longest=300)
    else:
        if report.get("selection_mrr") is None:
            raise UserError(
                f"{shown_path(command.workdir)}: the run has no validation MRR to be judged by; the graph "
                "needs validation facts"
            )
        record |= {key: report[key] for key in ("selection_mrr", "best_epoch", "seconds")}
        mrr_of_test(report)  # raises if there is none
        record["test"] = {metric: report["test"][metric] for metric in METRICS}
        record["data_sha256"] = report["environment"]["data_sha256"]
    write_json_atomically(path, record)
    return record


def check_data(trials: Mapping[Trial, Sequence[str]], data: Data) -> None:
    """Raises UserError if a trial that is recorded was trained on other data than there are now."""
    for flags in trials.values():
        command = round_command(flags)
        record = recorded(command.workdir.with_suffix(".json"), command)
        if record is not None and record["failed"] is None:
            data.check(command, {"environment": record}, read=True)


def recorded(path: Path, command: Command) -> dict[str, Any] | None:
    """The record in `path`, or None if there is no file.

    Raises:
      UserError: the file is not a record, or belongs to another config.
    """
    if not path.exists():
        return None
    record = read_json(path)
    if not isinstance(record, dict) or not record.keys() >= set(RECORDED):
        raise UserError(f"{shown_path(path)} is not a record of a trial: delete it or give another --out")
    now = flat_config(command.config)
    there = {**flat_config(default_config()), **record["config"]}  # a key newer than the record: its default
    # A stored config is JSON: tuples have become lists.
    different = [key for key in now if there.get(key) != _as_json(now[key])]
    if different:
        key = different[0]
        raise UserError(
            f"{shown_path(path)} is of another config ({key}={printable(there.get(key))} there, "
            f"{printable(now[key])} now): give another --out"
        )
    return record


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def best_of(records: Sequence[Record]) -> Record | None:
    """The record with the highest validation MRR, the first trial if tied; None if all failed."""
    finished = [record for record in records if record["failed"] is None]
    return max(finished, key=lambda record: (record["selection_mrr"], -record["trial"]), default=None)


def rows_of(records: Sequence[Record], controls: Mapping[str, Record | None]) -> list[dict[str, Any]]:
    """One row per preset.

    Args:
      records: of all trials.
      controls: the record of each preset's best trial on shuffled values, or None.

    Returns:
      preset; trials and how many failed; their total seconds; "as it stands": validation MRR of trial 0, None
      if it failed; best: record of the best trial, or None; gap: its test MRR minus that on shuffled values.
    """
    rows = []
    for preset in dict.fromkeys(record["preset"] for record in records):
        mine = [record for record in records if record["preset"] == preset]
        best, control = best_of(mine), controls.get(preset)
        gap = None
        if best is not None and control is not None and control["failed"] is None:
            gap = best["test"]["mrr"] - control["test"]["mrr"]
        rows.append(
            {
                "preset": preset,
                "trials": len(mine),
                "failed": sum(record["failed"] is not None for record in mine),
                "seconds": sum(record.get("seconds", 0.0) for record in mine),
                "as it stands": next(r["selection_mrr"] for r in mine if r["trial"] == 0),
                "best": best,
                "gap": gap,
            }
        )
    return rows


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print the best trial of each preset, and below the table the commands that repeat them."""
    table = Table(title=title, caption="chosen by validation MRR; test: filtered, tails")
    table.add_column("preset", no_wrap=True)
    for name in ("trials", "best", "valid MRR trial 0", "valid MRR best", "test MRR", "Hits@1", "gap"):
        table.add_column(name, justify="right")
    for row in rows:
        best = row["best"]
        trials = f"{row['trials']}, {row['failed']} failed" if row["failed"] else str(row["trials"])
        numbers = [row["as it stands"], *([None] * 3 if best is None else _numbers(best))]
        shown = ["-" if number is None else f"{number:.4f}" for number in numbers]
        gap = "-" if row["gap"] is None else f"{row['gap']:+.3f}"
        table.add_row(row["preset"], trials, "-" if best is None else str(best["trial"]), *shown, gap)
    rich.console.Console(width=80, markup=False, highlight=False).print(table)
    for row in rows:
        if row["best"] is not None:
            print(row["best"]["command"])


def _numbers(best: Record) -> list[float | None]:
    return [best["selection_mrr"], best["test"]["mrr"], best["test"]["hits@1"]]


def draw(records: Sequence[Record], path: Path) -> None:
    """Draw one panel per preset: validation MRR of every trial over its learning rate, the best marked."""
    presets = list(dict.fromkeys(record["preset"] for record in records))
    columns = min(len(presets), 4)
    rows = -(-len(presets) // columns)
    figure, panels = figures.new_figure(
        2.8 * columns, 2.8 * rows, panels=len(presets), columns=columns, share_y=True
    )
    rates = [record["config"]["train.learning_rate"] for record in records]
    _, low, high = SHARED["train.learning_rate"]
    ends = min(low, *rates) / 1.2, max(high, *rates) * 1.2
    for panel, preset in zip(panels, presets, strict=True):
        mine = [r for r in records if r["preset"] == preset and r["failed"] is None]
        found = [(record["config"]["train.learning_rate"], record["selection_mrr"]) for record in mine]
        places = [rate for rate, _ in found], [metric for _, metric in found]
        panel.scatter(*places, s=18, color=figures.COLOURS[0], label="a trial")
        best = best_of(mine)
        if best is not None:
            rate = best["config"]["train.learning_rate"]
            panel.scatter(
                [rate], [best["selection_mrr"]], s=60, marker="D", color=figures.COLOURS[1], label="the best"
            )
        panel.set_xscale("log")
        panel.set_xlim(*ends)
        panel.xaxis.set_major_formatter("{x:g}")  # powers of ten would be formulas, which figures do not read
        panel.xaxis.set_minor_formatter("")  # labels between the powers of ten overlap
        panel.set_title(preset, fontsize=9)
        panel.set_xlabel("learning rate", fontsize=8)
    for panel in panels[::columns]:
        panel.set_ylabel("validation MRR", fontsize=8)
    figures.legend_below(figure, panels[0])
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = sweep.parser_of("tune", __doc__, config="configs/credit.py", seeds=None)
    options.add_argument("--presets", default="numeric,paper,rakge,literale,transe")
    options.add_argument("--trials", type=int, default=20, help="per preset (default: %(default)s)")
    options.add_argument("--seed", type=int, default=0, help="seed of the search and of every run")
    options.add_argument(
        "--values",
        default="true,shuffled",
        choices=("true", "true,shuffled"),
        metavar="VALUES",
        help="true, or true,shuffled (default: %(default)s)",
    )
    return options


def _options(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    options, extra = parser().parse_known_args(arguments)
    if not 1 <= options.trials <= MOST_TRIALS:
        raise UserError(f"--trials={options.trials} is out of range: needs 1 to {MOST_TRIALS}")
    if not 0 <= options.seed < 2**32:
        raise UserError(f"--seed={options.seed} is out of range: needs an integer >= 0 and < {2**32}")
    for preset in options.presets.split(","):
        if preset not in PRESETS:
            hint = did_you_mean(preset, PRESETS) or f"; needs some of {','.join(PRESETS)}"
            raise UserError(f"--presets={printable(preset)} is not a choice{hint}")
    refuse_flags(extra, {"seed": "--seed", "data.control": "--values"})
    return options, extra


@command(RESUMES)
def main(arguments: Sequence[str]) -> int:
    """Runs the trials that are missing, prints the table, writes JSON and figure; returns the exit code."""
    options, extra = _options(arguments)
    presets = list(dict.fromkeys(options.presets.split(",")))
    trials = [(preset, number) for number in range(options.trials) for preset in presets]
    flags = {trial: flags_of(trial, options, extra) for trial in trials}  # all are checked before the first
    data = Data()
    check_data(flags, data)
    records = []
    for count, trial in enumerate(trials, start=1):
        record = run_trial(trial, flags[trial], data)
        records.append(record)
        found = "failed" if record["failed"] else f"validation MRR {record['selection_mrr']:.4f}"
        print(f"{count}/{len(trials)} {trial[0]} trial {trial[1]}: {found}", flush=True)
    controls: dict[str, Record | None] = {}
    for preset in presets if options.values == "true,shuffled" else []:
        best = best_of([record for record in records if record["preset"] == preset])
        if best is not None:
            trial = preset, best["trial"]
            shuffled = flags_of(trial, options, extra, "shuffled")
            check_data({trial: shuffled}, data)
            controls[preset] = run_trial(trial, shuffled, data)
    rows = rows_of(records, controls)
    show(rows, f"{options.trials} trials per preset: {Path(options.data or options.config).stem}")
    write_json_atomically(options.out / "tune.json", {"rows": rows, "trials": records, "shuffled": controls})
    draw(records, options.out / "tune.png")
    print(f"{shown_path(options.out / 'tune')}.json and .png have all trials")
    return 0


if __name__ == "__main__":
    sweep.main_of(main)
