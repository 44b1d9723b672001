"""Small inputs that several tests share: shapes as in training, numbers from a seeded generator."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from ml_collections import ConfigDict

from numcoke_jax.config.schema import default_config
from numcoke_jax.data.batches import Batch
from numcoke_jax.data.literals import Literals
from numcoke_jax.models import create_model
from numcoke_jax.models.interface import GraphSizes, KnowledgeModel
from numcoke_jax.training.step import TrainState, create_state, initial_params

SIZES = GraphSizes(entities=5, relations=2, fields=3)

# LLVM's optimiser takes most of the time that compiling a whole model takes, and tiny sizes gain nothing.
FAST_COMPILATION = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function: Callable) -> Callable:
    """`function` under jit, compiled fast rather than to run fast."""
    return jax.jit(function, compiler_options=FAST_COMPILATION)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> jax.Array:
    """Normal numbers in jax's default float type."""
    return jnp.asarray(scale * np.random.default_rng(seed).normal(size=shape))


def random_like(shapes: Any, seed: int = 0, scale: float = 0.7) -> Any:
    """A tree of normal numbers: unlike an initialisation, no bias and no temperature is 0."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(scale * rng.normal(size=leaf.shape)), shapes)


def apply(module: Any, parameters: dict, *inputs: Any, **call: Any) -> Any:
    """Linen's apply with the collection "params"."""
    return module.apply({"params": parameters}, *inputs, **call)


def created_state(
    model: KnowledgeModel, optimizer: optax.GradientTransformation, literals: Literals, *, key: jax.Array
) -> TrainState:
    """The state before the first step, of parameters drawn from the key."""
    return create_state(initial_params(model, literals, key=key), optimizer, key=key)


def parameters_of(module: Any, *inputs: Any, **call: Any) -> dict:
    """Random parameters of the shapes that the module initialises for these inputs."""
    variables = jax.eval_shape(lambda key: module.init(key, *inputs, **call), jax.random.key(0))
    return random_like(variables["params"])


def float64(tree: Any) -> Any:
    """The same tree in NumPy's float64, for the oracles."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def scored_by(scores: Any, chunk: int) -> Callable[[np.ndarray, int], Iterator[tuple[int, np.ndarray]]]:
    """Scores [R, N, N] as `Scorer.scored_heads` gives them, for parameters."""

    def scored_heads(heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        for begin in range(0, len(heads), chunk):
            yield begin, np.asarray(scores[relation], np.float32)[heads[begin : begin + chunk]]

    return scored_heads


def config_with(**changes: Any) -> ConfigDict:
    """The default config at tiny sizes; a change is section__key=value."""
    config = default_config()
    config.model.dim = 4
    config.model.attribute_dim = 6
    config.experts.count = 2
    config.attention.heads = 2
    config.attention.hidden = 5
    config.score.dropout = 0.3
    config.okcl.k = 2
    for name, value in changes.items():
        section, key = name.split("__")
        config[section][key] = value
    return config


def literals(sizes: GraphSizes = SIZES) -> Literals:
    """Every field has an observed and a missing cell; some facts, each once, one from an entity to itself."""
    observed = np.ones((sizes.entities, sizes.fields), bool)
    for field in range(sizes.fields):
        observed[field % sizes.entities, field] = observed[-1, field] = False
    values = jnp.where(observed, normal(sizes.entities, sizes.fields, seed=1), 0.0)
    positions = np.random.default_rng(2).random(values.shape)
    return Literals(
        values=values,
        observed=jnp.asarray(observed),
        positions=jnp.asarray(positions, values.dtype),
        facts=facts(sizes),
    )


def facts(sizes: GraphSizes = SIZES) -> jax.Array:
    """Training facts without repetition, int32 [n, 3]; an entity is linked to itself."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, sizes.entities, (2 * sizes.entities, 2))
    relations = rng.integers(0, sizes.relations, 2 * sizes.entities)
    rows = np.concatenate([np.stack([ends[:, 0], relations, ends[:, 1]], axis=1), [[0, 0, 0]]])
    return jnp.asarray(np.unique(rows, axis=0), jnp.int32)


def batch() -> Batch:
    """Two slots of three pairs: the last is padding, one is without positives, one has given negatives."""
    labels = np.zeros((2, 3, 5), bool)
    labels[0, 0, [1, 3, 4]] = labels[0, 1, 0] = labels[0, 2, 1] = labels[1, 0, [0, 1]] = True
    negatives = np.zeros((2, 3, 5), bool)
    negatives[0, 1, [3, 4]] = negatives[1, 1, 4] = True
    return Batch(
        relations=jnp.array([1, 0], jnp.int32),
        heads=jnp.array([[0, 2, 4], [3, 1, 0]], jnp.int32),
        mask=jnp.array([[True, True, True], [True, True, False]]),
        labels=jnp.asarray(labels),
        negatives=jnp.asarray(negatives),
    )


def model_and_parameters(config: ConfigDict, sizes: GraphSizes = SIZES) -> tuple[KnowledgeModel, dict]:
    """The model that `config` names, and random parameters for it."""
    model = create_model(config, sizes)
    one = jnp.zeros((1,), jnp.int32)
    parameters = parameters_of(model, one, one[:, None], literals(sizes), train=False)
    return model, with_positive_variances(parameters)


def with_positive_variances(parameters: dict) -> dict:
    """The parameters, changed so that batch normalisation finds a variance in each of its running ones."""
    for norm in parameters.values():
        if isinstance(norm, dict):
            with_positive_variances(norm)
    if "running_variance" in parameters:
        parameters["running_variance"] = jnp.abs(parameters["running_variance"]) + 0.5
    return parameters
