r"""How many experts? Test metrics over K (the paper's figure "Research of Hyperparameter K on Spotify").

python -m experiments.num_experts --data=DIR --seeds=0,1,2 --experts=1,2,3,4,5,6,7,8
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import figures, sweep
from experiments.sweep import Setting


def settings(options: argparse.Namespace) -> list[Setting]:
    """One per number of experts."""
    return [Setting(f"K = {count}", {"experts.count": count}) for count in options.experts.split(",")]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw Hits@1, Hits@10 and MRR over K, the MRR also on shuffled values."""
    figure, (panel,) = figures.new_figure(5.2, 3.4)
    series = sweep.series_of(rows, "hits@1", "hits@10")
    figures.lines(panel, [row["label"].removeprefix("K = ") for row in rows], series)
    panel.set_xlabel("experts K", fontsize=9)
    panel.set_ylabel("test, filtered, tails", fontsize=9)
    figures.legend_below(figure, panel)
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = sweep.parser_of("num_experts", __doc__, config="configs/spotify.py:paper")
    options.add_argument("--experts", default="1,2,3,4,5,6,7,8", help="values of K (default: %(default)s)")
    return options


def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    return sweep.run_experiment("num_experts", settings, draw, parser(), arguments)


if __name__ == "__main__":
    sweep.main_of(main)
