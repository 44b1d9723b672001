"""Free memory of a container: its limit, less what is used and cannot be given back."""

from pathlib import Path

import pytest

from numcoke_jax import memory

V2, V1 = memory.CGROUPS


@pytest.mark.parametrize("group", [V2, V1], ids=["version 2", "version 1"])
def test_cached_files_of_a_container_count_as_free(
    group: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limit 1000, used 900, of which 550 are files that were read: 650 are left."""
    _, limit, use, (inactive, active) = group
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / use).write_text("900\n")
    monkeypatch.setattr(memory, "CGROUPS", ((str(tmp_path), *group[1:]),))
    assert memory.available_bytes() == 100
    (tmp_path / "memory.stat").write_text(f"anon 350\n{inactive} 400\n{active} 150\nfile_dirty 3\n")
    assert memory.available_bytes() == 650
    (tmp_path / use).write_text("1700\n")
    assert memory.available_bytes() == 0


def test_without_a_limit_the_machine_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CGROUPS", ())
    of_machine = memory.available_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("900\n")
    monkeypatch.setattr(memory, "CGROUPS", ((str(tmp_path), *V2[1:]), ("/no/such/folder", *V1[1:])))
    found = memory.available_bytes()
    if of_machine is None:  # a platform that does not tell
        assert found is None
    else:
        assert found is not None and 0.5 < found / of_machine < 2.0
