"""ConvE: a convolution over the head's and the relation's vectors makes a query vector for all tails.

Source: Dettmers et al., "Convolutional 2D Knowledge Graph Embeddings", AAAI 2018.

    image = [reshape(e_h); reshape(r)]              one channel, 2 a x b for d = a b
    q     = relu(W vec(relu(image * filters)) + c)  3 x 3 filters, no padding at the edges
    score = <q, e_t> + b_t

As published, there is batch normalisation before the convolution and before each relu, and dropout on the
image, on whole feature maps and on W's output.  The image's height a is the largest divisor of d up to its
square root: 10 x 20 for d = 200.  The paper's BCE with every entity as tail is also this package's loss.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from numcoke_jax.config.checks import CONVE_FILTER, largest_divisor_up_to_root
from numcoke_jax.models.batch_norm import BatchNorm, real_queries
from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec, SharedVectors


class ConvE(TableModel):
    """Query vectors by convolution, scored by inner products.

    Attributes:
      filters: feature maps of the convolution.
      input_dropout: of the image's pixels.
      feature_dropout: of whole feature maps.
      hidden_dropout: of the query vector.
    """

    filters: int = 32
    input_dropout: float = 0.2
    feature_dropout: float = 0.2
    hidden_dropout: float = 0.3

    def setup(self) -> None:
        super().setup()
        self.tail_bias = self.param("tail_bias", nn.initializers.zeros_init(), (self.sizes.entities,))
        self.convolution = nn.Conv(self.filters, (CONVE_FILTER, CONVE_FILTER), padding="VALID")
        self.hidden = nn.Dense(self.dim)
        self.image_norm, self.feature_norm, self.hidden_norm = BatchNorm(), BatchNorm(), BatchNorm()
        self.drop_image = nn.Dropout(self.input_dropout, rng_collection="dropout")
        # Dropped whole: one draw per query and map, shared by the map's pixels (axes 2 and 3 of 5).
        self.drop_maps = nn.Dropout(self.feature_dropout, broadcast_dims=(2, 3), rng_collection="dropout")
        self.drop_hidden = nn.Dropout(self.hidden_dropout, rng_collection="dropout")

    def score(
        self, encoded: SharedVectors, heads: Int[Array, "S H"], *, train: bool
    ) -> Float[Array, "S H N"]:
        weights, fixed = real_queries(self, heads), not train
        height = largest_divisor_up_to_root(self.dim)
        shape = (*heads.shape, height, self.dim // height, 1)
        of_heads = encoded.entities[heads].reshape(shape)
        of_relations = jnp.broadcast_to(encoded.relations[:, None], (*heads.shape, self.dim)).reshape(shape)
        image = jnp.concatenate([of_heads, of_relations], axis=2)
        image = self.drop_image(self.image_norm(image, weights, train=train), deterministic=fixed)
        maps = nn.relu(self.feature_norm(self.convolution(image), weights, train=train))
        maps = self.drop_maps(maps, deterministic=fixed)
        hidden = self.hidden(maps.reshape(*heads.shape, -1))
        hidden = self.drop_hidden(hidden, deterministic=fixed)
        query = nn.relu(self.hidden_norm(hidden, weights, train=train))
        return query @ encoded.entities.T + self.tail_bias


MODEL = ModelSpec(table_model(ConvE, "query.", dropout=False), per_entity=("embedding", "tail_bias"))
