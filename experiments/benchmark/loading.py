"""Load time and peak memory of the text reader on a generated graph.

    python -m experiments.benchmark.loading --triples=10000000 --entities=1000000

Writes a folder of random facts and literals to a temporary place, loads it in a fresh process and prints
seconds, rows per second and the peak resident memory of that process as one JSON line.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.system.files import home_path

ROWS_AT_ONCE = 1_000_000
SIZES = {"triples": 10_000_000, "entities": 1_000_000, "relations": 500, "fields": 10}


def parser() -> OneLineParser:
    """The options of the command."""
    options = OneLineParser(prog="python -m experiments.benchmark.loading", description=__doc__)
    told = {
        "triples": "facts in all three files together",
        "fields": "numeric fields; half of their cells have a value",
    }
    for name, size in SIZES.items():
        options.add_argument(f"--{name}", type=int, default=size, help=told.get(name))
    options.add_argument("--folder", help="load this folder instead of a generated one")
    options.add_argument("--load", type=home_path, help=argparse.SUPPRESS)
    return options


@command()
def main(arguments: Sequence[str]) -> int:
    """Generates, loads, prints; returns the exit code."""
    options = parser().parse_args(arguments)
    refuse_below(1, options, *SIZES)
    if options.load:
        print(json.dumps(measure(options.load)))
        return 0
    if options.folder:
        return load_in_fresh_process(options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        write_random_graph(
            Path(scratch), options.triples, options.entities, options.relations, options.fields
        )
        return load_in_fresh_process(scratch)


def load_in_fresh_process(folder: str) -> int:
    """Measure in a new process, which holds nothing but the reader in memory; returns its exit code."""
    command = [sys.executable, "-m", "experiments.benchmark.loading", f"--load={folder}"]
    return subprocess.run(command, check=False).returncode


def measure(folder: Path) -> dict[str, float]:
    """Loads `folder` and returns counts, seconds and GiB."""
    from numcoke_jax.data.files.folder import read_folder

    start, start_cpu = time.perf_counter(), time.process_time()
    graph, report = read_folder(folder)
    seconds = time.perf_counter() - start
    rows = sum(report.rows.values())
    return {
        "rows": rows,
        "facts": len(graph.train) + len(graph.valid) + len(graph.test),
        "entities": graph.num_entities,
        "literals": int(graph.observed.sum()),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(time.process_time() - start_cpu, 2),
        "rows_per_second": round(rows / seconds),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def write_random_graph(folder: Path, triples: int, entities: int, relations: int, fields: int) -> None:
    """Facts drawn uniformly, 90/5/5, and half of all (entity, field) cells."""
    rng = np.random.default_rng(0)
    for name, share in (("train", 0.9), ("valid", 0.05), ("test", 0.05)):
        with open(folder / f"{name}.txt", "w", encoding="utf-8") as stream:
            for count in chunk_sizes(int(triples * share)):
                heads = rng.integers(entities, size=count).tolist()
                relation_ids = rng.integers(relations, size=count).tolist()
                tails = rng.integers(entities, size=count).tolist()
                stream.writelines(
                    f"/entity/{head:08d}\t/relation/number/{relation}\t/entity/{tail:08d}\n"
                    for head, relation, tail in zip(heads, relation_ids, tails, strict=True)
                )
    (folder / "literals").mkdir()
    with open(folder / "literals" / "numerical_literals.txt", "w", encoding="utf-8") as stream:
        for field in range(fields):
            owners = np.flatnonzero(rng.random(entities) < 0.5).tolist()
            values = rng.normal(size=len(owners)).tolist()
            stream.writelines(
                f"/entity/{owner:08d}\t/field/{field}\t{value!r}\n"
                for owner, value in zip(owners, values, strict=True)
            )


def chunk_sizes(total: int) -> list[int]:
    """`total` as a sum of numbers up to ROWS_AT_ONCE."""
    return [min(ROWS_AT_ONCE, total - start) for start in range(0, total, ROWS_AT_ONCE)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
