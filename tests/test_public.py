"""What importing the package gives, and what it must not wait for."""

import subprocess
import sys
from pathlib import Path

import pytest

import numcoke_jax
from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.runs.stored import write_vocabulary
from numcoke_jax.system.errors import UserError
from tests.tiny_runs import REPOSITORY

SLOW = {"jax", "flax", "optax", "orbax", "pandas", "pyarrow", "matplotlib", "scipy"}


def loaded_by(script: str) -> set[str]:
    """The slow libraries that a script imports."""
    code = f"import sys\n{script}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return SLOW & set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    from numcoke_jax import api

    assert numcoke_jax.__all__ == ["Model", "NumericKG", "UserError", "train"]
    assert {name for name in dir(numcoke_jax) if name in numcoke_jax.__all__} == set(numcoke_jax.__all__)
    assert (numcoke_jax.Model, numcoke_jax.NumericKG, numcoke_jax.train) == (
        api.Model,
        api.NumericKG,
        api.train,
    )
    assert numcoke_jax.UserError is UserError
    with pytest.raises(AttributeError, match="has no attribute 'Modle'"):
        _ = numcoke_jax.Modle


def test_importing_the_package_waits_for_nothing() -> None:
    assert loaded_by("import numcoke_jax; numcoke_jax.UserError") == set()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["predict", "--head=ac", "--relation=r"], "--head: there is no entity 'ac'; the closest: 'ab'"),
        (["predict", "--head=ab", "--relation=s"], "--relation: there is no relation 's'"),
        (
            ["predict", "--head=ab", "--relation=r", "--candidates", "ab", "xx"],
            "--candidates: there is no entity 'xx'",
        ),
        (["predict", "--entities=x.csv", "--relation=s"], "--relation: there is no relation 's'"),
        (["explain", "--head=ab", "--relation=r", "--tail=ac"], "--tail: there is no entity 'ac'"),
        (["impute", "--field=sise"], "--field: there is no field 'sise'; the closest: 'size'"),
        (["impute", "--entity=ac"], "--entity: there is no entity 'ac'"),
    ],
)
def test_a_misspelt_name_is_answered_before_slow_libraries_are_imported(
    tmp_path: Path, words: list[str], error: str
) -> None:
    (tmp_path / "config.json").write_text('{"seed": 0}')
    write_vocabulary(tmp_path / "vocabulary.json", Vocabulary(("ab", "cd"), ("r",), ("size",)), {})
    script = (
        "import contextlib, io\nfrom numcoke_jax.cli.main import main\nsaid = io.StringIO()\n"
        f"with contextlib.redirect_stderr(said): code = main({[*words, f'--workdir={tmp_path}']!r})\n"
        f"assert code == 2 and said.getvalue().startswith({'error: ' + error!r}), said.getvalue()"
    )
    assert loaded_by(script) == set()
