"""Values as a person sees them: no digit that tells two of them apart is lost."""

import pytest

from numcoke_jax.system.console import shown_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (-2.5, "-2.5"),
        (1 / 3, "0.333333"),
        (123456.7, "123457"),
        (8804190.0, "8804190"),
        (-1577836800001.0, "-1577836800001"),  # a time in milliseconds: the next one must look different
        (123456789.75, "123456790"),
        (1e15, "1e+15"),
        (1.23456789e300, "1.23457e+300"),
        (1e-7, "1e-07"),
    ],
)
def test_a_value_keeps_what_stands_before_the_point(value: float, shown: str) -> None:
    assert shown_value(value) == shown
