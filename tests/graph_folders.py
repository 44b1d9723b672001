"""A small graph as a folder, with changes."""

from pathlib import Path

from numcoke_jax.data.graph import NumericGraph

ARRAYS = ("train", "valid", "test", "negatives", "values", "observed")
GOOD = {
    "train.txt": "kiln\tnear\tlamp\nlamp\tnear\toven\n",
    "valid.txt": "kiln\tnear\toven\n",
    "test.txt": "oven\tnear\tlamp\n",
    "neg.txt": "lamp\tnear\tkiln\n",
    "literals/numerical_literals.txt": "kiln\tmass\t900\nlamp\tmass\t2\n",
}


def make_folder(path: Path, **changes: str | bytes | None) -> Path:
    """GOOD with changed files (`train`, `literals`, ...); None leaves a file out."""
    names = {name: name.split("/")[0].removesuffix(".txt") for name in GOOD}
    for name, content in GOOD.items():
        changed = changes.get(names[name], content)
        if changed is not None:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(changed.encode() if isinstance(changed, str) else changed)
    return path


def assert_same_graph(first: NumericGraph, second: NumericGraph) -> None:
    assert first.vocabulary == second.vocabulary
    for name in ARRAYS:
        one, other = getattr(first, name), getattr(second, name)
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()), name
