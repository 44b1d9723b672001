"""Products of operands rounded to bfloat16, index by index."""

import itertools
import math

import numpy as np

DIGITS = 8  # binary digits of bfloat16, the leading one included


def to_bfloat16(x: float) -> float:
    """The nearest number of `DIGITS` binary digits, of two equally near ones the even one."""
    mantissa, exponent = math.frexp(x)  # |mantissa| in [1/2, 1)
    return math.ldexp(round(mantissa * 2**DIGITS), exponent - DIGITS)  # Python rounds halves to even


def rounded(array: np.ndarray) -> np.ndarray:
    """Every entry rounded; float64."""
    entries = [to_bfloat16(float(x)) for x in np.ravel(array)]
    return np.array(entries, np.float64).reshape(np.shape(array))


def einsum(subscripts: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sum over every index that the result lacks, of entries as they are; float64."""
    operands, result = subscripts.split("->")
    of_left, of_right = operands.split(",")
    sizes = dict(zip(of_left + of_right, (*left.shape, *right.shape), strict=True))
    total = np.zeros([sizes[index] for index in result])
    for values in itertools.product(*map(range, sizes.values())):
        at = dict(zip(sizes, values, strict=True))
        cells = [tuple(at[index] for index in indices) for indices in (result, of_left, of_right)]
        total[cells[0]] += float(left[cells[1]]) * float(right[cells[2]])
    return total
