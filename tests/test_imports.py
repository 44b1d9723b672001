"""The shape of the house: its imports and their picture in docs/architecture.md, how long its parts are."""

import ast
import functools
import importlib.util
import statistics
from collections.abc import Iterator
from types import ModuleType

import grimp
import pytest

from tests.tiny_runs import REPOSITORY


@pytest.fixture(scope="module")
def imports() -> ModuleType:
    spec = importlib.util.spec_from_file_location("imports", REPOSITORY / "docs" / "imports.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_that_of_the_modules(imports: ModuleType) -> None:
    assert imports.picture() in (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8"), (
        "print it anew: python docs/imports.py"
    )


def test_no_arrow_points_upwards(imports: ModuleType) -> None:
    found = imports.arrows()
    assert found and all(imports.ORDER.index(a) < imports.ORDER.index(b) for a, b in found)
    assert ("runs", "models") in found and ("models", "runs") not in found


def sources() -> dict[str, str]:
    """Path -> text of every Python file of the project."""
    folders = ("numcoke_jax", "configs", "experiments", "tests", "docs")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("*.py")]
    return {str(file.relative_to(REPOSITORY)): file.read_text(encoding="utf-8") for file in files}


def function_lengths() -> Iterator[tuple[str, int]]:
    """Path and name of every function, and how many lines it has with its docstring."""
    for path, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_the_longest_chain_of_imports() -> None:
    graph = grimp.build_graph("numcoke_jax", cache_dir=None, exclude_type_checking_imports=True)

    @functools.cache
    def chain(module: str) -> tuple[str, ...]:
        below = [chain(name) for name in sorted(graph.find_modules_directly_imported_by(module))]
        return (module, *max(below, key=len, default=()))

    longest = max(map(chain, sorted(graph.modules)), key=len)
    assert 8 < len(longest) <= 12, "a longer chain is harder to follow: " + " > ".join(longest)


def test_files_and_functions_stay_short() -> None:
    long_files = {path: lines for path, text in sources().items() if (lines := text.count("\n")) > 450}
    lengths = dict(function_lengths())
    assert len(lengths) > 3000 and not long_files, "split them by what they are about"
    assert not {name: lines for name, lines in lengths.items() if lines > 60}
    assert statistics.median(lengths.values()) < 15
