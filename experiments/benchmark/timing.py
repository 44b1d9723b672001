"""Times of several functions measured in turn, and what else the benchmarks report about a process."""

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

WARM_UP = 2  # rounds that are not counted
# Float32 without tensor cores, and memory bandwidth, from the cards' data sheets: FLOP/s, bytes/s.
CARDS = {
    "NVIDIA H200": (67e12, 4.8e12),
    "NVIDIA H100 80GB HBM3": (67e12, 3.35e12),
    "NVIDIA H100 PCIe": (51e12, 2.0e12),
    "NVIDIA A100-SXM4-80GB": (19.5e12, 2.04e12),
    "NVIDIA A100-SXM4-40GB": (19.5e12, 1.56e12),
}


@dataclasses.dataclass(frozen=True)
class Timing:
    """Milliseconds of one call.

    Attributes:
      median: wall clock.
      best: wall clock of the fastest call; closest to the time when nobody else uses the machine.
      cpu: the least processor time of a call, over all threads of this process; it does not count what
        others did on the same cores in the meantime.
    """

    median: float
    best: float
    cpu: float

    @classmethod
    def of(cls, wall_seconds: list[float], cpu_seconds: list[float]) -> "Timing":
        """From the seconds of each call."""
        return cls(
            median=1e3 * statistics.median(wall_seconds),
            best=1e3 * min(wall_seconds),
            cpu=1e3 * min(cpu_seconds),
        )


def interleaved(functions: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    """Time every function `repeats` times, one call each in turn: a machine that slows down slows all.

    Each function returns arrays, which are waited for.
    """
    wall: dict[str, list[float]] = {name: [] for name in functions}
    cpu: dict[str, list[float]] = {name: [] for name in functions}
    for round_ in range(repeats + WARM_UP):
        for name, function in functions.items():
            began, began_cpu = time.perf_counter(), time.process_time()
            jax.block_until_ready(function())
            if round_ >= WARM_UP:
                wall[name].append(time.perf_counter() - began)
                cpu[name].append(time.process_time() - began_cpu)
    return {name: Timing.of(wall[name], cpu[name]) for name in functions}


def process_figures() -> dict[str, Any]:
    """The peak_rss_gib of this process so far, the device, and its peak_device_bytes; None: unknown."""
    device = jax.devices()[0]
    return {
        "peak_rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "device": device.device_kind,
        "peak_device_bytes": (device.memory_stats() or {}).get("peak_bytes_in_use"),
    }


def rates(compiled: Any, seconds: float) -> dict[str, float]:
    """FLOP and bytes per second by XLA's own count for a compiled function; for known cards also the share.

    XLA counts the body of a loop once, however often it runs, and custom calls not at all: the figures are
    lower bounds if there are loops.

    Keys: gflops_per_second, gbytes_per_second, share_of_flops, share_of_bandwidth, only those that are known;
    loops_counted_once, the number of loops.
    """
    analysis = compiled.cost_analysis() or {}
    found: dict[str, float] = {"loops_counted_once": compiled.as_text().count(" while(")}
    for key, what in (("flops", "gflops_per_second"), ("bytes accessed", "gbytes_per_second")):
        if analysis.get(key, 0.0) > 0.0:
            found[what] = analysis[key] / seconds / 1e9
    card = CARDS.get(jax.devices()[0].device_kind)
    if card is not None:
        for key, of_card, share in zip(
            ("gflops_per_second", "gbytes_per_second"),
            card,
            ("share_of_flops", "share_of_bandwidth"),
            strict=True,
        ):
            if key in found:
                found[share] = 1e9 * found[key] / of_card
    return found
