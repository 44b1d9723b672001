"""What `numcoke export` writes is the model: read without this package, recomputed from its tables."""

import errno
import hashlib
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

from numcoke_jax.cli.main import main
from numcoke_jax.inference.export import MANIFEST, PLATFORMS, export_run
from numcoke_jax.inference.frames import score_triples
from numcoke_jax.inference.trained import Trained
from numcoke_jax.system.errors import UserError
from tests.inference.decided_runs import complete, decided
from tests.tiny_runs import config_of, numcoke, untrained, write_folder

HEADS = [3, 0, 3, 5, 1]
# Knows JAX and nothing of this package.
READER = """
import json, pathlib, sys
import jax
found = []
for folder in map(pathlib.Path, sys.argv[1:]):
    score = jax.export.deserialize(bytearray((folder / "score.jax").read_bytes()))
    relation, heads = jax.numpy.int32(0), jax.numpy.array(HEADS, "int32")
    several = score.call(relation, heads)
    assert (score.call(relation, heads[:1]) == several[:1]).all()
    found.append(several.tolist())
assert not [name for name in sys.modules if name.startswith(("numcoke", "flax"))]
print(json.dumps(found))
""".replace("HEADS", str(HEADS))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trained]:
    """Vectors alone, the encoder that reads values, and an order core."""
    folder = write_folder(tmp_path_factory.mktemp("graph") / "tiny")
    return {
        "transe": untrained(config_of(folder)),
        "numcoke": untrained(numcoke(config_of(folder))),
        "decided": decided(complete(seed=3)),
    }


@pytest.fixture(scope="module")
def folders(models: dict[str, Trained], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("exports")
    for name, trained in models.items():
        export_run(trained, place / name, f"numcoke export {name}")
    return {name: place / name for name in models}


def manifest_of(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text())


def test_jax_alone_scores_as_the_model_does(models: dict[str, Trained], folders: dict[str, Path]) -> None:
    command = [sys.executable, "-c", READER, *map(str, folders.values())]
    done = subprocess.run(command, cwd=folders["transe"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for trained, found in zip(models.values(), json.loads(done.stdout), strict=True):
        count = trained.run.graph.num_entities
        triples = np.array([(head, 0, tail) for head in HEADS for tail in range(count)])
        expected = score_triples(trained.predictor(), triples)["score"].to_numpy().reshape(len(HEADS), count)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
        assert len(np.unique(expected)) > count  # nothing is the same for all heads


def test_the_tables_have_names_and_vectors_by_id(
    models: dict[str, Trained], folders: dict[str, Path]
) -> None:
    graph, params = models["transe"].run.graph, models["transe"].params
    entities, relations = (
        pd.read_parquet(folders["transe"] / f"{kind}.parquet") for kind in ("entities", "relations")
    )
    assert entities["entity"].tolist() == list(graph.vocabulary.entities)
    assert relations["relation"].tolist() == list(graph.vocabulary.relations)
    vectors = np.stack(entities["entities.embedding"])
    np.testing.assert_array_equal(vectors, params["entities"]["embedding"])
    np.testing.assert_array_equal(np.stack(relations["relation_embedding"]), params["relation_embedding"])
    assert relations["decided_by"].tolist() == ["score"] * graph.num_relations
    assert not (folders["transe"] / "positions.parquet").exists()


def test_positions_give_the_probability_that_the_head_stands_above(
    models: dict[str, Trained], folders: dict[str, Path]
) -> None:
    """By the formula of the docs, in Python's floats: f + (1 - 2 f) Phi(gap / deviation)."""
    predictor = models["decided"].predictor()
    rows = pd.read_parquet(folders["decided"] / "positions.parquet").set_index("entity")
    relation = pd.read_parquet(folders["decided"] / "relations.parquet").iloc[0]
    assert relation["decided_by"] == "order core" and set(rows["relation"]) == {"above"}
    names, triples = predictor.graph.vocabulary.entities, np.array([(0, 0, 1), (4, 0, 2), (7, 0, 9)])
    for (head, _, tail), expected in zip(
        triples, score_triples(predictor, triples)["probability"], strict=True
    ):
        one, other = rows.loc[names[head]], rows.loc[names[tail]]
        deviation = math.sqrt(one["width"] ** 2 + other["width"] ** 2 + relation["noise"] ** 2)
        above = 0.5 * math.erfc((other["position"] - one["position"]) / deviation / math.sqrt(2))
        share = relation["reversed_share"]
        assert share + (1 - 2 * share) * above == pytest.approx(expected, rel=1e-5)


def test_the_manifest_says_what_it_is_made_of(folders: dict[str, Path]) -> None:
    manifest, folder = manifest_of(folders["numcoke"]), folders["numcoke"]
    assert {path.name for path in folder.iterdir()} == {MANIFEST, *manifest["files_sha256"]}
    for name, checksum in manifest["files_sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == checksum
    score = manifest["score"]
    assert score["platforms"] == list(PLATFORMS) == ["cpu", "cuda", "tpu"]
    supported = jax.export.minimum_supported_calling_convention_version
    assert (
        supported
        <= score["calling_convention_version"]
        <= jax.export.maximum_supported_calling_convention_version
    )
    assert manifest["made_again_by"] == "numcoke export numcoke"
    assert manifest["packages"]["jaxlib"] in score["readable"]["until"]


def test_what_is_there_is_not_overwritten(models: dict[str, Trained], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match=r"^--to=.*mine already exists; give another folder"):
        export_run(models["transe"], tmp_path / "mine", "")
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_full_disk_leaves_nothing(
    models: dict[str, Trained], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.raises(UserError, match=r"^cannot write .*out: No space left on device; free space"):
        export_run(models["transe"], tmp_path / "out", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--workdir=absent --to=out", "absent: there is no such folder; give the workdir of a finished run"),
        ("--workdir=run --to=run", "--to=run already exists; give another folder, or move it away"),
        ("--workdir=run --to=no/out", "--to=no/out: there is no folder no; create it first"),
        ("--workdir=run", "missing: --to; see numcoke export --help"),
    ],
)
def test_mistakes_are_one_line(
    flags: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert main(["export", *shlex.split(flags)]) == 2
    assert capsys.readouterr().err == f"error: {text}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
