"""A trained model as files that need no part of this package: tables of vectors, and a scoring function.

    manifest.json      what is here, by which versions, how to read it and how to make it anew
    score.jax          (relation int32 [], heads int32 [b]) -> logits float32 [b, N], written by `jax.export`
    entities.parquet   a row per entity, in the order of the ids: its name and its vectors
    relations.parquet  a row per relation: its name, its vectors, and how its scores become probabilities
    positions.parquet  a row per entity and relation that an order core or a value decides; if there are any

The parameters are inside score.jax; its heads are scored one after the other, whatever their number b.
"""

import datetime
import functools
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import export

from numcoke_jax.inference.predict import Predictor
from numcoke_jax.inference.trained import Trained
from numcoke_jax.models.encoded import CLASSES, ORDER, decided_by
from numcoke_jax.models.order_core.score import OrderPositions
from numcoke_jax.models.padding import is_per_entity
from numcoke_jax.runs.environment import describe_environment
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.files import cannot_write, flush_folder, write_bytes_atomically, write_json_atomically

FORMAT = 1  # of the folder
PLATFORMS = ("cpu", "cuda", "tpu")
MANIFEST, SCORE = "manifest.json", "score.jax"
DECIDED = ("order_core", "value_classes")  # the modules whose arrays have a column per decided relation
GUARANTEE = "https://docs.jax.dev/en/latest/export/export.html#compatibility-guarantees"
READABLE_MONTHS, READABLE_WEEKS = 6, 3  # by newer and by older releases of JAX, as that page promises


def export_run(trained: Trained, folder: Path, command: str) -> dict[str, Any]:
    """Write a new folder, whole or not at all; returns what manifest.json holds.

    Args:
      trained: the run.
      folder: must not exist; its parent must.
      command: what makes the folder anew.

    Raises:
      UserError: the folder exists or cannot be written.
    """
    if os.path.lexists(folder):
        raise UserError(f"--to={shown_path(folder)} already exists; give another folder, or move it away")
    score = exported_score(trained)
    partial = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write_bytes_atomically(partial / SCORE, bytes(score.serialize()))
        for name, table in tables(trained).items():
            table.to_parquet(partial / name, index=False)
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in partial.iterdir()}
        manifest = _manifest(trained, score, dict(sorted(files.items())), command)
        write_json_atomically(partial / MANIFEST, manifest)
        os.rename(partial, folder)
        flush_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise cannot_write(folder, error) from error
    return manifest


def exported_score(trained: Trained) -> export.Exported:
    """The scoring function, for any number of heads and all `PLATFORMS`."""
    scorer, entities = trained.run.scorer, trained.run.graph.num_entities

    def score(relation: jax.Array, heads: jax.Array) -> jax.Array:
        encoded = scorer.encode(trained.params, relation)
        of_head = functools.partial(scorer.score, trained.params, encoded)
        return jax.lax.map(lambda head: of_head(head[None])[0, :entities], heads)

    (count,) = export.symbolic_shape("b")
    arguments = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((count,), jnp.int32)
    return export.export(jax.jit(score), platforms=PLATFORMS)(*arguments)


def tables(trained: Trained) -> dict[str, pd.DataFrame]:
    """The tables by the name of their file; float32, in the order of the ids."""
    vocabulary, predictor = trained.run.graph.vocabulary, trained.predictor()
    params = jax.device_get(trained.params)
    flat = {
        tuple(key.key for key in path): (is_per_entity(path), np.asarray(leaf, np.float32))
        for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]
    }
    entities: dict[str, Any] = {"entity": vocabulary.entities}
    relations: dict[str, Any] = {"relation": vocabulary.relations}
    for path, (per_entity, array) in flat.items():
        name = ".".join(path)
        if path[0] in DECIDED:
            continue
        if per_entity:
            entities[name] = _column(array[: len(vocabulary.entities)])
        elif path[-1].startswith("relation") and array.shape[:1] == (len(vocabulary.relations),):
            relations[name] = _column(array)
    probabilities = [_probability(predictor, relation) for relation in range(len(vocabulary.relations))]
    relations |= pd.DataFrame(probabilities).to_dict("list")
    found = {"entities.parquet": pd.DataFrame(entities), "relations.parquet": pd.DataFrame(relations)}
    positions = [_positions(trained, flat, module) for module in DECIDED if (module in params)]
    return found | ({"positions.parquet": pd.concat(positions, ignore_index=True)} if positions else {})


