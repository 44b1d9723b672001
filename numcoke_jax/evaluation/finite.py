"""What to say about scores that are not finite: how many heads have some, under which relation."""

from collections.abc import Iterable

import numpy as np

from numcoke_jax.data.graph import Vocabulary
from numcoke_jax.system.errors import first_of, plural, shown_name

MOST_NAMED = 5  # heads listed in an error


class NonFiniteScoresError(FloatingPointError):
    """Scores of some heads under a relation are NaN or infinite.

    Args:
      relation: its id.
      heads: ids of the heads, of those that were scored so far.
      vocabulary: names to call them by; without it the ids stand in the message.
    """

    def __init__(self, relation: int, heads: Iterable[int], vocabulary: Vocabulary | None = None) -> None:
        self.relation, self.heads = int(relation), np.unique(list(heads)).tolist()
        if vocabulary is None:
            ids = first_of([str(head) for head in self.heads], MOST_NAMED)
            message = f"non-finite scores for relation {relation}, heads {ids}"
        else:
            names = first_of([shown_name(vocabulary.entities[head]) for head in self.heads], MOST_NAMED, "; ")
            count, name = plural(len(self.heads), "head"), shown_name(vocabulary.relations[relation])
            message = f"non-finite scores under relation {name} of {count}: {names}"
        super().__init__(message)

    def named(self, vocabulary: Vocabulary) -> "NonFiniteScoresError":
        """The same error with names."""
        return NonFiniteScoresError(self.relation, self.heads, vocabulary)
