"""Matrix products in float32, or of operands rounded to bfloat16 and summed in float32.

bfloat16 has float32's range and 8 of its 24 binary digits: a rounded entry is off by at most 2^-9 of itself,
and a product of two of them is exact in float32.  Matrix units of accelerators are built for such operands.
Backward products round theirs too, the cotangent included, so that a training step runs on the same units.

The gradient is written out because JAX's own, for a product of bfloat16 arrays with a float32 result,
multiplies a float32 cotangent by a bfloat16 operand, in float32, and then rounds the resulting gradient.
"""

import functools
import itertools
import string
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, BFloat16, Float, Float32

from numcoke_jax.config.schema import choices

OPERANDS = choices("model.products")


def einsum(operands: str, subscripts: str, left: Float[Array, "..."], right: Float[Array, "..."]) -> Array:
    """`jnp.einsum(subscripts, left, right)` with operands in the precision that `operands` names.

    Raises:
      ValueError: `operands` is not one of `OPERANDS`; or they are rounded and the subscripts are not "x,y->z"
        with every index in two of the three, as in every matrix product.
    """
    if _keeps_float32(operands):
        return jnp.einsum(subscripts, left, right)
    terms = _terms(subscripts)
    lone = [index for index in sorted(set("".join(terms))) if sum(index in term for term in terms) < 2]
    if lone:
        raise ValueError(
            f"subscripts={subscripts!r}: needs every index in two of the terms, found {lone} in one"
        )
    return _rounded_einsum(subscripts, left, right)


def dot_general(operands: str) -> Any:
    """The product for linen's `nn.Dense(dot_general=...)`: `lax.dot_general`, or that of rounded operands.

    Raises:
      ValueError: `operands` is not one of `OPERANDS`.
    """
    return lax.dot_general if _keeps_float32(operands) else _rounded_dot_general


def _keeps_float32(operands: str) -> bool:
    if operands not in OPERANDS:
        raise ValueError(f"operands={operands!r}: needs one of {OPERANDS}")
    return operands == "float32"


def _terms(subscripts: str) -> tuple[str, str, str]:
    """The indices of the left operand, the right one and the result."""
    operands, result = subscripts.split("->")
    left, right = operands.split(",")
    return left, right, result


def _rounded_dot_general(
    left: Float32[Array, "..."], right: Float32[Array, "..."], dimension_numbers: Any, **_: Any
) -> Float32[Array, "..."]:
    """`lax.dot_general` with the precision and the element type of this module."""
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    letters = iter(string.ascii_letters)
    of_left = list(itertools.islice(letters, left.ndim))
    of_right = list(itertools.islice(letters, right.ndim))
    for i, j in zip((*left_sum, *left_batch), (*right_sum, *right_batch), strict=True):
        of_right[j] = of_left[i]
    batch = [of_left[i] for i in left_batch]
    free = [index for index in of_left + of_right if (index in of_left) != (index in of_right)]
    return _rounded_einsum(f"{''.join(of_left)},{''.join(of_right)}->{''.join(batch + free)}", left, right)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rounded_einsum(
    subscripts: str, left: Float32[Array, "..."], right: Float32[Array, "..."]
) -> Float32[Array, "..."]:
    return _summed_in_float32(subscripts, _rounded(left), _rounded(right))


def _forward(subscripts: str, left: Array, right: Array) -> tuple[Array, tuple[Array, Array]]:
    rounded = _rounded(left), _rounded(right)  # kept for the backward pass in half the memory
    return _summed_in_float32(subscripts, *rounded), rounded


def _backward(subscripts: str, rounded: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    (left, right), of_result = rounded, _rounded(cotangent)
    i, j, k = _terms(subscripts)
    return (
        _summed_in_float32(f"{k},{j}->{i}", of_result, right),
        _summed_in_float32(f"{i},{k}->{j}", left, of_result),
    )


_rounded_einsum.defvjp(_forward, _backward)


def _rounded(array: Float32[Array, "*shape"]) -> BFloat16[Array, "*shape"]:
    """The nearest bfloat16 numbers; ties go to the even one."""
    # XLA may drop a conversion there and back as excess precision, but never this rounding.
    return lax.reduce_precision(array, exponent_bits=8, mantissa_bits=7).astype(jnp.bfloat16)


def _summed_in_float32(
    subscripts: str, left: BFloat16[Array, "..."], right: BFloat16[Array, "..."]
) -> Float32[Array, "..."]:
    def on_cpu(left: Array, right: Array) -> Array:
        # The same numbers: this backend lacks bfloat16 products in some layouts and gains nothing from them.
        return jnp.einsum(subscripts, left.astype(jnp.float32), right.astype(jnp.float32))

    on_accelerators = functools.partial(jnp.einsum, subscripts, preferred_element_type=jnp.float32)
    return lax.platform_dependent(left, right, cpu=on_cpu, default=on_accelerators)
