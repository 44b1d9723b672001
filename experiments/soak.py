"""Stops trainings at random moments for hours, and says what was lost: nothing, if the program is right.

    python -m experiments.soak --minutes=120 --seed=0
    python -m experiments.soak --rounds=10 --processes=2

Each round starts `numcoke train` on the cars and stops it some times: killed, terminated, interrupted, out
of disk, asleep.  Then it lets it finish, asks `predict` and `compare`, and holds all of it against a run that
nothing stopped: report, log, answers, names of files, every bit of the newest and the best checkpoint.
Before each start the times of all files move by up to ten years and, where `unshare --time` is permitted, the
process gets a monotonic clock of its own; the machine's clock stays as it is.  A full disk needs permission
to mount a tmpfs, which `unshare -rm` may give.  With --processes=2 one of two processes is killed in each
round, and the run goes on with two or with one.

A finding is: an exit code that is not documented, more than one line of error, a hang, a checkpoint that is
lost or damaged, a result that differs, a temporary file that stays, memory that grows.  --out keeps what was
said in each, and rounds.jsonl.  Linux only.  Exit code 1: there are findings.
"""

import json
import math
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.commands import command, refuse_below
from experiments.soaking.outcomes import outcome_of, resident_mebibytes
from experiments.soaking.pairs import ONE_FOR_TWO, pair
from experiments.soaking.sessions import SINGLE, Session, Sessions, newest_step, small_disk
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path
from numcoke_jax.system.termination import EXIT_TERMINATED

CARS = ("--data.group_size=30",)
SMALL = ("--model.dim=16", "--model.attribute_dim=16", "--experts.count=2", "--attention.heads=2")
LENGTH = ("--train.epochs=30", "--train.eval_every_epochs=5", "--train.patience=0")
TRAINED = ("train", "cars:paper", *CARS, *SMALL, *LENGTH, "--checkpoint.every_seconds=0.2")
FITTED = ("train", "cars", *CARS)
ASKED = ("--head=ford thunderbird (1977)", "--relation=Horsepower_comp", "--top=50")
MOST_STOPS = 4  # in a round
COLD = 0.1  # share of the rounds that begin without compiled functions
LONGEST_LOST = 30.0  # seconds until the other one of two processes must have ended,
MEETING = 300.0  # ... which one has for finding the other
LEAST_ROUNDS, GROWTH = 12, 1.1  # rounds before memory is judged; the last third over the second
Plan = tuple[str, ...]  # the words of a training but its workdir


