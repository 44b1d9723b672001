"""How far training has come: a bar on a terminal, a line now and then elsewhere."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping

import rich.console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

QUIET_SECONDS = 30.0  # without a terminal: the longest silence,
QUIET_SHARE = 0.1  # ... or the share of all steps after which there is a line in any case


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state that a display shows.

    Attributes:
      done, total: steps.
      losses: newest losses by name.
      queries_per_second: newest speed; None if unknown.
      seconds_left: at the speed so far; None before there is a speed.
      now: seconds of the reporter's clock.
    """

    done: int
    total: int
    losses: Mapping[str, float]
    queries_per_second: float | None
    seconds_left: float | None
    now: float

    def parts(self) -> list[str]:
        """Steps, time left, speed and losses as short texts, in this order."""
        left = "-:--" if self.seconds_left is None else duration(self.seconds_left)
        parts = [f"{self.done}/{self.total}", f"{left} left"]
        if self.queries_per_second is not None:
            parts.append(f"{self.queries_per_second:,.0f} queries/s")
        return parts + [f"{name} {float(loss):.4g}" for name, loss in self.losses.items()]


class ProgressReporter:
    """Takes news from a training run and shows it; made by `Console.progress`.

    Args:
      show: called with every new state.
      total: steps of the whole training.
      start: steps already done by the run that this one resumes.
      clock: seconds of a monotonic clock.
    """

    def __init__(
        self,
        show: Callable[[Snapshot], None],
        total: int,
        start: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._total = total
        self._done = start
        self._clock = clock
        self._timed_from: tuple[float, int] | None = None

    def advance(
        self, steps: int, losses: Mapping[str, float], queries_per_second: float | None = None
    ) -> None:
        """Reports `steps` more steps, the newest losses by name, and the speed if it is known."""
        self._done += steps
        now = self._clock()
        left = None
        if self._timed_from is None:
            # The first steps waited for the compiler: with them, the time left would look far too long.
            self._timed_from = (now, self._done)
        elif self._done > self._timed_from[1]:
            seconds = (now - self._timed_from[0]) / (self._done - self._timed_from[1])
            left = seconds * max(self._total - self._done, 0)
        if self._done >= self._total:
            left = 0.0
        self._show(Snapshot(self._done, self._total, losses, queries_per_second, left, now))


class QuietDisplay:
    """Prints the first state, the last, and some in between: see QUIET_SECONDS and QUIET_SHARE."""

    def __init__(self, print_parts: Callable[[list[str]], None]) -> None:
        self._print_parts = print_parts
        self._printed: Snapshot | None = None

    def __call__(self, snapshot: Snapshot) -> None:
        """Prints the state if it is time to."""
        last = self._printed
        if (
            last is None
            or snapshot.done >= snapshot.total
            or snapshot.now - last.now >= QUIET_SECONDS
            or snapshot.done - last.done >= QUIET_SHARE * snapshot.total
        ):
            self._printed = snapshot
            self._print_parts(snapshot.parts())


class BarDisplay(Progress):
    """A bar with steps, time left and speed, and the losses on a line below it."""

    def __init__(self, console: rich.console.Console, total: int, start: int, label: str) -> None:
        self._below = Text()
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[remarks]}", markup=False),
            console=console,
            refresh_per_second=4,
        )
        self._task = self.add_task(label, total=total, completed=start, remarks=f"{start}/{total}")

    def __call__(self, snapshot: Snapshot) -> None:
        """Shows the state at the next refresh."""
        parts = snapshot.parts()
        num_remarks = len(parts) - len(snapshot.losses)
        self._below = Text("  ".join(parts[num_remarks:]), style="dim")
        self.update(self._task, completed=snapshot.done, remarks="  ".join(parts[:num_remarks]))

    def get_renderables(self) -> Iterable[rich.console.RenderableType]:
        """The bar, and the losses once there are some."""
        yield from super().get_renderables()
        if self._below:
            yield self._below


def duration(seconds: float) -> str:
    """Seconds as 0:09, 12:34, 1:02:03 or 3 d 04:05:06."""
    whole = int(seconds + 0.5)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02d}:{minute:02d}:{second:02d}"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"
