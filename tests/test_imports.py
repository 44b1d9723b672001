"""The picture of the imports in docs/architecture.md."""

import importlib.util
from types import ModuleType

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
