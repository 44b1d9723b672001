"""What a model says about itself is what it is; a new model is one file and one entry of the list."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcoke_jax
from numcoke_jax.models import MODELS, GraphSizes, create_model
from numcoke_jax.models.interface import FittedModel
from tests import examples

TOY = '''
import flax.linen as nn
import jax.numpy as jnp

from numcoke_jax.models.interface import GraphSizes, ModelSpec


class Toy(nn.Module):
    """How often an entity is a tail, whatever the head."""

    sizes: GraphSizes

    def setup(self):
        self.toy_bias = self.param("toy_bias", nn.initializers.zeros_init(), (self.sizes.entities,))

    def __call__(self, relations, heads, literals, *, train):
        encoded = self.encode(relations, literals, train=train)
        return self.score(encoded, heads, train=train), encoded

    def encode(self, relations, literals, *, train):
        return jnp.broadcast_to(self.toy_bias, (len(relations), self.sizes.entities))

    def score(self, encoded, heads, *, train):
        return jnp.broadcast_to(encoded[:, None], (*heads.shape, self.sizes.entities))


def pulled_to_one(config):
    return lambda encoded, logits, batch, *, key: (((encoded - 1.0) ** 2).sum(), jnp.float32(encoded.size))


MODEL = ModelSpec(lambda config, sizes: Toy(sizes), per_entity=("toy_bias",), second_loss=pulled_to_one)
'''
CONFIG = """
from numcoke_jax.config.schema import default_config


def get_config():
    config = default_config()
    config.model.name, config.train.epochs = "toy", 1
    config.data.table, config.data.synthetic_entities, config.data.synthetic_triples = "synthetic", 20, 100
    return config
"""


@pytest.mark.slow
def test_a_model_is_one_file_and_one_entry(tmp_path: Path) -> None:
    package = tmp_path / "numcoke_jax"
    shutil.copytree(Path(numcoke_jax.__file__).parent, package)
    (package / "models" / "toy.py").write_text(TOY, encoding="utf-8")
    listed = package / "config" / "models.py"
    start, bracket, rest = listed.read_text(encoding="utf-8").partition("MODELS: dict[str, ListedModel] = {")
    entry = '\n    "toy": ListedModel("toy", ("okcl.weight",)),'
    listed.write_text(start + bracket + entry + rest, encoding="utf-8")
    (tmp_path / "toy_config.py").write_text(CONFIG, encoding="utf-8")
    run = [sys.executable, "-m", "numcoke_jax.main", "--config=toy_config.py", "--workdir=run"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "JAX_PLATFORMS": "cpu"}

    def output(*flags: str) -> subprocess.CompletedProcess[str]:
        command = [*run, *flags]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    trained = output()
    assert trained.returncode == 0, trained.stderr
    assert json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["model.name"] == "toy"
    assert (tmp_path / "run" / "report.json").exists()
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    assert "contrastive" in metrics, "its second loss is part of the training"
    refused = output("--config.score.order_core=True")
    assert refused.returncode == 2
    assert "has no effect with model.name=toy, which lacks this extension" in refused.stderr


@pytest.mark.parametrize("name", MODELS)
def test_a_model_names_its_arrays_with_a_row_per_entity(name: str) -> None:
    sizes = GraphSizes(23, relations=3, fields=3, ordered=(0,), classes=(1,))  # no other size is 23
    model = create_model(examples.config_with(model__name=name, model__dim=12), sizes)
    one, literals = jnp.zeros((1, 1), jnp.int32), examples.literals(sizes)
    parameters = jax.eval_shape(
        lambda: model.init(jax.random.key(0), one[0], one, literals, train=False)["params"]
    )
    arrays = jax.tree_util.tree_leaves_with_path(parameters)
    of_entities = {path[-1].key for path, array in arrays if array.shape[:1] == (23,)}
    assert of_entities == set(MODELS[name].per_entity)
    assert isinstance(model, FittedModel) >= MODELS[name].fitted


@pytest.mark.parametrize(
    ("name", "angles"),
    [
        ("cone", "rotation"),
        ("rule", "relation_angle"),
        ("rotate", "relation_angle"),
        ("atth", "rotation"),
        ("atth", "reflection"),
        ("kgdm", "rotation"),
    ],
)
def test_angles_of_relations_begin_anywhere_on_the_circle(name: str, angles: str) -> None:
    """100 relations: an angle of pi for all of them would turn no two apart."""
    sizes = GraphSizes(7, relations=100, fields=3)
    config = examples.config_with(model__name=name, model__dim=12)
    model, pi = create_model(config, sizes), np.pi
    if name == "rule":  # in its unit, pi is (epsilon + 2) / (d / 2)
        pi = (config.score.margin + 2.0) / 6
    one, literals = jnp.zeros((1, 1), jnp.int32), examples.literals(sizes)
    initial = jax.jit(lambda key: model.init(key, one[0], one, literals, train=False)["params"][angles])
    found = np.sort(np.asarray(initial(jax.random.key(0))).ravel()) * (np.pi / pi)
    assert found.shape == (600,) and -np.pi <= found[0] and found[-1] <= np.pi
    assert np.diff(found, prepend=-np.pi, append=np.pi).max() < 0.1
