"""Reference: gradient boosting on the values of both entities and their differences, per relation.

Source: Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features", NeurIPS 2018.

    x_ij = [v_i, v_j, v_i - v_j]      v_i all M values of i as quantiles, missing where one is missing
    examples: x_ht with label 1 and x_th with label 0, for every training fact (h, r, t)
    score = the sum of the trees' leaves for x_ht, a logit

It sees no entity but by its values.  The trees, all of whose nodes at one depth ask the same question, become
arrays that JAX evaluates, so checkpoints and ranking need no CatBoost.
"""

import json
import pathlib
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.references.compared import Reference, unknown_last
from numcoke_jax.system.errors import UserError

DEPTH = 4
LEARNING_RATE = 0.1
NEVER = np.finfo(np.float32).max  # a border that no value is above: questions of trees of lower depth


@struct.dataclass
class ValuesAndTrees:
    """What S relations are scored with; T trees of depth K each."""

    values: Any  # float32 [N, M], NaN where missing
    feature: Any  # int32 [S, T, K], column of x_ij
    border: Any  # float32 [S, T, K]
    leaf: Any  # float32 [S, T, 2^K]
    bias: Any  # float32 [S]
    known: Any  # bool [S, N]


class BoostedPairs(Reference):
    """Ranks by a classifier of pairs.

    Attributes:
      trees: T.
    """

    trees: int = 200

    def setup(self) -> None:
        super().setup()
        shape = self.sizes.relations, self.trees
        self.feature = self.zeros("feature", *shape, DEPTH)
        self.border = self.zeros("border", *shape, DEPTH)
        self.leaf = self.zeros("leaf", *shape, 2**DEPTH)
        self.bias = self.zeros("bias", self.sizes.relations)

    def own_arrays(
        self, graph: NumericGraph, positions: np.ndarray, weight: np.ndarray, seed: int
    ) -> dict[str, Any]:
        """The trees of each relation; raises UserError if CatBoost is not installed."""
        values, relations = positions.astype(np.float32), range(graph.num_relations)
        facts = [graph.train[graph.train[:, RELATION] == relation] for relation in relations]
        fitted = [fitted_trees(own, values, trees=self.trees, seed=seed) for own in facts]
        return {name: np.stack([trees[name] for trees in fitted]) for name in fitted[0]}

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> ValuesAndTrees:
        """The values of all entities, and the relations' trees."""
        return ValuesAndTrees(
            values=jnp.where(literals.observed, literals.positions, jnp.nan),
            feature=self.feature[relations].astype(jnp.int32),
            border=self.border[relations],
            leaf=self.leaf[relations],
            bias=self.bias[relations],
            known=self.known(relations),
        )

    def score(
        self, encoded: ValuesAndTrees, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        """Sums of leaves, one tree after the other."""

        def of_relation(feature: Array, border: Array, leaf: Array, bias: Array, heads: Array) -> Array:
            of_heads, tails = encoded.values[heads], encoded.values

            def add(total: Array, tree: tuple[Array, Array, Array]) -> tuple[Array, None]:
                return total + tree[2][_leaves(of_heads, tails, tree[0], tree[1])], None

            total = jnp.full((heads.shape[0], tails.shape[0]), bias)
            return jax.lax.scan(add, total, (feature, border, leaf))[0]

        arrays = encoded.feature, encoded.border, encoded.leaf, encoded.bias
        return unknown_last(jax.vmap(of_relation)(*arrays, heads), encoded.known)


def _leaves(
    heads: Float[Array, "H M"],
    tails: Float[Array, "N M"],
    feature: Int[Array, " K"],
    border: Float[Array, " K"],
) -> Int[Array, "H N"]:
    """The leaf of each pair in one tree: bit k says whether x_ij is above border k; no missing value is."""
    fields, leaves = heads.shape[1], jnp.zeros((heads.shape[0], tails.shape[0]), jnp.int32)
    for level in range(DEPTH):
        side, field = feature[level] // fields, feature[level] % fields
        head, tail = heads[:, field][:, None], tails[:, field][None]
        value = jnp.where(side == 0, head, jnp.where(side == 1, tail, head - tail))
        leaves += (value > border[level]).astype(jnp.int32) << level
    return leaves


def pair_features(heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Float32 [n, 3 M] features of pairs from their values, float32 [n, M] each."""
    return np.concatenate([heads, tails, heads - tails], axis=1)


def fitted_trees(facts: np.ndarray, values: np.ndarray, *, trees: int, seed: int) -> dict[str, np.ndarray]:
    """The trees of one relation as arrays without the axis S of `ValuesAndTrees`.

    Args:
      facts: int32 [n, 3], its training facts.
      values: float32 [N, M] quantiles; NaN where missing.
      trees: T; where fewer are grown, the others have leaves of 0.
      seed: CatBoost's.

    Raises:
      UserError: CatBoost is not installed.
    """
    arrays = empty_trees(trees)
    if len(facts) and not np.isnan(values).all():
        heads, tails = values[facts[:, HEAD]], values[facts[:, TAIL]]
        features = np.concatenate([pair_features(heads, tails), pair_features(tails, heads)])
        model = classifier(trees, seed).fit(features, np.repeat([1, 0], len(facts)))
        fill_trees(arrays, model)
    return arrays


def classifier(trees: int, seed: int) -> Any:
    """CatBoost's classifier, which is not fitted yet.

    Raises:
      UserError: CatBoost is not installed.
    """
    try:
        import catboost
    except ImportError:
        raise UserError(
            "model.name=boosted_pairs is fitted with CatBoost, which is not installed: "
            'pip install "catboost>=1.2"'
        ) from None
    return catboost.CatBoostClassifier(
        iterations=trees,
        depth=DEPTH,
        learning_rate=LEARNING_RATE,
        random_seed=seed,
        nan_mode="Min",  # below every border, as in a comparison of NaN
        thread_count=1,  # the same bits on every machine
        allow_writing_files=False,
        verbose=False,
    )


def empty_trees(trees: int) -> dict[str, np.ndarray]:
    """Arrays of `fitted_trees` that add up to 0."""
    return {
        "feature": np.zeros((trees, DEPTH), np.int32),
        "border": np.full((trees, DEPTH), NEVER, np.float32),
        "leaf": np.zeros((trees, 2**DEPTH), np.float32),
        "bias": np.zeros((), np.float32),
    }


def fill_trees(arrays: dict[str, np.ndarray], model: Any) -> None:
    """Write the trees of a fitted classifier into arrays of `empty_trees`."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        exported = json.loads(path.read_text(encoding="utf-8"))
    scale, bias = exported["scale_and_bias"]
    arrays["bias"][...] = bias[0]
    for number, tree in enumerate(exported["oblivious_trees"]):
        for level, split in enumerate(tree["splits"] or ()):
            arrays["feature"][number, level] = split["float_feature_index"]
            arrays["border"][number, level] = split["border"]
        leaves = scale * np.asarray(tree["leaf_values"])
        arrays["leaf"][number, : len(leaves)] = leaves


MODEL = ModelSpec(
    lambda config, sizes: BoostedPairs(sizes, trees=config.references.trees),
    per_entity=("entity_seen",),
    fitted=True,
)