class Soak:
    """Rounds against one straight run of each command.

    Args:
      sessions: starts the commands.
      out: for what is found.
      processes: 1, or 2 of each run.
      seed: of the moments.
    """

    def __init__(self, sessions: Sessions, out: Path, processes: int, seed: int) -> None:
        self.sessions, self.out, self.two, self.seed = sessions, out, processes == 2, seed
        self.plans = [(*TRAINED, "--mesh.data=2")] if self.two else [FITTED, TRAINED]
        self.blows = [blow for blow in SINGLE if blow != "full disk" or sessions.small]
        self.straight: dict[Plan, tuple[Path, dict[str, Any]]] = {}
        self.longest: dict[Plan, float] = {}  # seconds of processor time that a run takes
        self.ends: Counter[tuple[str, str]] = Counter()
        self.rows: list[dict[str, Any]] = []
        self.said: list[Session] = []
        self.lost: list[str] = []  # seconds until the other process had ended

    def prepare(self) -> None:
        """Trains straight through."""
        for number, plan in enumerate(self.plans):
            workdir, draw = self.out / f"straight-{number}", random.Random(self.seed)
            shutil.rmtree(workdir, ignore_errors=True)
            self._to_the_end(plan, workdir, draw, two=self.two)
            self.longest[plan] = sum(session.work for session in self.said)
            answers = self._asked(workdir, draw)
            if failed := [session.told() for session in self.said if session.code or session.faults()]:
                raise UserError(f"a run that nothing stops fails: {failed[0]}")
            self.straight[plan] = workdir, {**outcome_of(workdir), "answers": answers}
            self.said = []

    def round(self, number: int) -> list[str]:
        """Stops a run some times and lets it finish; returns what is wrong."""
        draw = random.Random(f"{self.seed} {number}")
        plan, self.said, found = draw.choice(self.plans), [], []
        reference, expected = self.straight[plan]
        workdir = self.sessions.disk / f"run-{number}"
        if draw.random() < COLD:
            shutil.rmtree(self.sessions.cache, ignore_errors=True)
        for _ in range(1 if self.two else draw.randint(1, MOST_STOPS)):
            before = newest_step(workdir)
            found += self._stopped(plan, workdir, draw)
            after = newest_step(workdir)
            if after < before:
                found.append(f"checkpoint {before} was lost, {after} is left")
        seen = self._to_the_end(plan, workdir, draw, two=self.two and draw.random() < 0.5)
        if after >= 0 and f"checkpoint {after}, of" not in seen and f"at step {after}:" not in seen:
            found.append(f"it did not resume from checkpoint {after}")
        answers = self._asked(workdir, draw)
        found += [fault for session in self.said for fault in session.faults()]
        if failed := [session for session in self.said if not session.blow and session.code]:
            found.append(f"exit code {failed[0].code} of {failed[0].words[0]}, which nothing stopped")
        else:
            found += self._compared(workdir, reference, draw)
            try:
                differing = _differing({**outcome_of(workdir), "answers": answers}, expected)
                found += [f"not as in a straight run: {differing}"] if differing else []
            except UserError as error:
                found.append(str(error))
        found += [f"left behind: {name}" for name in self.sessions.strays()]
        self._keep(number, found, workdir)
        return found

    def _stopped(self, plan: Plan, workdir: Path, draw: random.Random) -> list[str]:
        """One start that is stopped; what the other of two processes did wrong."""
        after, lost, met = draw.uniform(0.0, self.longest[plan]), 0.0, True
        if self.two:
            ends, lost, met = pair(self.sessions, plan, workdir, draw, after)
            self.lost.append(f"{lost:.1f}{'' if met else ' (they had not met)'}")
        else:
            words = [*plan, f"--workdir={workdir}"]
            ends = [self.sessions.run(words, draw, draw.choice(self.blows), after)]
        for session in ends:
            end = f"code {session.code}" if session.in_time else "too late"
            self.ends[session.blow.partition(" after ")[0], end] += 1
        if not any(session.in_time for session in ends):  # with compiled functions it takes less
            self.longest[plan] = sum(session.work for session in ends)
        self.said += ends
        late = lost > (LONGEST_LOST if met else LONGEST_LOST + MEETING)
        return [f"the other process ended {lost:.1f} s later"] if late else []

    def _to_the_end(self, plan: Plan, workdir: Path, draw: random.Random, *, two: bool) -> str:
        """Trains to the end on two processes or one; returns what the screen showed."""
        if two:
            ends = pair(self.sessions, plan, workdir, draw)[0]
        else:
            words, flags = [*plan, f"--workdir={workdir}"], ONE_FOR_TWO if self.two else ""
            ends = [self.sessions.run(words, draw, xla_flags=flags)]
        self.said += ends
        return ends[0].out

    def _asked(self, workdir: Path, draw: random.Random) -> str:
        """What `predict` writes; of two processes only the checkpoints are compared, which it reads."""
        if self.two:
            return ""
        answers = self.out / "answers.json"
        answers.unlink(missing_ok=True)
        words = ["predict", f"--workdir={workdir}", *ASKED, f"--out={answers}"]
        self.said.append(self.sessions.run(words, draw))
        return answers.read_text(encoding="utf-8") if answers.exists() else ""

    def _compared(self, workdir: Path, reference: Path, draw: random.Random) -> list[str]:
        """What `compare` finds between a run and the straight one."""
        session = self.sessions.run(["compare", str(workdir), str(reference), "--json"], draw)
        self.said.append(session)
        if session.code:
            return ["compare fails"]
        compared = json.loads(session.out)
        ours, theirs = ({**run, "run": "", "seconds": 0} for run in compared["runs"])
        same = ours == theirs and not compared["config"] and compared["same_data"]
        return [] if same else ["compare finds a difference"]

    def _keep(self, number: int, found: list[str], workdir: Path) -> None:
        """The row of a round, and all that is there if something is wrong."""
        self.rows.append(
            {
                "round": number,
                "stops": [session.blow for session in self.said if session.blow],
                "seconds": round(sum(session.seconds for session in self.said), 1),
                "peak_mebibytes": max(session.mebibytes for session in self.said),
                "own_mebibytes": resident_mebibytes(),
                "findings": found,
            }
        )
        with (self.out / "rounds.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")
        if found:
            folder = self.out / f"round-{number}"
            shutil.rmtree(folder, ignore_errors=True)
            if workdir.exists():
                shutil.copytree(workdir, folder)
            told = "\n".join([*found, "", *(session.told() for session in self.said)])
            (self.out / f"round-{number}.txt").write_text(told, encoding="utf-8", errors="backslashreplace")
        shutil.rmtree(workdir, ignore_errors=True)


