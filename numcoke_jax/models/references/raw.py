"""Reference: compare the values themselves.

    score = z_h - z_t      z_i the place of i in the compared field (`compared.py`), 1/2 where missing

No training fact is used but to find the field and its direction, so this is what the numbers alone give.
"""

import numpy as np
from jaxtyping import Array, Float, Int

from numcoke_jax.data.literals import Literals
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.references.compared import Places, Reference, unknown_last


class RawValues(Reference):
    """Ranks by the difference of two values."""

    def encode(self, relations: Int[Array, " S"], literals: Literals, *, train: bool) -> Places:
        """The places of all entities."""
        return self.places(relations, literals)

    def score(self, encoded: Places, heads: Int[Array, "S H"], *, train: bool) -> Float[Array, "S H N"]:
        """Differences of places, from -1 to 1."""
        of_heads = encoded.place[np.arange(heads.shape[0])[:, None], heads]
        return unknown_last(of_heads[:, :, None] - encoded.place[:, None, :], encoded.known)


MODEL = ModelSpec(lambda config, sizes: RawValues(sizes), per_entity=("entity_seen",), fitted=True)
