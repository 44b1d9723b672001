r"""Which fields a trained model attends to: entities x fields, NumCoKE next to RAKGE (the paper's heat map).

    python -m experiments.attention_heatmap --numcoke=runs/credit-paper-seed0 \
        --rakge=runs/credit-rakge-seed0 --relation=LIMIT_BAL_comp --entities=20 --out=runs/attention_heatmap

Weights are means over the attention heads of the best checkpoints.  The first entities of the relation's test
facts are shown; the JSON has their weights and, over all entities, how far the attention is from weighting
every field equally: 1 - entropy / log M, 0 for equal weights, 1 for one field alone.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments import figures, sweep
from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.inference.trained import Trained, load_trained
from numcoke_jax.models.numcoke import NumCoKE
from numcoke_jax.models.rakge import RAKGE
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError, did_you_mean, printable
from numcoke_jax.system.files import home_path, write_json_atomically


def attention_weights(trained: Trained, relation: int) -> np.ndarray:
    """Float64 [N, M]: weights of the fields of every entity under a relation, mean over the heads.

    Raises:
      UserError: the run's model attends to no fields.
    """
    run = trained.run
    model: Any = run.programs.model
    if not isinstance(model, NumCoKE | RAKGE) or not run.graph.num_fields:
        raise UserError(
            f"model.name={run.config.model.name} on {run.graph.num_fields} fields has no attention to show"
        )
    bound: Any = model.bind({"params": trained.params})
    relations = jnp.asarray([relation], jnp.int32)
    vectors = bound.relation_embedding[relations]
    if isinstance(model, RAKGE):
        values = jnp.where(run.literals.observed, run.literals.values, 0.0)
        weights = bound.attention(vectors, values, bound.numeric())[1]
    else:
        entities = bound.experts(bound.entity_embedding, relations, train=False)
        weights = bound.attention(entities, vectors, *bound.numeric(run.literals))[1]
    return np.asarray(weights[0], np.float64).mean(1)


def selectivity(weights: np.ndarray) -> float:
    """Mean over the entities of 1 - entropy / log M; 0 if there is only one field."""
    if weights.shape[1] < 2:
        return 0.0
    entropy = -np.sum(weights * np.log(np.maximum(weights, 1e-300)), axis=1)
    return float(np.mean(1.0 - entropy / math.log(weights.shape[1])))


def shown_entities(trained: Trained, relation: int, count: int) -> list[int]:
    """Heads and tails of the relation's test facts, in order, each once, at most `count`."""
    facts = trained.run.graph.test
    ends = facts[facts[:, 1] == relation][:, [0, 2]].ravel().tolist()
    return list(dict.fromkeys(ends))[:count]


def draw(maps: dict[str, np.ndarray], rows: Sequence[str], columns: Sequence[str], path: Path) -> None:
    """Draw one panel per model; dark is a large weight, on a common scale."""
    height = 1.6 + 0.16 * len(rows)
    figure, panels = figures.new_figure(
        1.8 + 0.28 * len(columns) * len(maps), height, panels=len(maps), columns=len(maps)
    )
    highest = max(float(weights.max()) for weights in maps.values())
    for panel, (title, weights) in zip(panels, maps.items(), strict=True):
        image = panel.imshow(weights, cmap="Blues", vmin=0.0, vmax=highest, aspect="auto")
        panel.set_title(title, fontsize=10)
        panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=6)
        panel.set_yticks(range(len(rows)), rows if panel is panels[0] else [""] * len(rows), fontsize=6)
    figure.colorbar(image, ax=panels, label="attention weight", shrink=0.8)
    figures.save(figure, path)


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.attention_heatmap", description=__doc__)
    options.add_argument(
        "--numcoke", required=True, type=home_path, help="workdir of a finished run of numcoke"
    )
    options.add_argument("--rakge", required=True, type=home_path, help="workdir of rakge on the same data")
    options.add_argument("--relation", default="", help="name (default: the first with test facts)")
    options.add_argument("--entities", type=int, default=20, help="rows (default: %(default)s)")
    options.add_argument("--out", type=home_path, default=Path("runs/attention_heatmap"))
    return options


def _relation(trained: Trained, name: str) -> int:
    names, test = trained.run.graph.vocabulary.relations, trained.run.graph.test
    if not name and not len(test):
        raise UserError("--relation is missing: the graph has no test facts to take one from")
    if not name:
        return int(test[0, 1])
    if name not in names:
        raise UserError(f"--relation={printable(name)} is not in the graph{did_you_mean(name, names)}")
    return names.index(name)


@command()
def main(arguments: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, "entities")
    warn = Console().warn
    runs = {"RAKGE": load_trained(options.rakge, warn), "NumCoKE": load_trained(options.numcoke, warn)}
    vocabularies = [trained.run.graph.vocabulary for trained in runs.values()]
    if vocabularies[0] != vocabularies[1]:
        raise UserError(f"{options.numcoke} and {options.rakge} were trained on different graphs")
    relation = _relation(runs["NumCoKE"], options.relation)
    shown = shown_entities(runs["NumCoKE"], relation, options.entities)
    weights = {name: attention_weights(trained, relation) for name, trained in runs.items()}
    rows = [vocabularies[0].entities[entity] for entity in shown]
    options.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "relation": vocabularies[0].relations[relation],
        "entities": rows,
        "fields": list(vocabularies[0].fields),
    }
    for name, of_model in weights.items():
        result[name] = {"selectivity": selectivity(of_model), "weights": of_model[shown].tolist()}
        print(f"{name}: selectivity {result[name]['selectivity']:.4f}")
    write_json_atomically(options.out / "attention_heatmap.json", result)
    maps = {name: of_model[shown] for name, of_model in weights.items()}
    draw(maps, rows, vocabularies[0].fields, options.out / "attention_heatmap.png")
    return 0


if __name__ == "__main__":
    sweep.main_of(main)
