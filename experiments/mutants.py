"""Would the tests notice?  Changes the code in one place at a time and says which changes no test objects to.

    python -m experiments.mutants --count=20 --seed=0

A sample of all places: another operator, the other branch, the next number, the other truth value.  Each
mutant is made in a copy of the checkout and tried by the fast tests of the mirrored folder of tests/, first
by the files that name the module, with --close by those alone.  "killed": a test failed; "survived": none
did; "late": none did in --seconds.  --out keeps every mutant in PATH.json and PATH.md.  Exit code 1: one
survived.
"""

import ast
import copy
import dataclasses
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.commands import command, refuse_below
from numcoke_jax.cli.commands import OneLineParser
from numcoke_jax.system.console import Console
from numcoke_jax.system.errors import UserError
from numcoke_jax.system.files import home_path, write_bytes_atomically, write_json_atomically

FOLDERS = ("models", "evaluation", "training")  # of numcoke_jax/, with the losses and the order core in them
SWAPPED: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
UNTRIED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.AnnAssign)  # messages, types


@dataclasses.dataclass
class Mutant:
    """A change of one file: `start` to `end`, in bytes, become `after`; and what became of it."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    outcome: str = ""
    killer: str = ""
    seconds: float = 0.0


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file's text."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in _places(ast.parse(text)):
        for changed in _changes(node):
            start = lines[node.lineno - 1] + node.col_offset
            end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            after = f"({ast.unparse(changed)})"
            yield Mutant(path, node.lineno, start, end, text.encode()[start:end].decode(), after)


def _places(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that compute something, in order."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, UNTRIED):
                if isinstance(child, ast.expr):
                    yield child
                yield from _places(child)


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            changed.ops = [SWAPPED[type(operator)]()]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in SWAPPED:
            changed.op = SWAPPED[type(operator)]()
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            changed = operand
        case ast.IfExp(body=body, orelse=orelse):
            changed.body, changed.orelse = orelse, body
        case ast.Constant(value=bool() as value):
            changed.value = not value
        case ast.Constant(value=int() | float() as value):
            changed.value = value + 1
        case _:
            return
    yield changed


def all_mutants(root: Path) -> list[Mutant]:
    """Those of every file of `FOLDERS`, in the order of their paths."""
    files = sorted(file for name in FOLDERS for file in (root / "numcoke_jax" / name).rglob("*.py"))
    return [
        mutant
        for file in files
        for mutant in mutants_of(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    ]


def tests_of(path: str, root: Path) -> list[list[str]]:
    """The test files that name a module, then the others of the mirrored folder."""
    parts = Path(path).with_suffix("").parts
    folder = root / "tests" / Path(*parts[1:-1])
    while not folder.is_dir():
        folder = folder.parent
    module, stem = ".".join(parts), parts[-1]
    named: list[str] = []
    others: list[str] = []
    for file in sorted(folder.rglob("test_*.py")):
        close = file.stem == f"test_{stem}" or module in file.read_text(encoding="utf-8")
        (named if close else others).append(file.relative_to(root).as_posix())
    named.sort(key=lambda name: Path(name).stem != f"test_{stem}")
    return [files for files in (named, others) if files]


def try_out(mutant: Mutant, copied: Path, seconds: float, *, close: bool = False) -> None:
    """Runs the tests on a mutant, and writes down what became of it."""
    file = copied / mutant.path
    good, begun = file.read_bytes(), time.monotonic()
    file.write_bytes(good[: mutant.start] + mutant.after.encode() + good[mutant.end :])
    mutant.outcome = "survived"
    try:
        for files in tests_of(mutant.path, copied)[: 1 if close else None]:
            left = seconds - (time.monotonic() - begun)
            words = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "--tb=no", "--no-header"]
            found = subprocess.run(
                [*words, "-p", "no:cacheprovider", *files],
                cwd=copied, capture_output=True, text=True, timeout=max(left, 1),
                env={**os.environ, "CI": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
            if found.returncode in (1, 2):  # a test failed, or the mutant cannot be imported
                failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                mutant.outcome, mutant.killer = "killed", failed[0].split(" - ")[0] if failed else ""
                break
    except subprocess.TimeoutExpired:
        mutant.outcome = "late"
    finally:
        file.write_bytes(good)
        mutant.seconds = round(time.monotonic() - begun, 1)


def as_markdown(mutants: list[Mutant]) -> str:
    """A table of the mutants that no test killed, and the counts of all."""
    counts = Counter(mutant.outcome for mutant in mutants)
    rows = [
        " | ".join(
            (
                f"| `{mutant.path}:{mutant.line}`",
                f"`{mutant.before}`",
                f"`{mutant.after}`",
                f"{mutant.outcome} |",
            )
        ).replace("\n", " ")
        for mutant in mutants
        if mutant.outcome != "killed"
    ]
    return "\n".join(
        [
            f"{len(mutants)} mutants: "
            + ", ".join(f"{count} {name}" for name, count in counts.most_common()),
            *("", "| place | before | after | outcome |", "|---|---|---|---|"),
            *rows,
            "",
        ]
    )


def parser() -> OneLineParser:
    """The command's flags."""
    flags = OneLineParser(prog="python -m experiments.mutants", description=__doc__)
    flags.add_argument("--count", type=int, default=20, help="how many mutants (default: %(default)s)")
    flags.add_argument("--seed", type=int, default=0, help="of the sample (default: %(default)s)")
    flags.add_argument("--seconds", type=float, default=300.0, help="for each mutant (default: %(default)s)")
    flags.add_argument("--close", action="store_true", help="only by the tests that name the module")
    flags.add_argument("--under", default="", metavar="PATH", help="only of files that begin so")
    flags.add_argument("--out", type=home_path, default=Path("runs/mutants"), metavar="PATH")
    return flags


@command()
def main(arguments: Sequence[str]) -> int:
    """Makes and tries the sample; returns the exit code."""
    options, root, console = parser().parse_args(arguments), Path(__file__).resolve().parents[1], Console()
    found = [mutant for mutant in all_mutants(root) if mutant.path.startswith(options.under)]
    refuse_below(1, options, "count")
    if not 0.0 < options.seconds < math.inf:
        raise UserError(f"--seconds={options.seconds:g} is out of range: needs a number above 0")
    if not found:
        raise UserError(
            f"--under={options.under}: no file to change begins so; give one such as numcoke_jax/models/"
        )
    sample = random.Random(options.seed).sample(found, min(options.count, len(found)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copied = Path(folder) / root.name
        shutil.copytree(root, copied, ignore=shutil.ignore_patterns(".*", "runs", "site", "__pycache__"))
        for number, mutant in enumerate(sample, 1):
            try_out(mutant, copied, options.seconds, close=options.close)
            place = f"{mutant.path}:{mutant.line}"
            console.note(f"{number}/{len(sample)} {mutant.outcome} {place} {mutant.before} -> {mutant.after}")
            done = sample[:number]
            write_json_atomically(options.out.with_suffix(".json"), [vars(mutant) for mutant in done])
            write_bytes_atomically(options.out.with_suffix(".md"), as_markdown(done).encode())
    counts = Counter(mutant.outcome for mutant in sample)
    rows = [(name, str(counts[name])) for name in ("killed", "survived", "late")]
    console.table(
        f"{len(sample)} of {len(found):,} mutants", f"{options.out}.md", ("outcome", ">mutants"), rows
    )
    return 1 if counts["survived"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