def _column(array: np.ndarray) -> list[Any]:
    """Numbers, or a list of them for each row."""
    return list(array.reshape(len(array), -1)) if array.ndim > 1 else array.tolist()


def _positions(trained: Trained, flat: dict[Any, Any], module: str) -> pd.DataFrame:
    """The rows of an order core or of value classes: what each decided relation says of each entity."""
    graph, sizes = trained.run.graph, trained.run.sizes
    decided = sizes.ordered if module == DECIDED[0] else sizes.classes
    rows = {
        path[-1].removeprefix("entity_"): array[: graph.num_entities].T.reshape(-1)
        for path, (per_entity, array) in flat.items()
        if path[0] == module and per_entity
    }
    names = {
        "entity": np.tile(np.array(graph.vocabulary.entities, object), len(decided)),
        "relation": np.repeat(
            [graph.vocabulary.relations[relation] for relation in decided], graph.num_entities
        ),
    }
    return pd.DataFrame(names | rows)


def _probability(predictor: Predictor, relation: int) -> dict[str, Any]:
    """How a score, or two positions, become a probability under a relation."""
    encoded = predictor.encoded(relation)
    by = decided_by(encoded)
    scale = predictor.calibration.relations.get(relation)
    fitted = getattr(encoded, {ORDER: "order", CLASSES: "classes"}[by]) if by else None
    return {
        "decided_by": by or "score",
        "temperature": None if by or scale is None else scale.temperature,
        "shift": None if by or scale is None else scale.shift,
        "noise": None if fitted is None else float(fitted.noise[0]),
        "reversed_share": float(fitted.reversed_share[0]) if isinstance(fitted, OrderPositions) else None,
    }


def _manifest(
    trained: Trained, exported: export.Exported, files: dict[str, str], command: str
) -> dict[str, Any]:
    run, environment = trained.run, describe_environment(trained.run.graph)
    packages = environment["packages"]
    return {
        "format": FORMAT,
        "made_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "made_again_by": command,
        "sizes": {"entities": run.graph.num_entities, "relations": run.graph.num_relations},
        "model": run.config.model.name,
        "best_epoch": trained.report and trained.report["best_epoch"],
        "data_sha256": environment["data_sha256"],
        "packages": packages,
        "python": environment["python"],
        "files_sha256": files,
        "score": {
            "file": SCORE,
            "arguments": ["relation: int32 []", "heads: int32 [b], any b"],
            "result": f"float32 [b, {run.graph.num_entities}], the logit of every entity as tail",
            "ids": "rows of entities.parquet and relations.parquet, from 0; another id has no meaning",
            "platforms": list(exported.platforms),
            "calling_convention_version": exported.calling_convention_version,
            "readable": _readable(packages),
        },
    }


def _readable(packages: dict[str, str | None]) -> dict[str, Any]:
    """Until when JAX promises to read the function, as far as an installed jaxlib can say."""
    jaxlib = packages["jaxlib"]
    return {
        "by": f"jax and jaxlib up to {READABLE_MONTHS} months newer and {READABLE_WEEKS} weeks older than "
        f"jaxlib {jaxlib}, by the days on which they were built",
        "until": f"{READABLE_MONTHS} months after https://pypi.org/project/jaxlib/{jaxlib}/ was released",
        "exactly": f"with jaxlib {jaxlib} itself, at any time",
        "promised_at": GUARANTEE,
    }
