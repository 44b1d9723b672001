"""NRN's numeric encoding: fixed functions of the values, gated into the entities of a translation model.

Source: Bai et al., "Knowledge Graph Reasoning over Entities and Numerical Values", KDD 2023, which
encodes numbers by DICE (Sundararaman et al., "Methods for Numeracy-Preserving Word Embeddings", EMNLP
2020) or by the sinusoids of Vaswani et al. (NeurIPS 2017).  That paper answers logical queries; only its way
of encoding a value is used here.

    dice:        t = pi x, psi(x) = [cos t, sin t cos t, sin^2 t cos t, ..., sin^(d-2) t cos t, sin^(d-1) t]
    sinusoidal:  psi(x) = [sin(s x w_0), cos(s x w_0), sin(s x w_1), ...],  w_i = 10000^(-2 i / d), s = 1000
    n_i   = mean of psi(x_im) over the observed fields m of i, 0 without any
    e'_i  = (1 - g) e_i + g tanh(W [e_i; n_i] + c),   g = sigmoid(W_ge e_i + W_gn n_i + b)
    score = epsilon - ||e'_h + r - e'_t||_p           dropout on e'_h and on e'_t

The half circle of dice ends at x = 0 and x = 1: values beyond are clipped to these ends, so it needs one of
the scales `data.normalize=minmax|quantile`, and others are refused.

psi is not learned and knows nothing of fields: 51 kg and 51 years are the same number, which is what the
NumCoKE paper says of deterministic encodings.  The random rotation of DICE is absorbed by W and W_gn.  Gate
and score are those of `literale.py`.
"""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from numcoke_jax.data.literals import Literals
from numcoke_jax.models import literale
from numcoke_jax.models.interface import GraphSizes, ModelSpec
from numcoke_jax.models.literale import LiteralE, mean_over_fields

SINUSOID_SCALE = 1000.0  # positions that the range of a field is spread over
LONGEST_WAVE = 10_000.0


def dice(values: Float[Array, " N"], dim: int) -> Float[Array, "N d"]:
    """Points on a half circle of the sphere: the angle between two grows with their difference.

    Values are clipped to [0, 1].
    """
    angle = math.pi * jnp.clip(values, 0.0, 1.0)[:, None]
    powers = jnp.maximum(jnp.sin(angle), 0.0) ** jnp.arange(dim)  # sin(pi) rounds below 0
    return powers * jnp.where(jnp.arange(dim) < dim - 1, jnp.cos(angle), 1.0)


def sinusoidal(values: Float[Array, " N"], dim: int) -> Float[Array, "N d"]:
    """Sine and cosine of the scaled value at falling frequencies."""
    frequency = LONGEST_WAVE ** (-2.0 * (jnp.arange(dim) // 2) / dim)
    phase = SINUSOID_SCALE * values[:, None] * frequency
    return jnp.where(jnp.arange(dim) % 2 == 0, jnp.sin(phase), jnp.cos(phase)).astype(values.dtype)


ENCODINGS: dict[str, Callable[..., Array]] = {"dice": dice, "sinusoidal": sinusoidal}


def mean_encoding(literals: Literals, *, encoding: str, dim: int) -> Float[Array, "N d"]:
    """n of every entity."""
    vectors = functools.partial(ENCODINGS[encoding], dim=dim)
    return lax.stop_gradient(mean_over_fields(literals, vectors, dim))


def from_config(config: ConfigDict, sizes: GraphSizes) -> LiteralE:
    """LiteralE with `model.value_encoding` in place of raw values; its other keys are LiteralE's."""
    encode = functools.partial(mean_encoding, encoding=config.model.value_encoding, dim=config.model.dim)
    return literale.gated_translation(config, sizes).clone(encode_values=encode)


MODEL = ModelSpec(from_config, per_entity=("entity_embedding",))
