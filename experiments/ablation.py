r"""The paper's ablations (its Table 3): each part of the model removed, and each part added alone.

    python -m experiments.ablation --data=DIR --seeds=0,1,2

MoE: one expert instead of several.  KA: both weights of the joint query are 0.  OS: random instead of top-k
samples in the contrastive loss.  "without MoE" is the full model minus that part, "only MoE" the model with
none of the three plus that part.  The config is the paper's model, with every extension off.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import figures, sweep
from experiments.sweep import Setting

OFF: dict[str, dict[str, Any]] = {
    "MoE": {"experts.count": 1},
    "KA": {"attention.use_query": False},
    "OS": {"okcl.sampling": "random"},
}


def settings(_: Any = None) -> list[Setting]:
    """All parts, each one removed, none, each one alone."""
    everything_off = {key: value for part in OFF.values() for key, value in part.items()}
    alone = {
        part: {key: value for key, value in everything_off.items() if key not in off}
        for part, off in OFF.items()
    }
    return [
        Setting("full model"),
        *(Setting(f"without {part}", off) for part, off in OFF.items()),
        Setting("none of the three", everything_off),
        *(Setting(f"only {part}", values) for part, values in alone.items()),
    ]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the test MRR of the settings: removals on the left, additions on the right."""
    figure, panels = figures.new_figure(11.0, 3.6, panels=2, columns=2, share_y=True)
    by_label = {row["label"]: row for row in rows}
    removed = ["full model", *(f"without {part}" for part in OFF)]
    added = ["none of the three", *(f"only {part}" for part in OFF), "full model"]
    for panel, labels, title in zip(panels, (removed, added), ("one removed", "one added"), strict=True):
        short = [label.replace(" ", "\n", 1) for label in labels]
        series = sweep.series_of([by_label[label] for label in labels])
        figures.points(panel, short, series)
        panel.set_title(title, fontsize=10)
    panels[0].set_ylabel("test MRR, filtered, tails", fontsize=9)
    if len(series) > 1:
        figures.legend_below(figure, panels[0])
    figures.save(figure, path)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    return sweep.parser_of("ablation", __doc__, config="configs/credit.py:paper")


def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    return sweep.run_experiment("ablation", settings, draw, parser(), arguments)


if __name__ == "__main__":
    sweep.main_of(main)
