r"""How much of the joint query should the relation be? Test metrics over delta_r from 0 to 100 %.

    python -m experiments.relation_weight --data=DIR --seeds=0,1,2 --percent=0,10,20,30,40,50,60,70,80,90,100

At 0 % the attention's query is the entity alone, at 100 % the relation alone, as in RAKGE.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import figures, sweep
from experiments.sweep import Setting
from numcoke_jax.system.errors import UserError


def settings(options: argparse.Namespace) -> list[Setting]:
    """One per percentage.

    Raises:
      UserError: a percentage that is not an integer from 0 to 100.
    """
    percentages = options.percent.split(",")
    for text in percentages:
        if not (text.isascii() and text.isdigit() and int(text) <= 100):
            raise UserError(f"--percent={options.percent} must be integers from 0 to 100 joined by commas")
    return [Setting(f"{text} %", {"attention.relation_weight": int(text) / 100}) for text in percentages]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw Hits@1 and MRR over the share, the MRR also on shuffled values."""
    figure, (panel,) = figures.new_figure(5.2, 3.4)
    series = sweep.series_of(rows, "hits@1")
    figures.lines(panel, [row["label"].removesuffix(" %") for row in rows], series)
    panel.set_xlabel("share of the relation in the query, %", fontsize=9)
    panel.set_ylabel("test, filtered, tails", fontsize=9)
    figures.legend_below(figure, panel)
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = sweep.parser_of("relation_weight", __doc__, config="configs/credit.py:paper")
    shares = ",".join(str(share) for share in range(0, 101, 10))
    options.add_argument("--percent", default=shares, help="shares of the relation (default: %(default)s)")
    return options


def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    return sweep.run_experiment("relation_weight", settings, draw, parser(), arguments)


if __name__ == "__main__":
    sweep.main_of(main)
