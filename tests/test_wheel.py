"""The wheel that pip builds is enough: it trains a shipped config by its name, in an empty folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
# What the console script does, for an installation into a folder, the first argument.  An editable one of the
# checkout must not lend what the wheel lacks.
PROGRAM = """
import sys
from numcoke_jax.cli.main import main
code = main(sys.argv[2:])
files = [module.__file__ or "" for name, module in sys.modules.items() if name.startswith("numcoke_jax")]
assert len(files) > 10 and all(file.startswith(sys.argv[1]) for file in files), files
sys.exit(code)
"""


def run(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content and nothing else; its dependencies are those of the tests."""
    place = tmp_path_factory.mktemp("wheel")
    for name in ("numcoke_jax", "configs"):
        shutil.copytree(REPOSITORY / name, place / "source" / name, ignore=LEFT_OUT)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, place / "source")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--wheel-dir=wheels", "./source"], place)
    (wheel,) = (place / "wheels").iterdir()
    run([*pip, "install", "--no-deps", "--target=installed", str(wheel)], place)
    shutil.rmtree(place / "source")
    return place / "installed"


@pytest.mark.slow  # builds and trains
def test_the_wheel_trains_a_shipped_config_and_predicts(installed: Path, tmp_path: Path) -> None:
    numcoke = [sys.executable, "-P", "-c", PROGRAM, str(installed)]
    variables = {"PYTHONPATH": str(installed)}
    results = run([*numcoke, "train", "--config=cars"], tmp_path, **variables)
    assert "Results  tails ranked, filtered" in results
    assert (tmp_path / "runs" / "cars-seed0" / "report.html").stat().st_size > 10_000
    asked = ["--workdir=runs/cars-seed0", "--head=ford maverick (1973)", "--relation=Horsepower_comp"]
    answers = run([*numcoke, "predict", *asked, "--top=1"], tmp_path, **variables)
    answer = answers.rstrip().splitlines()[-1]  # what was waited for, if it was long, comes first
    assert answer.split()[0] == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
