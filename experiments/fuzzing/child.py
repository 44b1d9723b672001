"""The process of one reader: `python -m experiments.fuzzing.child READER OUT SECONDS SEED [guided]`."""

import contextlib
import random
import resource
import sys
import time
from pathlib import Path

GUIDED = "guided"
if sys.argv[-1] == GUIDED:  # before the package is imported, whose branches are to be counted
    import atheris

    _counted = atheris.instrument_imports(include=["numcoke_jax"])
else:
    _counted = contextlib.nullcontext()
with _counted:
    from experiments.fuzzing.mutation import mutated
    from experiments.fuzzing.readers import READERS
    from experiments.fuzzing.watch import check, keep, name_of

CURRENT, TALLY, LOG = "current", "tally", "child.log"  # files in the reader's folder
ADDRESS_SPACE = 8 << 30  # bytes; more is a MemoryError, which is a finding
TOLD_EVERY = 1.0  # seconds between two counts


class Loop:
    """Inputs for one reader.

    Args:
      name: of the reader.
      folder: for what is found, and for the case that is read.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.reader, self.folder = READERS[name], folder
        self.inputs, self.told = 0, 0.0

    def one(self, data: bytes) -> None:
        """Reads one input; keeps it if it is a finding of a new cause."""
        (self.folder / CURRENT).write_bytes(data)
        if finding := check(self.reader, data, self.folder / "case"):
            keep(self.folder, finding, data)
        self.inputs += 1
        if time.monotonic() - self.told > TOLD_EVERY:
            self.tell()

    def tell(self) -> None:
        """Writes how many inputs there were."""
        self.told = time.monotonic()
        (self.folder / TALLY).write_text(str(self.inputs))

    def at_random(self, seconds: float, seed: int) -> None:
        """Seeds, then seeds with random changes, until the time is over."""
        end, draw = time.monotonic() + seconds, random.Random(f"{self.reader.name} {seed}")
        for data in self.reader.seeds:
            self.one(data)
        while time.monotonic() < end:
            self.one(mutated(self.reader.seeds, draw))
        self.tell()

    def by_branches(self, seconds: float, seed: int) -> None:
        """Changes chosen by what they reach; atheris ends the process itself."""
        corpus = self.folder / "corpus"
        corpus.mkdir(exist_ok=True)
        for data in self.reader.seeds:
            (corpus / name_of(data)).write_bytes(data)
        flags = [f"-max_total_time={int(seconds) or 1}", f"-seed={seed + 1}", "-max_len=16384"]
        atheris.Setup([sys.argv[0], str(corpus), *flags, "-rss_limit_mb=0", "-verbosity=0"], self.one)
        atheris.Fuzz()


def main() -> None:
    """The command."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    name, out, seconds, seed = sys.argv[1:5]
    loop = Loop(name, Path(out) / name)
    (loop.by_branches if sys.argv[-1] == GUIDED else loop.at_random)(float(seconds), int(seed))


if __name__ == "__main__":
    main()
