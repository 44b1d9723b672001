"""The table of all entities: where its vectors start, with the values joined or without."""

import jax
import numpy as np
import pytest

from numcoke_jax.models.entity_table import EntityTable
from numcoke_jax.models.interface import GraphSizes
from tests import examples

SIZES = GraphSizes(entities=400, relations=1, fields=30)


@pytest.mark.parametrize("attributes", ["none", "concat"])
@pytest.mark.parametrize("spread", [0.01, 2.0])
def test_vectors_start_at_the_spread_asked_for_with_values_or_without(attributes: str, spread: float) -> None:
    """Within its square root of 2: the values' share is as large as the vectors' own."""
    literals = examples.literals(SIZES)
    table = EntityTable(SIZES.entities, 50, attributes=attributes, spread=spread)
    vectors, _ = table.init_with_output(jax.random.key(0), literals, train=False)
    expected = spread * (1.0 if attributes == "none" else np.sqrt(2.0))
    np.testing.assert_allclose(np.asarray(vectors).std(), expected, rtol=0.1)
