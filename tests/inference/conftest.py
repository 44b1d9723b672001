"""The program as the tests of its commands call it."""

from collections.abc import Callable

import pytest

from numcoke_jax.cli.main import main

Program = Callable[..., tuple[int, str, str]]  # arguments -> exit code, output, errors


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    """Runs the program: (exit code, output, errors)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(list(map(str, arguments)))
        return (code, *capsys.readouterr())

    return run
