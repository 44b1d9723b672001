"""What GPUs and TPUs would be given: every program of every model is lowered for them, here without one."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from numcoke_jax import prng
from numcoke_jax.presets import PRESETS, apply_preset
from numcoke_jax.run import create_run
from tests import tiny_runs

# Calls that XLA compiles for the device itself; any other would be of a library or of the host.
COMPILED_BY_XLA = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "cu_threefry2x32", "mhlo.topk"}


def foreign_calls(lowered: Any) -> set[str]:
    """Custom calls and transfers in the text of a lowered program that a device cannot do alone."""
    text = lowered.as_text()
    calls = set(re.findall(r"custom_call @([\w.$]+)", text)) - COMPILED_BY_XLA
    return calls | set(re.findall(r"stablehlo\.(infeed|outfeed|send|recv)\b", text))


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("preset", PRESETS)
def test_new_state_step_and_ranking_lower_for_accelerators(
    preset: str, platform: str, tmp_path: Path
) -> None:
    config = tiny_runs.config_of(tiny_runs.write_folder(tmp_path / "graph"))
    apply_preset(config, preset)
    config.model.dim, config.model.attribute_dim, config.query.filters = 12, 20, 2
    run = create_run(config)
    literals, params = run.literals, run.abstract_state.params
    relation, heads = jnp.zeros((1,), jnp.int32), jnp.zeros((3,), jnp.int32)
    fresh = run.programs.create_state.trace(literals, key=prng.base_key(0))
    step = run.programs.step.trace(run.abstract_state, run.batch(0), literals)
    encode = run.evaluate._jitted_encode.trace(params, literals, relation)
    encoded = jax.eval_shape(run.evaluate._jitted_encode, params, literals, relation)
    score = run.evaluate._jitted_score.trace(params, encoded, heads)
    for traced in (fresh, step, encode, score):
        assert foreign_calls(traced.lower(lowering_platforms=(platform,))) == set()


def test_a_call_into_a_library_would_be_found() -> None:
    traced = jax.jit(jnp.linalg.cholesky).trace(jnp.eye(2))
    assert foreign_calls(traced.lower(lowering_platforms=("cuda",)))
