"""The scorer's encodings: entities that are the same under every relation are encoded once."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models.interface import SharedVectors
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.run import Run
from tests import tiny_runs

RELATIONS = [0, 1, 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_runs.write_folder(tmp_path_factory.mktemp("shared") / "data")


def run_of(folder: Path, model: str) -> tuple[Run, Any]:
    run = create_run(tiny_runs.config_of(folder, model__name=model, data__inverse=True))
    return run, run.fresh_state().params


def counted(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The relations under which all entities are encoded from now on."""
    encode, asked = scorer._jitted_encode, []

    def spy(params: Any, literals: Any, relation: Any) -> Any:
        asked.append(int(relation[0]))
        return encode(params, literals, relation)

    monkeypatch.setattr(scorer, "_jitted_encode", spy)
    return asked


@pytest.mark.parametrize("model", ["transe", "literale", "rgcn"])
def test_shared_entities_are_encoded_once_for_the_same_parameters(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    with tiny_runs.compiled_fast():
        run, params = run_of(folder, model)
        apart = [run.scorer.encode(params, jnp.int32(relation)) for relation in RELATIONS]
        asked = counted(run.scorer, monkeypatch)
        found = [run.scorer.encode(params, relation) for relation in RELATIONS]
        assert asked == [0]
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-6), found, apart)
        assert not np.array_equal(found[0].relations, found[1].relations)

        others = jax.tree.map(lambda leaf: leaf + 1.0, params)
        moved = run.scorer.encode(others, 1)
        assert asked == [0, 1]  # other parameters have other entities
        assert not np.array_equal(moved.entities, found[1].entities)


def test_nothing_is_kept_while_training_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tiny_runs.compiled_fast():
        run, params = run_of(folder, "transe")
        asked = counted(run.scorer, monkeypatch)
        run.evaluator.for_selection(params)
        assert len(asked) == 1
        run.scorer.encode(params, 0)
    assert len(asked) == 2


def test_entities_that_a_relation_changes_are_encoded_for_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tiny_runs.compiled_fast():
        run, params = run_of(folder, "murp")
        asked = counted(run.scorer, monkeypatch)
        found = [run.scorer.encode(params, relation) for relation in RELATIONS]
    assert asked == RELATIONS and not isinstance(found[0], SharedVectors)
