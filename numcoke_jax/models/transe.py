"""TransE in 1-vs-all form; without numbers it is the baseline that shows what the facts alone give.

Source: Bordes et al., "Translating Embeddings for Modeling Multi-relational Data", NeurIPS 2013, in the form
that the public code of RAKGE (KDD 2023) compares with: margin 9, L1, embeddings d, dropout 0.7 on the entity
table, binary cross-entropy over all entities instead of sampled negatives.

    e~_i  = dropout(e_i)                     one mask per step: an entity is the same vector as head and tail
    score = epsilon - ||e~_h + r - e~_t||_p  p = 1 or 2

That code also subtracts one learned vector from every entity before the dropout.  These differences are just
as free a table as the one here, and without dropout the vector cancels in e_h + r - e_t: it is left out.

With `model.attributes` "concat" the values are joined to e_i first (`entity_table.py`).
"""

from numcoke_jax.models.entity_table import TableModel, table_model
from numcoke_jax.models.interface import ModelSpec
from numcoke_jax.models.score import DecodedOrderScore, TranslationScored, translation_term


class TransE(TranslationScored, TableModel):
    """Scores heads against one table of N vectors, the same under every relation.

    Attributes:
      score_term: the translation term; without order term and without dropout of its own.
    """

    score_term: DecodedOrderScore


MODEL = ModelSpec(table_model(TransE, score_term=translation_term), per_entity=("embedding",))
