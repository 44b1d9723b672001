"""The layers of docs/architecture.md: every module has one, and imports only from it and those above it."""

import ast
import functools
import graphlib
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "numcoke_jax"


def module_of(path: Path) -> str:
    """The dotted name without the package's own, such as "data.load"; a subpackage by its name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {module_of(path): path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"}


@functools.cache
def layers() -> list[tuple[str, list[str]]]:
    """The rows of the table, each with the modules that its patterns match."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text[text.index("| layer | modules |") : text.index("## The computation")]
    rows = [row.strip("|").split("|") for row in table.splitlines()[2:] if row.startswith("|")]
    found = []
    for title, cell in rows:
        patterns = re.findall(r"`([^`]+)`", cell)
        matched = [
            module
            for pattern in patterns
            for module in sorted(MODULES)
            if module == pattern or (pattern.endswith(".*") and f"{module}.".startswith(pattern[:-1]))
        ]
        found.append((title.strip(), matched))
    return found


def imported(module: str) -> set[str]:
    """The modules of the package that a module imports anywhere in its file."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numcoke_jax"):
            origin = (node.module or "").removeprefix("numcoke_jax").lstrip(".")
            for alias in node.names:
                full = f"{origin}.{alias.name}".lstrip(".")
                found.add(full if full in MODULES else origin)
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("numcoke_jax") for alias in node.names), module
    return found - {""}


def test_every_module_has_one_layer() -> None:
    placed = [module for _, members in layers() for module in members]
    assert sorted(placed) == sorted(MODULES)


@pytest.mark.parametrize("title", [title for title, _ in layers()])
def test_modules_import_from_their_own_layer_and_from_those_above(title: str) -> None:
    allowed: set[str] = set()
    for name, members in layers():
        allowed |= set(members)
        if name == title:
            break
    wrong = {module: imported(module) - allowed for module in dict(layers())[title]}
    assert {module: names for module, names in wrong.items() if names} == {}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graphlib.TopologicalSorter({module: imported(module) for module in MODULES}).prepare()
