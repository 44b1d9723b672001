"""The run's log: one JSON object per line, cut and continued without losing or repeating a line."""

import json
import math
import resource
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboardX.proto.event_pb2 import Event, SessionLog

from numcoke_jax.runs.file_names import METRICS_FILE
from numcoke_jax.runs.logs import EVENTS_FOLDER, RunLog, read_metrics
from numcoke_jax.system.errors import UserError


def write_steps(log: RunLog, steps: range) -> None:
    for step in steps:
        log.write(step, "train", {"loss": 1.0 / step}, epoch=step // 10)
        if step % 10 == 0:
            log.write(step, "valid", {"mrr": step / 100}, epoch=step // 10)


def events(workdir: Path) -> Iterator[Event]:
    """All events of a workdir in the order of writing; the frames are length, checksum, event, checksum."""
    for path in sorted((workdir / EVENTS_FOLDER).iterdir(), key=lambda path: int(path.suffix[1:])):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            yield Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]


def test_a_line_is_one_flat_json_object(tmp_path: Path) -> None:
    with closing(RunLog(tmp_path)) as log:
        log.write(
            7,
            "train",
            {
                "loss": np.float32(0.5),
                "bce": jnp.float32(0.25),
                "queries": np.int32(3),
                "count": 4,
                "best": True,
                "note": "naïve\u2028name",
                "none": None,
            },
            epoch=2,
        )
    assert (tmp_path / METRICS_FILE).read_bytes() == (
        '{"step": 7, "epoch": 2, "kind": "train", "loss": 0.5, "bce": 0.25, "queries": 3, "count": 4, '
        '"best": true, "note": "naïve\u2028name", "none": null}\n'
    ).encode()


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    values = {"a": math.nan, "b": math.inf, "c": -np.inf, "d": np.float32("nan"), "e": jnp.float32(jnp.nan)}
    with closing(RunLog(tmp_path)) as log:
        log.write(1, "train", values, epoch=0)
    line = (tmp_path / METRICS_FILE).read_text()
    assert json.loads(line, parse_constant=lambda name: pytest.fail(f"bare {name}")) == {
        "step": 1,
        "epoch": 0,
        "kind": "train",
    } | dict.fromkeys(values)


def test_a_line_is_on_the_disk_before_write_returns(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write(1, "train", {"loss": 0.5}, epoch=0)
    assert read_metrics(tmp_path / METRICS_FILE) == [{"step": 1, "epoch": 0, "kind": "train", "loss": 0.5}]
    log.close()


@pytest.mark.parametrize("name", ["step", "epoch", "kind"])
def test_values_must_not_take_the_place_of_step_epoch_and_kind(tmp_path: Path, name: str) -> None:
    with (
        closing(RunLog(tmp_path)) as log,
        pytest.raises(ValueError, match="must not name step, epoch or kind"),
    ):
        log.write(1, "train", {name: 1}, epoch=0)
    assert read_metrics(tmp_path / METRICS_FILE) == []


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for steps in (range(1, 11), range(11, 21)):
        with closing(RunLog(tmp_path)) as log:
            write_steps(log, steps)
    with closing(RunLog(tmp_path / "..")) as straight:
        write_steps(straight, range(1, 21))
    assert (tmp_path / METRICS_FILE).read_bytes() == (tmp_path / ".." / METRICS_FILE).read_bytes()


@settings(max_examples=25)  # every example writes and flushes several files
@given(st.integers(0, 30), st.integers(0, 30))
def test_resuming_from_any_checkpoint_gives_the_log_of_a_straight_run(
    tmp_path_factory: pytest.TempPathFactory, killed: int, checkpoint: int
) -> None:
    straight, resumed = tmp_path_factory.mktemp("straight"), tmp_path_factory.mktemp("resumed")
    with closing(RunLog(straight)) as log:
        write_steps(log, range(1, 31))
    checkpoint = min(checkpoint, killed)
    with closing(RunLog(resumed)) as log:
        write_steps(log, range(1, killed + 1))
    with closing(RunLog(resumed)) as log:
        lines_after = sum(1 for line in read_metrics(resumed / METRICS_FILE) if line["step"] > checkpoint)
        assert log.truncate_after(checkpoint) == lines_after
        write_steps(log, range(checkpoint + 1, 31))
    assert (resumed / METRICS_FILE).read_bytes() == (straight / METRICS_FILE).read_bytes()
    assert sorted(path.name for path in resumed.iterdir()) == sorted(path.name for path in straight.iterdir())


def test_a_kill_inside_any_byte_of_the_last_line_loses_that_line_only(tmp_path: Path) -> None:
    with closing(RunLog(tmp_path)) as log:
        write_steps(log, range(1, 4))
    path = tmp_path / METRICS_FILE
    content = path.read_bytes()
    begin = content.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(begin, len(content) + 1):
        path.write_bytes(content[:length])
        whole = length >= len(content) - 1  # only the line end is missing: nothing is lost
        assert [line["step"] for line in read_metrics(path)] == ([1, 2, 3] if whole else [1, 2])
        with closing(RunLog(tmp_path)) as log:
            log.write(4, "train", {"loss": 0.25}, epoch=0)
        assert [line["step"] for line in read_metrics(path)] == ([1, 2, 3, 4] if whole else [1, 2, 4])


def test_zeros_left_by_a_power_cut_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    path.write_bytes(b'{"step": 1, "epoch": 0, "kind": "train"}\n' + b"\x00" * 4096)
    with closing(RunLog(tmp_path)) as log:
        assert log.truncate_after(5) == 0
    assert path.read_bytes() == b'{"step": 1, "epoch": 0, "kind": "train"}\n'


def test_truncating_drops_damaged_lines_and_reading_names_them(tmp_path: Path) -> None:
    path = tmp_path / METRICS_FILE
    good = b'{"step": 1, "epoch": 0, "kind": "train"}\n'
    for bad in (b"\xff\n", b"[1]\n", b'{"loss": 1}\n', b"\n", b'{"step": "x"}\n'):
        path.write_bytes(good + bad + good)
        with pytest.raises(UserError, match=rf"^{path}:2: this line is not a JSON object with a step"):
            read_metrics(path)
        with closing(RunLog(tmp_path)) as log:
            assert log.truncate_after(1) == 1
        assert path.read_bytes() == good * 2


def test_reading_a_log_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^cannot read .*metrics\.jsonl: No such file or directory$"):
        read_metrics(tmp_path / METRICS_FILE)


def test_a_missing_workdir_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^cannot write .*absent/metrics\.jsonl: No such file or directory;"):
        RunLog(tmp_path / "absent")


def test_a_disk_that_fills_up_is_one_message_and_a_log_that_goes_on(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # files of more than 1,000 bytes are refused
    try:
        with pytest.raises(UserError) as caught:
            for step in range(1000):
                log.write(step, "train", {"note": "x" * 100}, epoch=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(caught.value) == (
        f"cannot write {tmp_path / METRICS_FILE}: File too large; free space or choose another folder"
    )
    log.close()
    assert (tmp_path / METRICS_FILE).stat().st_size == 1000, "the last line is torn"
    with closing(RunLog(tmp_path)) as log:
        log.write(1000, "train", {}, epoch=0)
    # {"step": 0, "epoch": 0, "kind": "train", "note": "..."} and the line end: 52 + 100 + 2 bytes, so 6 fit.
    steps = [line["step"] for line in read_metrics(tmp_path / METRICS_FILE)]
    assert steps == [0, 1, 2, 3, 4, 5, 1000]


def test_tensorboard_gets_every_finite_number(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "loss": 0.5,
        "count": 3,
        "nan": math.nan,
        "none": None,
        "best": True,
        "note": "x",
    }
    with closing(RunLog(tmp_path)) as log:
        log.write(4, "train", values, epoch=2)
        log.write(5, "valid", {"hits@1": 0.25}, epoch=2)
    written = list(events(tmp_path))
    assert written[0].file_version == "brain.Event:2"
    scalars = [(event.step, event.summary.value[0]) for event in written[1:]]
    assert [(step, scalar.tag, scalar.simple_value) for step, scalar in scalars] == [
        (4, "train/loss", 0.5),
        (4, "train/count", 3.0),
        (5, "valid/hits_1", 0.25),  # TensorBoard's tags have no @
    ]
    assert all(event.wall_time > 1e9 for event in written)


def test_tensorboard_is_told_to_forget_what_a_resumed_run_writes_again(tmp_path: Path) -> None:
    with closing(RunLog(tmp_path)) as log:
        write_steps(log, range(1, 6))
    with closing(RunLog(tmp_path)) as log:
        log.truncate_after(3)
        write_steps(log, range(4, 6))
    kinds = []
    for event in events(tmp_path):
        if event.HasField("session_log"):
            assert event.session_log.status == SessionLog.START
            kinds.append(f"forget from {event.step}")
        elif event.HasField("summary"):
            kinds.append(str(event.step))
    assert kinds == ["1", "2", "3", "4", "5", "forget from 4", "4", "5"]


def test_a_log_without_lines_makes_no_event_file(tmp_path: Path) -> None:
    RunLog(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [METRICS_FILE]
