"""Questions other than (head, relation, ?): the heads of a tail, and the scores of given triples.

A model scores all tails of a head at once, so the heads of a tail take one pass over all heads, a chunk of
them at a time, and triples one over their different heads.  A model with inverse relations was ranked by
these on the side of the heads, and is asked by them: (tail, inverse of relation, ?).
"""

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL
from numcoke_jax.inference.predict import NO_SPLIT, AnswerSettings, Predictor, best_candidates, named
from numcoke_jax.models.encoded import ORDER, decided_by

SCORE_COLUMNS = ("head", "relation", "tail", "score", "probability", "likelier")


def head_columns(
    predictor: Predictor, tail: int, relation: int, settings: AnswerSettings
) -> dict[str, np.ndarray]:
    """The best heads of (?, relation, tail), as `predict.COLUMNS`.

    Args:
      predictor: the trained model.
      tail: entity id.
      relation: its id.
      settings: `candidates` are heads here, and `exclude_self` leaves the tail out.

    Raises:
      FloatingPointError: a score is not finite.
    """
    graph = predictor.graph
    inverse = graph.inverse_of(relation)
    if inverse is not None:
        ((_, scores),) = predictor.scored_heads(np.array([tail]), inverse)
    else:
        scores = np.empty((1, graph.num_entities), np.float32)
        for begin, block in predictor.scored_heads(np.arange(graph.num_entities), relation):
            scores[0, begin : begin + len(block)] = block[:, tail]
    known = np.full(scores.shape, NO_SPLIT, np.int8)
    for place in reversed(range(len(SPLITS))):
        if SPLITS[place] in settings.splits:
            facts = graph.known(SPLITS[place])
            same = (facts[:, RELATION] == relation) & (facts[:, TAIL] == tail)
            known[0, facts[same, HEAD]] = place
    _, heads, ranks = best_candidates(scores, np.array([tail]), known, settings)
    ends, asked = (heads, np.full_like(heads, tail)), relation
    if inverse is not None:
        ends, asked = (ends[1], ends[0]), inverse
    probabilities = predictor.probabilities(scores[0, heads], *ends, asked)
    names = graph.vocabulary
    return {
        "head": named(names.entities, heads),
        "relation": named(names.relations, np.full_like(heads, relation)),
        "rank": ranks,
        "tail": named(names.entities, np.full_like(heads, tail)),
        "score": scores[0, heads].astype(np.float64),
        "probability": probabilities,
        "known": named((*SPLITS, ""), known[0, heads]),
    }


def score_columns(predictor: Predictor, triples: np.ndarray) -> dict[str, np.ndarray]:
    """The score of each triple, as `SCORE_COLUMNS`, in their order.

    `likelier` is, for a relation that compares, the end that more likely stands above the other, by what the
    triple and its reverse have: probabilities if an order core decides the relation, else scores.  It is ""
    if both are as likely, if head and tail are one entity, if one only names a category, and for relations of
    another kind.

    Args:
      predictor: the trained model.
      triples: int [n, 3] ids (head, relation, tail); the same one may come several times.

    Raises:
      FloatingPointError: a score is not finite.
    """
    scores, probabilities = _scored(predictor, triples)
    relations = triples[:, RELATION]
    different = np.unique(relations).tolist()
    decided = np.isin(relations, [r for r in different if decided_by(predictor.encoded(r)) == ORDER])
    asked = np.flatnonzero(decided | np.isin(relations, predictor.compared))
    reverse = _scored(predictor, triples[asked][:, [TAIL, RELATION, HEAD]])
    ahead = np.zeros(len(triples))
    gaps = scores[asked] - reverse[0], probabilities[asked] - reverse[1]
    unknown = predictor.placeless(triples[asked, HEAD], triples[asked, TAIL])
    ahead[asked] = np.where(unknown, 0.0, np.where(decided[asked], gaps[1], gaps[0]))
    names = predictor.graph.vocabulary
    heads, tails = named(names.entities, triples[:, HEAD]), named(names.entities, triples[:, TAIL])
    return {
        "head": heads,
        "relation": named(names.relations, relations),
        "tail": tails,
        "score": scores,
        "probability": probabilities,
        "likelier": np.where(ahead > 0, heads, np.where(ahead < 0, tails, "")),
    }


def _scored(predictor: Predictor, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and probabilities of triples int [n, 3], float64 [n] each."""
    scores, probabilities = np.zeros(len(triples)), np.zeros(len(triples))
    for relation in np.unique(triples[:, RELATION]):
        rows = np.flatnonzero(triples[:, RELATION] == relation)
        heads, place = np.unique(triples[rows, HEAD], return_inverse=True)
        rows, place = rows[np.argsort(place, kind="stable")], np.sort(place)
        for begin, block in predictor.scored_heads(heads, int(relation)):
            first, last = np.searchsorted(place, [begin, begin + len(block)])
            scores[rows[first:last]] = block[place[first:last] - begin, triples[rows[first:last], TAIL]]
        ends = triples[rows, HEAD], triples[rows, TAIL]
        probabilities[rows] = predictor.probabilities(scores[rows], *ends, int(relation))
    return scores, probabilities
