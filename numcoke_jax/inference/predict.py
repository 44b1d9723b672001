"""Ranked tails of queries (head, relation, ?) with a trained model.

The ranks are those of the evaluation: one row of raw scores, ties at their mean rank, known facts left
out of the count if they are excluded.  Queries are grouped by relation, a relation is encoded once, and
distinct heads are scored in chunks by the two functions that the evaluation compiled.
"""

import dataclasses
import functools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, NumericGraph, Vocabulary
from numcoke_jax.data.tail_index import places_in_groups
from numcoke_jax.evaluation.calibration import Calibration
from numcoke_jax.evaluation.scorer import Scorer
from numcoke_jax.models.encoded import ORDER, EncodedEntities, decided_by
from numcoke_jax.models.order_core.comparative import category_values, comparative_relations

KNOWN = ("exclude", "mark")
ENCODED_BYTES = 256 * 2**20  # of encoded relations that are kept
CELLS_RANKED = 2**22  # scores that are sorted at once, each of which takes about 60 bytes meanwhile
NO_SPLIT = len(SPLITS)  # in `Answers.known`: the fact is in no split
COLUMNS = ("head", "relation", "rank", "tail", "score", "probability", "known")


@dataclasses.dataclass(frozen=True)
class AnswerSettings:
    """Which tails are candidates and how many are returned.

    Attributes:
      top: answers per query, at most.
      known: "exclude" leaves the facts of `splits` out, "mark" ranks them too and names their split.
      splits: the splits that count as known.
      exclude_self: the head is not a candidate for its own tail.
      candidates: int [c] entity ids that may be answers; None: all.
    """

    top: int = 10
    known: str = "exclude"
    splits: Sequence[str] = SPLITS
    exclude_self: bool = False
    candidates: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Answers:
    """Rows of a table, one query after the other, best first.

    Attributes:
      query: int64 [rows], position of the query.
      tail: int32 [rows], entity id.
      rank: float64 [rows] among the candidates, ties at their mean rank.
      score: float32 [rows], the raw logit.
      probability: float64 [rows], by an order core's positions, or calibrated; NaN where unknown.
      known: int8 [rows], position in `SPLITS` of the first split that has the fact, else `NO_SPLIT`.
    """

    query: np.ndarray
    tail: np.ndarray
    rank: np.ndarray
    score: np.ndarray
    probability: np.ndarray
    known: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence["Answers"]) -> "Answers":
        """All rows, in the order of the queries."""
        names = [field.name for field in dataclasses.fields(cls)]
        whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        order = np.argsort(whole["query"], kind="stable")
        return cls(**{name: column[order] for name, column in whole.items()})


