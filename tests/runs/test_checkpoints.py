"""Checkpoints: to the last bit and back; what is damaged, foreign or half written is named and never used."""

import ast
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models import MODELS
from numcoke_jax.runs.checkpoints import Checkpoints, Name, UnusableCheckpoint, array_types, tree_bytes
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import MANIFEST, damage, seal
from numcoke_jax.training.step import TrainState
from tests.saved_states import PROGRESS, Identity, opened, state_at
from tests.tiny_runs import REPOSITORY, arrays_of, snapshot


@pytest.mark.parametrize("stored", [7, 8, 10])
@pytest.mark.parametrize("wanted", [7, 8, 9])
def test_padding_after_the_last_entity_is_that_of_the_reader(
    tmp_path: Path, stored: int, wanted: int
) -> None:
    """Seven entities from any mesh to any other one; seven rows are those of a checkpoint without padding."""
    assert "entity_embedding" in MODELS["numcoke"].per_entity, "as padding knows once the model is looked up"
    table = np.random.default_rng(0).random((7, 3), np.float32)

    def padded_state(rows: int) -> TrainState:
        return state_at(5, entity_embedding=jnp.pad(table, ((0, rows - 7), (0, 0))))

    def opened_with(rows: int, entities: int = 7) -> Checkpoints:
        like = jax.eval_shape(lambda: padded_state(rows))
        return Checkpoints(tmp_path, newest=2, identity=Identity(), like=like, entities=entities)

    with opened_with(stored) as checkpoints:
        name = checkpoints.save(padded_state(stored), PROGRESS, best_step=5)
    with opened_with(wanted) as checkpoints:
        assert arrays_of(checkpoints.restore(name).state) == arrays_of(padded_state(wanted))
    with (
        opened_with(12, entities=8) as checkpoints,
        pytest.raises(
            UnusableCheckpoint, match=r"entity_embedding: float32\[7,3\] there, float32\[8,3\] now"
        ),
    ):
        checkpoints.restore(name)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_state_comes_back_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Every dtype, minus zero, denormals, the key; also where the folder is given as a relative path."""
    monkeypatch.chdir(tmp_path)
    state = state_at(7, seed=3)
    with opened(Path("some/checkpoints")) as checkpoints:
        assert checkpoints.restore_newest() == (None, [])
        assert not (tmp_path / "some").exists(), "reading makes no folder"
        assert checkpoints.save(state, PROGRESS, best_step=0) == Name(7)
        restored, faults = checkpoints.restore_newest()
    assert restored is not None and faults == []
    assert restored.name == Name(7) and restored.progress == PROGRESS
    assert arrays_of(restored.state) == arrays_of(state)
    assert array_types(restored.state) == array_types(state)
    assert jax.random.key_impl(restored.state.key) == jax.random.key_impl(state.key)
    assert (tmp_path / "some" / "checkpoints" / "7" / MANIFEST).is_file()


def test_names_sort_by_step_and_repeat() -> None:
    texts = ["10", "9", "10.2", "10.10", "0"]
    names = sorted(name for text in texts if (name := Name.parse(text)))
    assert [str(name) for name in names] == ["0", "9", "10", "10.2", "10.10"]
    for other in ("10.partial", "010", "10.0", "-1", "1e3", "", "١", "10 ", "state", "9" * 30):
        assert Name.parse(other) is None, other


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path, newest=2) as checkpoints:
        for step in range(1, 9):
            checkpoints.save(state_at(step), PROGRESS, best_step=3 if step >= 3 else 0)
        assert [name.step for name in checkpoints.names()] == [3, 7, 8]
    with opened(tmp_path, newest=1) as checkpoints:
        checkpoints.save(state_at(9), PROGRESS, best_step=9)
        assert [name.step for name in checkpoints.names()] == [9]
    assert sorted(os.listdir(tmp_path)) == ["9"], "nothing half deleted is left"


def test_a_step_that_is_saved_again_gets_a_name_of_its_own(saved: Path) -> None:
    """The state before the validation of a step, then the one after it."""
    before = snapshot(saved / "20")
    with opened(saved, newest=2) as checkpoints:
        assert checkpoints.save(state_at(20), {"validated_step": 20}, best_step=10) == Name(20, 1)
        newest, _ = checkpoints.restore_newest()
        assert newest is not None and newest.progress == {"validated_step": 20}
        assert [str(name) for name in checkpoints.names()] == ["10", "20.1"], "the older one is spare now"
    assert before  # it was never written to: deleted as a whole


def damages(content: bytes) -> dict[str, bytes | None]:
    """What can happen to a file, by name; None: it is gone."""
    changed = {}
    for name, position in (("first", 0), ("middle", len(content) // 2), ("last", len(content) - 1)):
        changed[f"{name} byte changed"] = (
            content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
        )
        changed[f"cut before its {name} byte"] = content[:position]
    return {**changed, "one byte longer": content + b"\0", "missing": None}


def test_damage_in_any_file_is_named(saved: Path) -> None:
    with opened(saved) as checkpoints:
        for path in files_of(saved / "20"):
            name, content = path.relative_to(saved / "20").as_posix(), path.read_bytes()
            for fault, damaged in damages(content).items():
                path.unlink() if damaged is None else path.write_bytes(damaged)
                with pytest.raises(UnusableCheckpoint) as error:
                    checkpoints.usable_at(20)
                said = "missing" if damaged is None else "damaged"
                assert str(error.value).startswith(f"checkpoint 20: {name} is {said}"), fault
                path.write_bytes(content)
            assert checkpoints.usable_at(20) == Name(20)


@pytest.mark.parametrize("file", ["run.json", MANIFEST, "state/manifest.ocdbt"])
def test_the_checkpoint_before_a_damaged_one_is_used(saved: Path, file: str) -> None:
    kept = snapshot(saved / "10")
    path = saved / "20" / file
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with opened(saved) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(10)
    assert arrays_of(newest.state) == arrays_of(state_at(10))
    assert len(faults) == 1 and faults[0].startswith(f"checkpoint 20: {file} is damaged"), faults
    path.write_bytes(content)
    with opened(saved) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(20) and faults == []
    assert snapshot(saved / "10") == kept


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """Every byte of every file and of the manifest, with three changes each."""
    (tmp_path / "inner").mkdir()
    contents = {"a": b"\0\1\2", "inner/b": b"{}", "inner/empty": b""}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    seal(tmp_path)
    assert damage(tmp_path) is None
    for path in files_of(tmp_path):
        content = path.read_bytes()
        for position in range(len(content)):
            for mask in (1, 32, 255):
                changed = bytearray(content)
                changed[position] ^= mask
                path.write_bytes(changed)
                assert damage(tmp_path) is not None, (path, position, mask)
        path.write_bytes(content)
    assert damage(tmp_path) is None
    (tmp_path / ".nfs0001").write_bytes(b"of the file system")
    assert damage(tmp_path) is None, "files that were never part of it do not count"


def test_a_folder_without_a_manifest_and_a_file_are_no_checkpoints(saved: Path) -> None:
    (saved / "30").mkdir()
    (saved / "40").write_text("not a folder")
    (saved / "notes").mkdir()
    with opened(saved) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(20)
    assert faults == [
        "checkpoint 40: it is not a folder",
        f"checkpoint 30: {MANIFEST} is missing: it was not written to the end, or was written by another "
        "program",
    ]


def test_where_no_checkpoint_can_be_used_all_faults_are_told_and_nothing_is_touched(saved: Path) -> None:
    for step in (10, 20):
        (saved / str(step) / "run.json").unlink()
    before = snapshot(saved)
    with (
        opened(saved) as checkpoints,
        pytest.raises(
            UserError,
            match=r"no checkpoint can be used: checkpoint 20: run.json is missing; checkpoint 10: run.json is"
            r" missing; restore a copy of one, give another --workdir, or archive the run with --overwrite",
        ),
    ):
        checkpoints.restore_newest()
    assert snapshot(saved) == before


def test_a_damaged_checkpoint_is_neither_deleted_nor_counted_as_one_of_the_newest(saved: Path) -> None:
    """It could be repaired from a copy; and with it counted, the last good one would be deleted."""
    (saved / "20" / "run.json").write_text("{}")
    with opened(saved, newest=1) as checkpoints:
        newest, _ = checkpoints.restore_newest()
        assert newest is not None and newest.name == Name(10)
        checkpoints.save(state_at(15), PROGRESS, best_step=0)
        assert [name.step for name in checkpoints.names()] == [15, 20]
        assert checkpoints.save(state_at(20), PROGRESS, best_step=0) == Name(20, 1)
        assert [str(name) for name in checkpoints.names()] == ["20", "20.1"]
        checkpoints.save(state_at(25), PROGRESS, best_step=20)
        assert [str(name) for name in checkpoints.names()] == ["20", "20.1", "25"]
        assert checkpoints.usable_at(20) == Name(20, 1)


def other_params(**params: Any) -> Any:
    return jax.eval_shape(lambda: state_at(0, **params))


@pytest.mark.parametrize(
    ("like", "word", "found"),
    [
        (None, "theirs", "word: ours there, theirs now"),
        (
            other_params(table=jnp.zeros((8, 3))),
            "ours",
            "opt_state/0/mu/table: float32[7,3] there, float32[8,3] now; "
            "opt_state/0/nu/table: float32[7,3] there, float32[8,3] now; "
            "params/table: float32[7,3] there, float32[8,3] now",
        ),
        (
            other_params(half=jnp.zeros(5, jnp.float16)),
            "ours",
            "opt_state/0/mu/half: bfloat16[5] there, float16[5] now; "
            "opt_state/0/nu/half: bfloat16[5] there, float16[5] now; "
            "params/half: bfloat16[5] there, float16[5] now",
        ),
        (
            other_params(more=jnp.zeros(())),
            "ours",
            "opt_state/0/mu/more: absent there, float32[] now; opt_state/0/nu/more: absent there, float32[] "
            "now; params/more: absent there, float32[] now",
        ),
    ],
    ids=["identity", "shape", "dtype", "missing"],
)
def test_a_checkpoint_of_another_run_is_refused_by_key_with_both_values(
    saved: Path, like: Any, word: str, found: str
) -> None:
    """Orbax itself would cast a dtype without a word."""
    with opened(saved, word=word, like=like) as checkpoints, pytest.raises(UserError) as error:
        checkpoints.restore_newest()
    assert f"checkpoint 20 is from another run: {found};" in str(error.value)


def test_another_prng_is_another_run(saved: Path) -> None:
    like = jax.eval_shape(lambda: state_at(0).replace(key=jax.random.key(0, impl="rbg")))
    with opened(saved, like=like) as checkpoints, pytest.raises(UserError) as error:
        checkpoints.restore_newest()
    assert "checkpoint 20 is from another run: key: key<fry>[] there, key<rbg>[] now;" in str(error.value)


def test_a_foreign_checkpoint_among_ours_is_named_and_passed_over(saved: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other", word="theirs") as checkpoints:
        checkpoints.save(state_at(30), PROGRESS, best_step=0)
    shutil.copytree(tmp_path / "other" / "30", saved / "30")
    shutil.copytree(saved / "10", saved / "40")  # ours, under a wrong name
    with opened(saved) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(20)
    assert faults == [
        "checkpoint 40 is from another run: step: 10 there, 40 by its name",
        "checkpoint 30 is from another run: word: theirs there, ours now",
    ]


@pytest.mark.parametrize(
    "entry", [{}, [], {"format": 2}, {"format": 1}, {"format": 1, "step": 50, "arrays": 3}]
)
def test_a_sealed_folder_of_another_program_is_passed_over(saved: Path, entry: Any) -> None:
    (saved / "50").mkdir()
    (saved / "50" / "run.json").write_text(json.dumps(entry))
    seal(saved / "50")
    with opened(saved) as checkpoints:
        newest, faults = checkpoints.restore_newest()
    assert newest is not None and newest.name == Name(20)
    assert len(faults) == 1 and faults[0].startswith("checkpoint 50 ")


def test_nothing_from_the_disk_is_unpickled(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pickle could run code that comes from the disk")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    with opened(saved) as checkpoints:
        newest, _ = checkpoints.restore_newest()
    assert newest is not None


def test_the_package_imports_nothing_that_runs_code_from_the_disk() -> None:
    """Config files are Python by design: they come from the user, not from a workdir."""
    forbidden = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
    for path in sorted((REPOSITORY / "numcoke_jax").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported = {(node.module or "").split(".")[0]}
            else:
                imported = set()
            assert not imported & forbidden, path
            assert not (isinstance(node, ast.keyword) and node.arg == "allow_pickle"), path


def test_only_one_module_imports_orbax() -> None:
    files = (REPOSITORY / "numcoke_jax").rglob("*.py")
    importing = [path.name for path in files if "import orbax" in path.read_text(encoding="utf-8")]
    assert importing == ["checkpoints.py"]


def test_bytes_of_a_state() -> None:
    """Params 21 + 3 floats, 5 halves; two moments of each; counter, step, key of 8 bytes, six loss sums."""
    params = 4 * (21 + 3) + 2 * 5
    assert tree_bytes(jax.eval_shape(lambda: state_at(0))) == 3 * params + 4 + 4 + 8 + 6 * 4


def test_a_failed_check_is_unusable_not_an_error_of_the_user() -> None:
    assert issubclass(UnusableCheckpoint, UserError)
