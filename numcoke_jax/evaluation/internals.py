"""What a model does inside while it encodes entities: attention and the weights of the experts."""

import functools
from collections.abc import Hashable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import KnowledgeModel
from numcoke_jax.models.padding import unpadded
from numcoke_jax.system.processes import fetch


def internals(
    model: KnowledgeModel, literals: Literals, entities: int, params: Any, relation: int
) -> dict[str, np.ndarray]:
    """What a model sows while encoding, if it does: attention [N, L, M], experts [N, K], float64."""
    encode = _jitted_internals(cast(Hashable, model), entities)
    sown = encode(params, jnp.array([relation], jnp.int32), literals).get("intermediates", {})
    found = {}
    for module, name in (("attention", "weights"), ("experts", "gate")):
        if module in sown:
            found[module] = np.asarray(fetch(sown[module][name][0][0]), np.float64)
    return found


@functools.lru_cache(maxsize=8)
def _jitted_internals(model: KnowledgeModel, entities: int) -> Any:
    """(params, relations, literals) -> what the model sows while encoding; compiled once for equal models."""

    def sown(params: Any, relations: Int[Array, " S"], literals: Literals) -> Any:
        params, literals = unpadded((params, literals), entities)
        return model.apply(
            {"params": params},
            relations,
            literals,
            train=False,
            method="encode",
            mutable=["intermediates"],
        )[1]

    return jax.jit(sown)
