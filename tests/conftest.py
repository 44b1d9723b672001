"""Settings of the whole test suite: the device, the threads, shape checks, hypothesis, shared folders."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Before the first import of jax or NumPy. Results must not depend on the machine: the CPU, also where there
# is a GPU (NUMCOKE_TEST_PLATFORM=cuda tries the suite there); one thread a test process, since pytest-xdist
# already fills the cores; nothing read from a compilation cache that an earlier version wrote.
os.environ["JAX_PLATFORMS"] = os.environ.get("NUMCOKE_TEST_PLATFORM", "cpu")
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
# Most of the time of a small test goes into compiling. LLVM need not optimise what runs once, and XLA's older
# code generator for fused loops takes a third of the time of the newer one.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_cpu_multi_thread_eigen=false",
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
    ]
)
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
# Traces are millions of small objects and hardly a cycle: to look for one after every 700, as Python does by
# default, takes a tenth of the whole time.
gc.set_threshold(50_000, 20, 100)
# A developer's own tables must not change what the tests find; a test that needs the variable sets it.
os.environ.pop("NUMCOKE_DATA", None)

import hypothesis  # noqa: E402
import jaxtyping  # noqa: E402
import pytest  # noqa: E402

from tests.runtime_types import checked  # noqa: E402

# Checks types, dtypes and shapes of every annotated call inside the package, in the tests only.
jaxtyping.jaxtyped = checked  # type: ignore[assignment]
jaxtyping.install_import_hook("numcoke_jax", None)

# No deadlines, no complaint about slow examples: the first one compiles, and CI's cores are shared.
# CI tries the same examples every time, a developer's machine new ones.
patient = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("local", parent=patient)
hypothesis.settings.register_profile("ci", parent=patient, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names a parameter of bytes by its length.

    A packed file holds the second in which it was packed, and the processes of pytest-xdist refuse to run
    tests whose names differ between them.
    """
    return f"{argname}-of-{len(val)}-bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def never_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test reads of a command in its own process does not depend on how busy the machine is."""
    monkeypatch.setattr("numcoke_jax.system.console.SILENT_SECONDS", 3600.0)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than one block of a tiny model's 4 dimensions, and less to compile than 20 unrolled."""
    monkeypatch.setattr("numcoke_jax.models.ops.pairwise.FORWARD_BLOCK", 3)
    monkeypatch.setattr("numcoke_jax.models.ops.pairwise.BACKWARD_BLOCK", 3)


@pytest.fixture(scope="module")
def one_label_is_enough() -> Iterator[None]:
    """Small graphs have no 20 validation facts of a relation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numcoke_jax.evaluation.calibration.LEAST_LABELS", 1)
        yield


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder `shared` beside the checkout: raw tables and graphs that are too large to commit."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder `shared` beside the checkout: the data of this test is not in the repository")
    return folder


@pytest.fixture(scope="session")
def cases_dir() -> Path:
    """Small folders with hard inputs, each with the outcome that it must have."""
    return REPOSITORY / "tests" / "cases"


@pytest.fixture(scope="module")
def generated(cases_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Runs a case's gen.py in a folder of its own."""

    def generate(name: str, size: int) -> Path:
        folder = tmp_path_factory.mktemp(name)
        command = [sys.executable, str(cases_dir / name / "gen.py"), str(size)]
        subprocess.run(command, cwd=folder, check=True)
        return folder

    return generate
