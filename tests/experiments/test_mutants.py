"""Mutants are places of the code with a change each; a test that fails kills one, and nothing else does."""

import ast
import json
from pathlib import Path

import pytest

from experiments import mutants
from experiments.mutants import Mutant, all_mutants, as_markdown, mutants_of, try_out

REPOSITORY = Path(__file__).resolve().parents[2]
CODE = '''"""A docstring of 1 + 1."""

def share(é: int = 3, *, strict: bool = True) -> "list[1]":
    if not é < 2 and strict:
        raise ValueError(f"{é + 1}")
    return (é * 2,
            -é)[0]
'''


def changed(text: str) -> list[tuple[int, str, str]]:
    return [(mutant.line, mutant.before, mutant.after) for mutant in mutants_of("a.py", text)]


def test_every_place_that_computes_is_changed_and_no_message_or_type() -> None:
    assert changed(CODE) == [
        (3, "True", "(False)"),
        (3, "3", "(4)"),
        (4, "not é < 2 and strict", "(not é < 2 or strict)"),
        (4, "not é < 2", "(é < 2)"),
        (4, "é < 2", "(é <= 2)"),
        (4, "2", "(3)"),
        (6, "é * 2", "(é / 2)"),
        (6, "2", "(3)"),
        (7, "-é", "(é)"),
        (7, "0", "(1)"),
    ]


def test_each_mutant_of_the_package_is_a_program_that_differs() -> None:
    found = all_mutants(REPOSITORY)
    assert len(found) > 3000
    for mutant in found[::50]:
        good = (REPOSITORY / mutant.path).read_bytes()
        text = good[: mutant.start] + mutant.after.encode() + good[mutant.end :]
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(good))


def test_tests_of_the_mirrored_folder_come_with_those_of_the_module_first() -> None:
    first, others = mutants.tests_of("numcoke_jax/evaluation/metrics.py", REPOSITORY)
    assert first[0] == "tests/evaluation/test_metrics.py"
    assert "tests/evaluation/test_order_accuracy.py" in {*first, *others}
    losses, _ = mutants.tests_of("numcoke_jax/training/losses/objective.py", REPOSITORY)
    assert losses[0] == "tests/training/test_objective.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("numcoke_jax/models", "tests/models"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "numcoke_jax/models/half.py").write_text("def half(x):\n    return x / 2 if x else 0\n")
    test = "from runpy import run_path\n\ndef test_half():\n    assert run_path('numcoke_jax/models/half.py')"
    (tmp_path / "tests/models/test_half.py").write_text(f"{test}['half'](3) == 1.5\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: no\n")
    return tmp_path


def test_a_mutant_is_killed_by_a_test_or_survives_and_the_file_is_as_before(checkout: Path) -> None:
    before = (checkout / "numcoke_jax/models/half.py").read_bytes()
    found = {(one.before, one.after): one for one in all_mutants(checkout)}
    killed, unseen = found["x / 2", "(x * 2)"], found["0", "(1)"]
    for mutant in (killed, unseen):
        try_out(mutant, checkout, seconds=60)
    assert (killed.outcome, killed.killer) == ("killed", "FAILED tests/models/test_half.py::test_half")
    assert (unseen.outcome, unseen.killer) == ("survived", "")
    assert (checkout / "numcoke_jax/models/half.py").read_bytes() == before


def test_the_report_lists_what_no_test_killed() -> None:
    found = [
        Mutant("a.py", 1, 0, 1, "1", "(2)", "killed"),
        Mutant("b.py", 7, 0, 1, "x\n+ 1", "(x - 1)", "late"),
    ]
    text = as_markdown(found)
    assert text.startswith("2 mutants: 1 killed, 1 late\n")
    assert "| `b.py:7` | `x + 1` | `(x - 1)` | late |" in text and "a.py" not in text
    assert json.dumps([vars(mutant) for mutant in found])


def test_flags() -> None:
    options = mutants.parser().parse_args(["--count=3", "--under=numcoke_jax/models"])
    assert (options.count, options.under, options.close) == (3, "numcoke_jax/models", False)
