"""A save that fails or is killed is one message, and leaves the earlier checkpoints as they were."""

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.runs import checkpoints as checkpoints_module
from numcoke_jax.runs.checkpoints import PARTIAL, Checkpoints, Name, nonfinite_arrays
from numcoke_jax.system.errors import UserError
from tests.disks import small_disk
from tests.saved_states import PROGRESS, opened, state_at
from tests.tiny_runs import snapshot


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_saved(saved: Path, bad: float) -> None:
    before = snapshot(saved)
    state = state_at(30)
    in_params = state.replace(params={**state.params, "table": state.params["table"].at[2, 1].set(bad)})
    moments = jax.tree.map(lambda leaf: leaf * bad if leaf.ndim == 2 else leaf, state.opt_state)
    with opened(saved) as checkpoints:
        with pytest.raises(FloatingPointError, match="after step 30 not finite, so not saved: params/table$"):
            checkpoints.save(in_params, PROGRESS, best_step=10)
        with pytest.raises(FloatingPointError, match=r"opt_state/0/mu/table"):
            checkpoints.save(state.replace(opt_state=moments), PROGRESS, best_step=10)
    assert snapshot(saved) == before


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_host_and_device_find_the_same_arrays(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = np.finfo(np.float32).max
    tree = {
        "good": jnp.array([[largest, -largest], [0.0, -0.0]]),
        "none": jnp.zeros((0, 3)),
        "ids": jnp.array([2**31 - 1]),
        **{str(bad): jnp.array([1.0, bad, -1.0]) for bad in (np.nan, np.inf, -np.inf)},
        "half": jnp.array([0.0, np.nan], jnp.bfloat16),
    }
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert nonfinite_arrays(tree) == ["-inf", "half", "inf", "nan"]


def test_a_save_that_is_killed_leaves_the_earlier_ones_and_a_rest_that_is_removed(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(saved)

    def killed(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints_module, "seal", killed)
    with opened(saved) as checkpoints, pytest.raises(KeyboardInterrupt):
        checkpoints.save(state_at(30), PROGRESS, best_step=10)
    assert (saved / "30.partial").is_dir()
    monkeypatch.undo()
    with opened(saved) as checkpoints:
        assert [name.step for name in checkpoints.names()] == [10, 20]
        assert checkpoints.remove_partial() == ["30"]
        assert checkpoints.remove_partial() == []
    assert snapshot(saved) == before


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_space_in_orbax(*_: Any, **__: Any) -> Any:
    raise ValueError("RESOURCE_EXHAUSTED: Error writing [os_error_code='28'] [tensorstore_spec='...']")


@pytest.mark.parametrize(
    ("place", "failure"),
    [("seal", no_space), ("orbax", no_space_in_orbax), ("flush", no_space), ("json", no_space)],
)
def test_an_injected_full_disk_is_one_message_and_leaves_the_earlier_checkpoints(
    saved: Path, monkeypatch: pytest.MonkeyPatch, place: str, failure: Any
) -> None:
    """The disk fills up at different moments of a save."""
    before = snapshot(saved)
    with opened(saved) as checkpoints:
        with monkeypatch.context() as patch:
            if place == "orbax":
                patch.setattr(checkpoints._orbax, "save", failure)
            elif place == "json":
                patch.setattr("numcoke_jax.system.files.os.fsync", failure)
            else:
                name = {"seal": "seal", "flush": "os.rename"}[place]
                patch.setattr(f"numcoke_jax.runs.checkpoints.{name}", failure)
            with pytest.raises(UserError) as error:
                checkpoints.save(state_at(30), PROGRESS, best_step=10)
        assert str(error.value) == (
            f"cannot write checkpoint 30 to {saved}: No space left on device; checkpoint 20 is intact; free "
            "space or fix the permissions, then run the same command to resume"
        )
        assert snapshot(saved) == before and sorted(os.listdir(saved)) == ["10", "20"]
        checkpoints.save(state_at(30), PROGRESS, best_step=10)  # with space again
        newest, _ = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(30)


@pytest.mark.parametrize("warned", [True, False], ids=["measured", "met"])
def test_a_disk_that_is_really_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], warned: bool
) -> None:
    """Found by asking for the free space, or by Orbax itself, whose threads are then kept off the screen."""
    with small_disk(tmp_path / "disk", 1024) as disk:
        with opened(disk / "checkpoints") as checkpoints:
            checkpoints.save(state_at(10), PROGRESS, best_step=10)
            before = snapshot(disk)
            free = shutil.disk_usage(disk).free
            (disk / "filling").write_bytes(b"\0" * (free - 20_000))
            if not warned:
                monkeypatch.setattr(Checkpoints, "_ask_for_room", lambda _: None)
            with pytest.raises(
                UserError, match="cannot write checkpoint 20 to .*checkpoint 10 is intact"
            ) as error:
                checkpoints.save(state_at(20), PROGRESS, best_step=10)
            reason = r"0.0 MiB are free, 0.3 MiB are needed" if warned else "No space left on device"
            assert reason in str(error.value)
            (disk / "filling").unlink()
            # Orbax's threads may still write when the error comes; what they leave is named as unfinished.
            unfinished = f"checkpoints/20{PARTIAL}/"
            after = {name: found for name, found in snapshot(disk).items() if not name.startswith(unfinished)}
            assert after == before
            checkpoints.save(state_at(20), PROGRESS, best_step=10)
        with opened(disk / "checkpoints") as checkpoints:
            newest, faults = checkpoints.restore_newest()
            assert newest is not None and newest.name == Name(20) and faults == []
    assert capfd.readouterr() == ("", "")


def test_a_read_only_folder_is_one_message(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024) as disk, opened(disk / "checkpoints") as checkpoints:
        checkpoints.save(state_at(10), PROGRESS, best_step=10)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(UserError, match="cannot write checkpoint 20 to .*: Read-only file system; "):
            checkpoints.save(state_at(20), PROGRESS, best_step=10)
        newest, _ = checkpoints.restore_newest()
        assert newest is not None and newest.name == Name(10)


def test_an_unlistable_folder_is_one_message(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("numcoke_jax.runs.checkpoints.os.listdir", denied)
    with (
        opened(saved) as checkpoints,
        pytest.raises(UserError, match=f"cannot read {saved}: Permission denied"),
    ):
        checkpoints.names()
