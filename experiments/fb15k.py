r"""FB15k-237 with the numbers of its entities: models side by side on a graph whose relations are not orders.

    python -m experiments.fb15k --presets=transe,literale,rakge,paper --seeds=0,1,2

All 237 relations, validation and test facts as released.  A GPU is advisable.  Every run has the 40 epochs
that the config file sets, not the 700 of the presets, which are meant for far smaller graphs: --epochs=N
gives another number, --epochs=0 each preset's own.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import figures, sweep
from experiments.sweep import Setting

EPOCHS = 40  # of configs/fb15k_237.py; a preset named beside it sets its own, 700


def settings(options: argparse.Namespace) -> list[Setting]:
    """One per preset, on the data of the config."""
    return [Setting(preset, config=f"{options.config}:{preset}") for preset in options.presets.split(",")]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw Hits@1, Hits@10 and MRR of the models, the MRR also on shuffled values."""
    figure, (panel,) = figures.new_figure(1.6 + 1.9 * len(rows), 3.4)
    series = sweep.series_of(rows, "hits@1", "hits@10")
    figures.bars(panel, [row["label"] for row in rows], series)
    panel.set_ylabel("test, filtered, tails", fontsize=9)
    figures.legend_below(figure, panel)
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = sweep.parser_of("fb15k", __doc__, config="configs/fb15k_237.py", epochs=EPOCHS)
    options.add_argument("--presets", default="transe,literale,rakge,paper", help="(default: %(default)s)")
    return options


def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    return sweep.run_experiment("fb15k", settings, draw, parser(), arguments)


if __name__ == "__main__":
    sweep.main_of(main)