class Predictor:
    """Answers queries with the parameters of one model; several threads may ask at once.

    Args:
      graph: the facts that are known.
      scorer: of the graph's entities.
      params: the model's parameters.
      calibration: turns scores into probabilities.
    """

    def __init__(self, graph: NumericGraph, scorer: Scorer, params: Any, calibration: Calibration) -> None:
        self.graph = graph
        self.calibration = calibration
        self._scorer = scorer
        self._params = params
        self._encoded: OrderedDict[int, Any] = OrderedDict()
        self._encoding = threading.Lock()
        self._facts = [graph.index(split) for split in SPLITS]

    def answer(self, queries: np.ndarray, settings: AnswerSettings) -> Answers:
        """The best tails of each query.

        Args:
          queries: integer [n, 2] (head, relation) ids; the same query may come several times.
          settings: see `AnswerSettings`.

        Raises:
          FloatingPointError: a score is not finite.
        """
        parts = [_no_answers()]
        for relation in np.unique(queries[:, RELATION]):
            rows = np.flatnonzero(queries[:, RELATION] == relation)
            heads, head_of_row = np.unique(queries[rows, HEAD], return_inverse=True)
            for begin, scores in _in_pieces(self.scored_heads(heads, int(relation))):
                asked = np.flatnonzero((head_of_row >= begin) & (head_of_row < begin + len(scores)))
                block = heads[begin : begin + len(scores)]
                best = self._best(scores, block, int(relation), settings)
                parts.extend(_of_queries(best, rows[asked], head_of_row[asked] - begin))
        return Answers.joined(parts)

    def scored_heads(self, heads: np.ndarray, relation: int) -> Iterator[tuple[int, np.ndarray]]:
        """`Scorer.scored_heads` with what this predictor has encoded; same pieces and errors."""
        return self._scorer.scored_heads(self._params, heads, relation, self.encoded(relation))

    def probabilities(
        self, scores: np.ndarray, heads: np.ndarray, tails: np.ndarray, relation: int
    ) -> np.ndarray:
        """Probabilities of facts with these scores, float64 [n], NaN where unknown.

        By positions if an order core knows them; else calibrated, of entities that were in the graph.  Which
        of two stands above is unknown where one only names a category, whatever a model scores.
        """
        encoded = self.encoded(relation)
        decided = encoded.probabilities(heads, tails) if isinstance(encoded, EncodedEntities) else None
        placeless = self.placeless(heads, tails)
        if decided is not None:
            return np.where(placeless, np.nan, decided) if decided_by(encoded) == ORDER else decided
        trained = self.graph.index("train")
        further = trained.rows(heads, relation) >= 0
        facts = trained.has(heads, relation, tails)
        found = self.calibration.probability(scores, relation, further=further, trained=facts)
        unknown = np.maximum(heads, tails) >= self.calibration.entities
        if self.calibration.directions and relation in self.compared:
            unknown |= placeless
        return np.where(unknown, np.nan, found)

    def placeless(self, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
        """Whether head or tail only names a category, of which a comparison says nothing, bool [n]."""
        return self._categories[heads] | self._categories[tails]

    @functools.cached_property
    def compared(self) -> tuple[int, ...]:
        """The ids of the relations that compare."""
        return comparative_relations(self.graph)

    @functools.cached_property
    def _categories(self) -> np.ndarray:
        return category_values(self.graph)

    def encoded(self, relation: int) -> Any:
        """The model's encoding of all entities under `relation`; the newest ones are kept."""
        with self._encoding:
            if relation in self._encoded:
                self._encoded.move_to_end(relation)
                return self._encoded[relation]
            encoded = self._scorer.encode(self._params, relation)
            self._encoded[relation] = encoded
            size = sum(leaf.nbytes for leaf in jax.tree.leaves(encoded))
            while len(self._encoded) > 1 and len(self._encoded) * size > ENCODED_BYTES:
                self._encoded.popitem(last=False)
            return encoded

    def _best(
        self, scores: np.ndarray, heads: np.ndarray, relation: int, settings: AnswerSettings
    ) -> tuple[Answers, np.ndarray]:
        """Answers whose `query` is the row of `scores`, and where those of each row end, int64 [rows]."""
        known = self._first_split(heads, relation, settings.splits)
        row, tail, rank = best_candidates(scores, heads, known, settings)
        chosen = scores[row, tail]
        answers = Answers(
            query=row,
            tail=tail.astype(np.int32),
            rank=rank,
            score=chosen,
            probability=self.probabilities(chosen, heads[row], tail, relation),
            known=known[row, tail],
        )
        return answers, np.cumsum(np.bincount(row, minlength=len(heads)))

    def _first_split(self, heads: np.ndarray, relation: int, splits: Sequence[str]) -> np.ndarray:
        """Int8 [heads, N]: the first of `splits` that has (head, relation, entity), else NO_SPLIT."""
        found = np.full((len(heads), self.graph.num_entities), NO_SPLIT, np.int8)
        for place in reversed(range(len(SPLITS))):
            if SPLITS[place] in splits:
                found[self._facts[place].mask(heads, relation, self.graph.num_entities)] = place
        return found


def best_candidates(
    scores: np.ndarray, given: np.ndarray, known: np.ndarray, settings: AnswerSettings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best entities of each row of scores [rows, N], row by row, best first.

    Args:
      scores: float [rows, N] of each entity.
      given: int [rows], the entity that the row asks about, which `exclude_self` leaves out.
      known: int8 [rows, N], the split that has the fact, or `NO_SPLIT`.
      settings: which entities are candidates, and how many are returned.

    Returns:
      The row and the entity, int64 [answers], and the rank, float64 [answers], ties at their mean.
    """
    left_out = (known != NO_SPLIT) if settings.known == "exclude" else np.zeros(scores.shape, bool)
    if settings.candidates is not None:
        asked = np.zeros(scores.shape[1], bool)
        asked[settings.candidates] = True
        left_out |= ~asked
    if settings.exclude_self:
        left_out[np.arange(len(given)), given] = True
    ordered = np.where(left_out, -np.inf, scores)
    order = np.argsort(-ordered, axis=1, kind="stable")  # of equal scores, the lower id comes first
    ranks = mean_ranks(np.take_along_axis(ordered, order, axis=1))
    top = min(settings.top, scores.shape[1])
    counts = np.minimum((~left_out).sum(axis=1), top)
    wanted = np.arange(top) < counts[:, None]
    return np.repeat(np.arange(len(given)), counts), order[:, :top][wanted], ranks[:, :top][wanted]


def _in_pieces(scored: Iterator[tuple[int, np.ndarray]]) -> Iterator[tuple[int, np.ndarray]]:
    """The same rows of scores, `CELLS_RANKED` numbers (but at least one row) at a time."""
    for begin, scores in scored:
        rows = max(CELLS_RANKED // max(scores.shape[1], 1), 1)
        for first in range(0, len(scores), rows):
            yield begin + first, scores[first : first + rows]


def mean_ranks(descending: np.ndarray) -> np.ndarray:
    """Float64 ranks of rows [n, N] that descend: equal neighbours share the mean of their places."""
    places = np.broadcast_to(np.arange(descending.shape[1]), descending.shape)
    differs = descending[:, 1:] != descending[:, :-1]
    edge = np.ones((len(descending), 1), bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, differs]), places, 0), axis=1)
    ends = np.where(np.hstack([differs, edge]), places, descending.shape[1])
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    return 1.0 + (first + last) / 2.0


def _of_queries(best: tuple[Answers, np.ndarray], queries: np.ndarray, rows: np.ndarray) -> Iterator[Answers]:
    """The answers of `rows` (of a score matrix), once for each query that asked for them."""
    answers, ends = best
    starts = np.concatenate([[0], ends[:-1]])
    lengths = ends[rows] - starts[rows]
    picked = np.repeat(starts[rows], lengths) + places_in_groups(lengths)
    columns = {field.name: getattr(answers, field.name)[picked] for field in dataclasses.fields(Answers)}
    yield Answers(**{**columns, "query": np.repeat(queries, lengths)})


def _no_answers() -> Answers:
    empty = {"query": np.int64, "tail": np.int32, "rank": np.float64, "score": np.float32}
    empty |= {"probability": np.float64, "known": np.int8}
    return Answers(**{name: np.empty(0, dtype) for name, dtype in empty.items()})


def tail_columns(
    predictor: Predictor, heads: Sequence[int], relation: int, settings: AnswerSettings
) -> dict[str, np.ndarray]:
    """The best tails of (head, relation, ?) for each head, as `COLUMNS`."""
    queries = np.array([(head, relation) for head in heads], int).reshape(-1, 2)
    return answer_columns(predictor.answer(queries, settings), queries, predictor.graph.vocabulary)


def answer_columns(answers: Answers, queries: np.ndarray, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Answers as `COLUMNS`; `known` names the split that has the fact, or is "".

    Args:
      answers: of `queries`.
      queries: int [n, 2] (head, relation).
      vocabulary: the names of the ids.
    """
    heads, relations = queries[answers.query].T
    return {
        "head": named(vocabulary.entities, heads),
        "relation": named(vocabulary.relations, relations),
        "rank": answers.rank,
        "tail": named(vocabulary.entities, answers.tail),
        "score": answers.score.astype(np.float64),
        "probability": answers.probability,
        "known": named((*SPLITS, ""), answers.known),
    }


def named(names: Sequence[str], ids: np.ndarray) -> np.ndarray:
    """The names of ids, object [n]; it takes time for these alone, not for all names of a large graph."""
    return np.array([names[index] for index in ids.tolist()], object)
