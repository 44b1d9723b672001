r"""One hyperparameter at a time over its range, the others as the config has them.

    python -m experiments.hyperparameters --seeds=0,1,2 --parameters=lambda,tau,k,delta,d,heads,missing

lambda, tau, k: weight, temperature and top-k of the contrastive loss; delta: weight of the order term; d:
size of entity and attribute vectors; heads: number of attention heads; missing: share of the values that the
built graph hides (not for a folder, whose values are as they are).
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import figures, sweep
from experiments.sweep import Setting
from numcoke_jax.system.errors import UserError


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A hyperparameter: the keys that it sets, its values, the name of its axis."""

    keys: tuple[str, ...]
    values: tuple[float, ...]
    axis: str


PARAMETERS = {
    "lambda": Parameter(("okcl.weight",), (0.0, 0.02, 0.1, 0.3, 1.0), "contrastive weight λ"),
    "tau": Parameter(("okcl.temperature",), (0.1, 0.3, 1.0, 3.0, 10.0), "temperature τ"),
    "k": Parameter(("okcl.k",), (1, 2, 5, 10, 20), "top-k"),
    "delta": Parameter(("score.order_weight",), (0.0, 0.05, 0.1, 0.25, 0.5), "order weight Δ"),
    "d": Parameter(("model.dim", "model.attribute_dim"), (20, 40, 100, 200), "embedding size d"),
    "heads": Parameter(("attention.heads",), (1, 2, 4, 5, 10), "attention heads L"),
    "missing": Parameter(("data.missing_rate",), (0.0, 0.2, 0.4, 0.6, 0.8), "missing values"),
}


def settings(options: argparse.Namespace) -> list[Setting]:
    """One per parameter and value.

    Raises:
      UserError: an unknown parameter, or the missing rate of a folder.
    """
    names = options.parameters.split(",")
    for name in names:
        if name not in PARAMETERS:
            raise UserError(f"--parameters={options.parameters}: needs some of {','.join(PARAMETERS)}")
    if "missing" in names and options.data:
        raise UserError(
            "--parameters=missing hides values of the config's table; a folder's are as they are: leave out "
            "--data or missing"
        )
    return [
        Setting(f"{name} = {value:g}", dict.fromkeys(PARAMETERS[name].keys, value))
        for name in names
        for value in PARAMETERS[name].values
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel per parameter: Hits@1 and MRR over its values, the MRR also on shuffled graph values."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["label"].split(" = ")[0], []).append(row)
    columns = min(len(by_name), 4)
    height = 2.8 * -(-len(by_name) // columns)
    figure, panels = figures.new_figure(3.1 * columns, height, panels=len(by_name), columns=columns)
    for panel, (name, of_name) in zip(panels, by_name.items(), strict=True):
        places = [row["label"].split(" = ")[1] for row in of_name]
        figures.lines(panel, places, sweep.series_of(of_name, "hits@1"))
        panel.set_xlabel(PARAMETERS[name].axis, fontsize=9)
        panel.set_ylabel("test, filtered, tails", fontsize=8)
    figures.legend_below(figure, panels[0])
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = sweep.parser_of("hyperparameters", __doc__, config="configs/credit.py:paper")
    options.add_argument("--parameters", default=",".join(PARAMETERS), help="(default: %(default)s)")
    return options


def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    return sweep.run_experiment("hyperparameters", settings, draw, parser(), arguments)


if __name__ == "__main__":
    sweep.main_of(main)
