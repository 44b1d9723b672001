"""Scores of held-out facts and of the triples that count as false, which probabilities are fitted to.

Which triples are labelled is a `Question`'s: "reversed" takes each held-out fact and its reverse, which a
strict order makes false, so a probability answers "which of the two is it?" (each way of a pair that is a
fact both ways is once true and once false); the other rules of `eval.selection` take every tail of a held-out
fact's query that is not a training fact, so a probability answers "is this a fact of the graph?".

In that case the facts of the test split are among the tails of validation, without a label: only a share c of
the facts of a relation that training does not know is marked true.  It is a ratio of counts: the test split
only contributes how many of its facts are among these tails, not which.
"""

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from numcoke_jax.data.graph import HEAD, RELATION, TAIL, NumericGraph
from numcoke_jax.evaluation.scorer import ScoredHeads

MOST_SCORED = 100_000_000  # triples of a split; beyond that, a seeded sample of each relation's queries,
MOST_MEASURED = 2_000_000  # the same of log odds, to which nothing is fitted
LEAST_QUERIES = 40  # of at least so many
MOST_FALSE = 2_000_000  # kept of a split; beyond that, a seeded sample that stands for all


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of some relations.

    Attributes:
      relations: their ids.
      scored_heads: scores the graph's entities as tails.
      selection: one of `eval.selection`.
      log_odds: the scores are log odds already (an order core's): they stay as they are, as fitting them to a
        few hundred facts only adds noise.
    """

    relations: Collection[int]
    scored_heads: ScoredHeads
    selection: str
    log_odds: bool = False

    @property
    def directions(self) -> bool:
        """Whether a fact is set against its reverse."""
        return self.selection == "reversed"


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Scores with what is known about them.

    Attributes:
      scores: float64 [n].
      labels: bool [n].
      relations: int64 [n], relation ids.
      share: float64 [n], c in (0, 1], the share of the relation's true triples that is labelled true.
      further: bool [n], the head has a training fact of the relation; False if directions are asked for.
      weights: float64 [n], how many triples each stands for.
    """

    scores: np.ndarray
    labels: np.ndarray
    relations: np.ndarray
    share: np.ndarray
    further: np.ndarray
    weights: np.ndarray

    def of(self, rows: np.ndarray) -> "Labelled":
        """Some of them, by an index."""
        return Labelled(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))

    @classmethod
    def alike(
        cls, scores: np.ndarray, further: np.ndarray, *, label: bool, relation: int, weight: float
    ) -> "Labelled":
        """Scores of one label and relation, all of whose true triples are labelled."""
        of_all = (label, bool), (relation, np.int64), (1.0, float), (weight, float)
        labels, relations, share, weights = (np.full(len(scores), value, dtype) for value, dtype in of_all)
        return cls(scores, labels, relations, share, further, weights)

    @classmethod
    def joined(cls, parts: Sequence["Labelled"]) -> "Labelled":
        """All of them."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def labelled_scores(graph: NumericGraph, split: str, question: Question, *, seed: int) -> Labelled:
    """Scores of facts of `split` and of the triples that count as false.

    Args:
      graph: the facts.
      split: "valid" or "test".
      question: the relations, and what is asked of them.
      seed: of the samples, if there are too many.
    """
    facts = graph.known(split)
    facts = facts[np.isin(facts[:, RELATION], list(question.relations))]
    asked = np.concatenate([facts, facts[:, [TAIL, RELATION, HEAD]]]) if question.directions else facts
    queries = graph.index_of(asked).queries
    relations = np.unique(queries[:, RELATION]).tolist()
    scored = MOST_MEASURED if question.log_odds else MOST_SCORED
    most = max(scored // max(graph.num_entities * len(relations), 1), LEAST_QUERIES)
    random = np.random.default_rng(np.random.SeedSequence(seed))
    none = np.empty(0)
    parts = [Labelled.alike(none, none.astype(bool), label=False, relation=0, weight=1.0)]
    for relation in relations:
        heads = _sampled(queries[queries[:, RELATION] == relation, HEAD], most, random)
        parts += _of_relation(graph, split, question, relation, heads, MOST_FALSE // len(relations), random)
    return Labelled.joined(parts)


def _of_relation(
    graph: NumericGraph,
    split: str,
    question: Question,
    relation: int,
    heads: np.ndarray,
    most_false: int,
    random: np.random.Generator,
) -> list[Labelled]:
    """The labelled triples of one relation whose heads are given, int [n] and sorted."""
    count, trained, asked = graph.num_entities, graph.index("train"), graph.index(split)
    if question.directions:
        facts = graph.known(split)
        others = graph.index_of(facts[facts[:, RELATION] == relation][:, [TAIL, RELATION, HEAD]])
    else:  # validation is blind to the test
        others = trained if split == "valid" else graph.index("train", "valid", "test")
    unlabelled = graph.index("test") if split == "valid" else graph.index()
    # Of tails that are no facts there are as many as entities, of reverses as many as facts.
    kept_share = 1.0 if question.directions else min(most_false / (len(heads) * count), 1.0)
    parts, hidden = [], 0  # test facts among the tails that are used
    for begin, scores in question.scored_heads(heads, relation):
        block = heads[begin : begin + len(scores)]
        true = asked.mask(block, relation, count)
        false, further = others.mask(block, relation, count), np.zeros(scores.shape, bool)
        if not question.directions:
            false = ~(true | false)
            further |= (trained.rows(block, relation) >= 0)[:, None]
            hidden += int((false & unlabelled.mask(block, relation, count)).sum())
        if kept_share < 1.0:
            false &= random.random(false.shape, np.float32) < kept_share
        for label, used, weight in ((True, true, 1.0), (False, false, 1.0 / kept_share)):
            rows = [scores[used].astype(np.float64), further[used]]
            parts.append(Labelled.alike(*rows, label=label, relation=relation, weight=weight))
    positives = sum(int(part.labels.sum()) for part in parts)
    for part in parts if hidden else ():
        part.share[:] = positives / (positives + hidden)
    return parts


def _sampled(rows: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """At most `most` of the rows, in their original order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(random.permutation(len(rows))[:most])]
