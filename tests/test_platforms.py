"""What GPUs and TPUs would be given: state, step and scoring of every model are lowered, here without one."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from numcoke_jax.config.presets import PRESETS, apply_preset
from numcoke_jax.runs.create import create_run
from numcoke_jax.system import random_streams
from numcoke_jax.training import programs
from tests import tiny_runs


def foreign_calls(lowered: Any) -> set[str]:
    """What XLA does not compile itself in a lowered program: calls of libraries, transfers to the host."""
    found = re.findall(r"custom_call @([\w.$]+)|stablehlo\.(infeed|outfeed|send|recv)\b", lowered.as_text())
    return {call or transfer for call, transfer in found}


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        *((name, {}) for name in PRESETS),
        ("numeric", {"train__candidates": 2}),
        ("paper", {"model__products": "bfloat16", "attention__operators": ("mlp",)}),
    ],
)
def test_new_state_step_and_ranking_lower_for_accelerators(
    preset: str, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "kept_trace", lambda function, settings: function)  # it is for this device
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "graph", entities=9), **changes)
    apply_preset(config, preset)
    config.model.dim, config.model.attribute_dim, config.query.filters = 12, 20, 2
    programs._programs.cache_clear()
    run = create_run(config)
    literals, params = run.literals, run.abstract_state.params
    relation, heads = jnp.zeros((1,), jnp.int32), jnp.zeros((3,), jnp.int32)
    fresh = run.programs.create_state.trace(literals, key=random_streams.base_key(0))
    step = fresh  # a fitted model has none
    if not run.nothing_to_train:
        step = run.programs.step.trace(run.abstract_state, run.batch(0), literals)
    encode = run.scorer._jitted_encode.trace(params, literals, relation)
    encoded = jax.eval_shape(run.scorer._jitted_encode, params, literals, relation)
    score = run.scorer._jitted_score.trace(params, encoded, heads)
    for traced in (fresh, step, encode, score):
        for platform in ("cuda", "tpu"):
            assert foreign_calls(traced.lower(lowering_platforms=(platform,))) == set(), platform
    programs._programs.cache_clear()


def test_a_call_into_a_library_would_be_found() -> None:
    traced = jax.jit(jnp.linalg.cholesky).trace(jnp.eye(2))
    assert foreign_calls(traced.lower(lowering_platforms=("cuda",)))
