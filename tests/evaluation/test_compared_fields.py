"""The field that each relation compares, as the order core names it."""

from pathlib import Path

import numpy as np

from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.evaluation.orders import ComparedField, compared_fields
from numcoke_jax.inference.trained import load_trained
from numcoke_jax.runs.create import create_run
from tests.tiny_runs import config_of, numcoke, train

ENTITIES = 24


def two_way_folder(path: Path) -> Path:
    """The head of "heavier" has the higher weight, that of "younger" the lower age; luck means nothing.

    A fifth of all ordered pairs is known in training, and every seventh value is missing.
    """
    draws = np.random.default_rng(3)
    values = {name: draws.permutation(ENTITIES).astype(float) for name in ("age", "luck", "weight")}
    facts = [
        f"e{i}\t{relation}\te{j}\n"
        for i in range(ENTITIES)
        for j in range(ENTITIES)
        for relation, higher in (
            ("heavier", values["weight"][i] > values["weight"][j]),
            ("younger", values["age"][i] < values["age"][j]),
        )
        if higher
    ]
    facts = [facts[place] for place in draws.permutation(len(facts))]
    fifth = len(facts) // 5
    path.mkdir()
    for name, part in (
        ("train", facts[:fifth]),
        ("valid", facts[fifth : fifth + 40]),
        ("test", facts[fifth + 40 :]),
    ):
        (path / f"{name}.txt").write_text("".join(part))
    (path / "literals").mkdir()
    rows = [f"e{i}\t{name}\t{column[i]}\n" for name, column in values.items() for i in range(ENTITIES)]
    kept = [row for place, row in enumerate(rows) if place % 7]
    (path / "literals" / "numerical_literals.txt").write_text("".join(kept))
    return path


def test_each_relation_names_its_field_and_its_direction(tmp_path: Path) -> None:
    config = numcoke(config_of(two_way_folder(tmp_path / "data"), score__order_core=True))
    report, _ = train(create_run(config), tmp_path)
    trained = load_trained(tmp_path, lambda text: None)
    found = compared_fields(trained.params, trained.run.graph.vocabulary)
    assert list(found) == ["heavier", "younger"]
    heavier, younger = found["heavier"][0], found["younger"][0]
    assert (heavier.field, younger.field) == ("weight", "age")
    assert heavier.weight > 0.5 and younger.weight < -0.5
    assert report["compared_fields"] == {
        "heavier": {"field": "weight", "weight": heavier.weight},
        "younger": {"field": "age", "weight": younger.weight},
    }


def test_fields_by_hand() -> None:
    """The largest weight of either sign first; ties keep the fields' order; "r" compares nothing."""
    weights = np.array([[0.0, 0.0, 0.0], [0.25, -0.5, 0.25]])
    names = Vocabulary(("a",), ("r", "s"), ("f", "g", "h"))
    expected = {"s": [ComparedField("g", -0.5), ComparedField("f", 0.25), ComparedField("h", 0.25)]}
    assert compared_fields({"order_core": {"field_weight": weights}}, names) == expected
    assert compared_fields({"field_weight": weights}, names) == expected


def test_a_model_without_an_order_core_compares_no_fields() -> None:
    assert compared_fields({"entity_embedding": np.zeros((1, 2))}, Vocabulary(("a",), ("r",), ("f",))) == {}