def growth(mebibytes: Sequence[float]) -> float:
    """Least memory of the last third of the rounds over that of the third before; 1.0 for few rounds.

    A round that has to compile takes twice that of others, so a mean follows how many of them a third has.
    """
    third = len(mebibytes) // 3
    if len(mebibytes) < LEAST_ROUNDS:
        return 1.0
    return min(mebibytes[-third:]) / min(mebibytes[-2 * third : -third])


def _differing(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    return ", ".join(part for part in expected if found[part] != expected[part])


def parser() -> OneLineParser:
    """The command's flags."""
    flags = OneLineParser(prog="python -m experiments.soak", description=__doc__)
    flags.add_argument("--minutes", type=float, default=10.0, help="new rounds begin (default: %(default)s)")
    flags.add_argument("--rounds", type=int, help="at most so many (default: as many as there is time for)")
    flags.add_argument("--processes", type=int, default=1, choices=(1, 2), help="default: %(default)s")
    flags.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    flags.add_argument("--out", type=home_path, default=Path("runs/soak"), help="default: %(default)s")
    return flags


@command()
def main(arguments: Sequence[str]) -> int:
    """Rounds until the time is over; returns the exit code."""
    options, console = parser().parse_args(arguments), Console()
    if not 0.0 < options.minutes < math.inf:
        raise UserError(f"--minutes={options.minutes:g} is out of range: needs a number above 0")
    refuse_below(1, options, "rounds")
    # A shell's background job ignores interrupts, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    end, out = time.monotonic() + 60 * options.minutes, options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "rounds.jsonl").unlink(missing_ok=True)
    with small_disk(out / "disk") as small:
        soak = Soak(Sessions(out, out / "disk", small=small), out, options.processes, options.seed)
        soak.prepare()
        for number in range(sys.maxsize if options.rounds is None else options.rounds):
            if number and time.monotonic() > end:
                break
            found = soak.round(number)
            stops = ", ".join(soak.rows[-1]["stops"])
            console.note(f"round {number}: {'; '.join(found) or 'nothing lost'} ({stops})")
    return show(soak, console)


def show(soak: Soak, console: Console) -> int:
    """What was thrown and what was lost; returns the exit code."""
    rows = [(blow, end, f"{count:,}") for (blow, end), count in sorted(soak.ends.items())]
    lost = sum(bool(row["findings"]) for row in soak.rows)
    console.table("Soak", f"{len(soak.rows)} rounds, {lost} with findings", ("stop", "end", ">times"), rows)
    if not soak.sessions.small:
        console.warn("no tmpfs may be mounted here: file sizes were limited, but no disk was full")
    if not soak.sessions.own_clock:
        console.warn("`unshare --time` is not permitted here: only the times of files moved")
    if soak.lost:
        console.note(f"seconds until the other process ended: {', '.join(soak.lost)}")
    grown = False
    for name, key in (("of the commands", "peak_mebibytes"), ("of this program", "own_mebibytes")):
        memory = [row[key] for row in soak.rows]
        grown |= growth(memory) > GROWTH
        thirds = [part for part in np.array_split(memory, 3) if len(part)]
        told = ", ".join(f"{part.min()} to {part.max()}" for part in thirds)
        console.note(f"MiB {name}, by thirds of the rounds: {told or 'unknown'}")
    if grown:
        console.warn(f"the least memory of a round grew by over {GROWTH - 1:.0%} in the last third")
    return 1 if lost or grown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
