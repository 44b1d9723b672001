"""Small states and the checkpoints that they are saved in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from numcoke_jax.runs.checkpoints import Checkpoints
from numcoke_jax.training.step import LossSums, TrainState

PROGRESS = {"validated_step": 3, "note": "née", "best": 0.1}


class Identity:
    """A run that is known by one word."""

    def __init__(self, word: str = "ours") -> None:
        self.word = word

    def to_json(self) -> dict[str, Any]:
        return {"word": self.word}

    def differences(self, stored: Mapping[str, Any]) -> list[str]:
        return [] if stored["word"] == self.word else [f"word: {stored['word']} there, {self.word} now"]


def state_at(step: int, *, seed: int = 0, **params: Any) -> TrainState:
    """A state with several dtypes; `params` replaces arrays."""
    rng = np.random.default_rng([seed, step])
    arrays = {
        "table": jnp.asarray(rng.normal(size=(7, 3)), jnp.float32),
        "half": jnp.asarray(rng.normal(size=5), jnp.bfloat16),
        "tiny": jnp.asarray([-0.0, 1e-45, 3.4e38], jnp.float32),
        **params,
    }
    return TrainState(
        step=jnp.asarray(step, jnp.int32),
        params=arrays,
        opt_state=optax.adam(1e-3).init(arrays),
        key=jax.random.key(seed),
        losses=LossSums.zero(),
    )


def opened(directory: Path, *, newest: int = 2, word: str = "ours", like: Any = None) -> Checkpoints:
    abstract = jax.eval_shape(lambda: state_at(0)) if like is None else like
    return Checkpoints(directory, newest=newest, identity=Identity(word), like=abstract)
