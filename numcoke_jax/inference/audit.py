"""An audit of a finished run: do its ranks, filters, splits, values and intervals hold what it claims?

The ranks of a sample of facts are counted anew, one candidate at a time, from raw scores and from sets of
facts: nothing of `evaluation/ranking` or of its indexes is used for it, only compared with it.  What cannot
be judged (no masked cell whose value is known, no negatives) is "unknown", never passed.  A fact of an
inverse relation (`data.inverse`) counts as the fact that it turns around.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from scipy import stats

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph
from numcoke_jax.evaluation.metrics import HITS_AT
from numcoke_jax.evaluation.orders import field_of_relation
from numcoke_jax.evaluation.ranking import KnownTails
from numcoke_jax.inference.impute import TESTED_ON, impute, masked_truth
from numcoke_jax.inference.intervals import CELL_COLUMNS, WITHOUT
from numcoke_jax.inference.trained import Trained
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.unseen import has_vectors
from numcoke_jax.system.errors import plural, shown_name

FINE, FAULT, UNKNOWN = "fine", "FAULT", "unknown"
SAMPLE = 200
STREAM = 8  # of the audit's seed
LEVEL = 0.9  # of the intervals whose coverage is looked at
UNLIKELY = 0.001  # probability of so low a coverage by chance, from which it is a fault
SAME_ORDER = 0.999  # rank correlation of a field with a hidden one, from which it gives that one away
FEWEST_CELLS = 10
ROUNDING = 1e-9  # relative, of a metric in report.json
Fact = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one check looked at and found.

    Attributes:
      check: its name.
      verdict: `FINE`, `FAULT` or `UNKNOWN`.
      looked_at: how many facts, filters or cells.
      faults: how many of them are wrong.
      says: one sentence.
    """

    check: str
    verdict: str
    looked_at: int
    faults: int
    says: str


def found(check: str, looked_at: int, faults: int, fine: str, wrong: str) -> Finding:
    """A finding that is a fault if anything is wrong, and unknown if nothing could be looked at."""
    if not looked_at:
        return Finding(check, UNKNOWN, 0, 0, "there is nothing to look at")
    return Finding(check, FAULT if faults else FINE, looked_at, faults, wrong if faults else fine)


def audit(trained: Trained, *, sample: int = SAMPLE, seed: int = 0) -> list[Finding]:
    """Every check of a run, in the order of its parts.

    Args:
      trained: the run with its best parameters and its report.
      sample: facts of each of valid and test that are ranked anew; all if there are fewer.
      seed: of the sample.

    Raises:
      FloatingPointError: a score is not finite.
    """
    run = trained.run
    facts = {split: own_facts(run.judged, run.judged.split(split)) for split in SPLITS}
    return [
        *ranks_and_ties(trained, sample, seed),
        *reported(trained),
        filter_of_ranks(run, sample, seed),
        filter_of_selection(run, facts, sample, seed),
        splits_apart(facts),
        training_labels(run, facts),
        test_in_negatives(run, facts),
        masked_in_negatives(run, facts),
        scores_without_test(trained, sample, seed),
        masked_cells(run),
        hidden_fields(run),
        coverage_without_facts(trained),
    ]


def sampled(facts: np.ndarray, sample: int, seed: int) -> np.ndarray:
    """At most `sample` places of the facts, ascending."""
    drawn = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
    return np.sort(drawn.permutation(len(facts))[:sample])


def own_facts(graph: NumericGraph, facts: np.ndarray) -> set[Fact]:
    """The facts of int [n, 3]; those of inverse relations as what they turn around."""
    own = graph.own_relations
    return {(t, r - own, h) if r >= own else (h, r, t) for h, r, t in facts.tolist()}


def turned(graph: NumericGraph, facts: np.ndarray) -> np.ndarray:
    """(tail, inverse, head) of each (head, relation, tail): the question about the head of a fact."""
    return np.stack([facts[:, TAIL], facts[:, RELATION] + graph.own_relations, facts[:, HEAD]], axis=1)


def tails_of(graph: NumericGraph, *splits: str) -> dict[tuple[int, int], set[int]]:
    """(head, relation) -> its tails in these splits, as sets; (tail, inverse) -> heads where there is one."""
    tails: dict[tuple[int, int], set[int]] = {}
    for split in splits:
        for head, relation, tail in own_facts(graph, graph.split(split)):
            tails.setdefault((head, relation), set()).add(tail)
            if graph.first_inverse is not None:
                tails.setdefault((tail, relation + graph.own_relations), set()).add(head)
    return tails


def counted_rank(scores: list[float], target: int, left_out: set[int]) -> tuple[float, int]:
    """The rank of a target among the candidates that are not left out, ties at the mean; and its ties."""
    above = ties = 0
    for candidate, score in enumerate(scores):
        if candidate == target or candidate in left_out:
            continue
        above += score > scores[target]
        ties += score == scores[target]
    return 1 + above + ties / 2, ties


def ranks_and_ties(trained: Trained, sample: int, seed: int) -> list[Finding]:
    """The program's ranks of sampled facts against counted ones, with and without the head itself."""
    run, wrong, tied, wrong_ties, count = trained.run, 0, 0, 0, 0
    known = tails_of(run.judged, *SPLITS)
    sides = [
        (ranks, turned(run.judged, run.judged.split(split)) if side == "heads" else run.judged.split(split))
        for split in ("valid", "test")
        for side, ranks in run.evaluator.sides(trained.params, split).items()
    ]
    for ranks, facts in sides:
        places = sampled(facts, sample, seed)
        for relation in np.unique(facts[places, RELATION]).tolist():
            own = [place for place in places.tolist() if facts[place, RELATION] == relation]
            for begin, scores in run.scorer.scored_heads(trained.params, facts[own, HEAD], relation):
                for place, row in zip(own[begin:], scores.tolist(), strict=False):
                    head, _, tail = facts[place].tolist()
                    others = known[head, relation] - {tail}
                    rank, ties = counted_rank(row, tail, others)
                    same = ranks.all[place] == rank
                    without_self = counted_rank(row, tail, others | ({head} - {tail}))[0]
                    wrong += not (same and ranks.exclude_self[place] == without_self)
                    tied += ties > 0
                    wrong_ties += ties > 0 and not same
                    count += 1
    ties_of = f"{plural(tied, 'sampled fact')} of {count:,} have ties"
    return [
        found(
            "ranks",
            count,
            wrong,
            "the ranks of valid and test, counted one by one from raw scores, are the program's",
            f"{plural(wrong, 'rank')} of valid and test differ from those counted from raw scores",
        ),
        Finding("ties", FINE, count, 0, "no sampled fact has a tie: the rule for ties decides nothing")
        if not tied
        else found(
            "ties",
            tied,
            wrong_ties,
            f"{ties_of}, each at the mean rank of its ties",
            f"{ties_of}, and {wrong_ties:,} of these are not at the mean rank of their ties",
        ),
    ]


def reported(trained: Trained) -> list[Finding]:
    """The metrics of report.json against sums of the program's ranks."""
    findings = []
    for split in ("valid", "test"):
        check = f"report: {split}"
        if trained.report is None:
            findings.append(Finding(check, UNKNOWN, 0, 0, "there is no report.json"))
            continue
        stored: Mapping[str, Any] = trained.report["valid" if split == "valid" else "test"]
        sides = trained.run.evaluator.sides(trained.params, split)
        kept = {"": sides["tails"].all, "exclude_self": sides["tails"].exclude_self}
        if "heads" in sides:
            kept |= {"heads": sides["heads"].all}
            kept |= {"both": np.concatenate([found.all for found in sides.values()])}
        pairs = [
            ((stored.get(part, {}) if part else stored).get(name), value)
            for part, ranks in kept.items()
            for name, value in metrics_of(ranks.tolist()).items()
        ]
        wrong = sum(not _equal(there, now) for there, now in pairs)
        findings.append(
            found(
                check,
                len(pairs),
                wrong,
                "the metrics in report.json are those of the ranks",
                f"{plural(wrong, 'metric')} in report.json differ from those of the ranks",
            )
        )
    return findings


def metrics_of(ranks: list[float]) -> dict[str, float | int | None]:
    """Count, MRR, MR and Hits@k of ranks; None without any."""
    count = len(ranks)
    sums = {"mrr": math.fsum(1 / rank for rank in ranks), "mr": math.fsum(ranks)}
    sums |= {f"hits@{k}": sum(rank <= k for rank in ranks) for k in HITS_AT}
    means = {name: value / count if count else None for name, value in sums.items()}
    return {"count": count, **means}


def _equal(there: Any, now: float | None) -> bool:
    if now is None or not isinstance(there, int | float):
        return there is now
    return math.isclose(there, now, rel_tol=ROUNDING)


def _wrong_filters(
    run: Run, known: KnownTails, expected: Callable[[int, int], set[int]], sample: int, seed: int
) -> tuple[int, int]:
    """How many filters of sampled queries were looked at, and how many differ from the expected sets."""
    facts = np.concatenate([run.judged.valid, run.judged.test])
    if run.judged.first_inverse is not None:
        facts = np.concatenate([facts, turned(run.judged, facts)])
    wrong, places = 0, sampled(facts, 2 * sample, seed)
    for head, relation, _ in facts[places].tolist():
        mask = known.mask(np.asarray([head]), np.asarray(relation), run.judged.num_entities)[0]
        wrong += set(np.flatnonzero(mask).tolist()) != expected(head, relation)
    return len(places), wrong


def filter_of_ranks(run: Run, sample: int, seed: int) -> Finding:
    """The filter of the reported ranks: the tails that any split knows, and no other."""
    known = tails_of(run.judged, *SPLITS)
    looked, wrong = _wrong_filters(
        run, run.evaluator.filters()["ranks"], lambda h, r: known.get((h, r), set()), sample, seed
    )
    return found(
        "filter: ranks",
        looked,
        wrong,
        "each query leaves out the tails that train, valid and test know, and no other",
        f"{plural(wrong, 'query')} leave out other tails than those that train, valid and test know",
    )


def filter_of_selection(run: Run, facts: Mapping[str, set[Fact]], sample: int, seed: int) -> Finding:
    """The filter that chose the best checkpoint: nothing but train and valid may decide it."""
    check, rule = "filter: selection", run.config.eval.selection
    if rule == "all":
        number = len(facts["test"])
        return found(check, number, number, "", "eval.selection=all: test facts had a say in the choice")
    known = tails_of(run.judged, "train", "valid")
    below: dict[tuple[int, int], set[int]] = {}
    for (head, relation), tails in known.items():
        for tail in tails:
            below.setdefault((tail, relation), set()).add(head)
    everyone = set(range(run.judged.num_entities))

    def expected(head: int, relation: int) -> set[int]:
        if rule == "seen":
            return known.get((head, relation), set())
        return everyone - below.get((head, relation), set()) - {head}

    used = run.evaluator.filters()["selection"]
    looked, wrong = _wrong_filters(run, used, expected, sample, seed)
    return found(
        check,
        looked,
        wrong,
        f"what eval.selection={rule} ranks against follows from train and valid alone",
        f"{plural(wrong, 'query')} rank against what does not follow from train and valid",
    )


def splits_apart(facts: Mapping[str, set[Fact]]) -> Finding:
    """Facts that are in two splits."""
    held = len(facts["valid"]) + len(facts["test"])
    test = len(facts["test"] & (facts["train"] | facts["valid"]))
    valid = len(facts["valid"] & facts["train"])
    return found(
        "splits",
        held,
        test + valid,
        "no fact is in two splits",
        f"{plural(test, 'test fact')} are also in train or valid, {valid:,} of valid also in train",
    )


def training_labels(run: Run, facts: Mapping[str, set[Fact]]) -> Finding:
    """What the loss takes to be true."""
    positives = own_facts(run.graph, _facts_of(run.batches.positives))
    outside = len(positives - facts["train"])
    return found(
        "training labels",
        len(positives),
        outside,
        "what training takes to be true is in train",
        f"training takes {plural(outside, 'triple')} to be true that are not in train",
    )


def test_in_negatives(run: Run, facts: Mapping[str, set[Fact]]) -> Finding:
    """Held-out facts among what training takes to be false."""
    negatives = own_facts(run.graph, _facts_of(run.batches.negatives))
    wrong = len(negatives & (facts["test"] | facts["valid"]))
    return found(
        "negatives: held-out facts",
        len(negatives),
        wrong,
        "no known negative is a fact of valid or test",
        f"{plural(wrong, 'known negative')} are facts of valid or test",
    )


def masked_in_negatives(run: Run, facts: Mapping[str, set[Fact]]) -> Finding:
    """Negatives of comparisons that neither a training fact nor two shown values imply."""
    check, graph, looked, wrong = "negatives: masked values", run.graph, 0, 0
    for relation in range(graph.own_relations):
        field = field_of_relation(graph, relation)
        if field is None:
            continue
        seen = graph.observed[:, field]
        for head, _, tail in graph.negatives[graph.negatives[:, RELATION] == relation].tolist():
            looked += 1
            implied = head == tail or (tail, relation, head) in facts["train"] or (seen[head] and seen[tail])
            wrong += not implied
    if not looked:
        says = "there are no given negatives of a relation that is named after a field"
        return Finding(check, UNKNOWN, 0, 0, says)
    return found(
        check,
        looked,
        wrong,
        "each given negative follows from a training fact or from two values that are shown",
        f"{plural(wrong, 'given negative')} follow from no training fact and no two shown values",
    )


def scores_without_test(trained: Trained, sample: int, seed: int) -> Finding:
    """Scores with what the model fits (an order core) fitted again to a graph without test facts.

    Validation facts stay: they may say how noisy facts are.
    """
    run, graph = trained.run, trained.run.graph
    empty = dataclasses.replace(graph, test=graph.test[:0])
    again = run.refitted(trained.params, run.programs.model, empty)
    facts = np.concatenate([run.judged.valid, run.judged.test])
    places = sampled(facts, sample, seed)
    looked = wrong = 0
    for relation in np.unique(facts[places, RELATION]).tolist():
        heads = np.unique(facts[places][facts[places, RELATION] == relation, HEAD])
        before, after = (
            np.concatenate([part for _, part in run.scorer.scored_heads(params, heads, relation)])
            for params in (trained.params, again)
        )
        looked += len(heads)
        wrong += int((~np.isclose(before, after, rtol=1e-4, atol=1e-4)).any(axis=1).sum())
    same = "what is fitted at once gives the same scores without test facts"
    if has_vectors(trained.params):
        same += "; learned vectors are not looked at here"
    differ = f"the scores of {plural(wrong, 'head')} change without test facts"
    return found("fit", looked, wrong, same, differ)


def masked_cells(run: Run) -> Finding:
    """What the model is given in cells that are missing: nothing."""
    graph, literals, rows = run.graph, run.literals, run.graph.num_entities
    missing = ~graph.observed
    given = (graph.values != 0) & missing
    given |= np.asarray(jax.device_get(literals.observed))[:rows] & missing
    given |= (np.asarray(jax.device_get(literals.values))[:rows] != 0) & missing
    count = int(given.sum())
    return found(
        "masked values",
        int(missing.sum()),
        count,
        "the model is given nothing in a missing cell",
        f"the model is given a value in {plural(count, 'missing cell')}",
    )


def hidden_fields(run: Run) -> Finding:
    """Fields that `data.hide` or a folder hides: gone, and no other field has the same order of values."""
    check, truth = "hidden fields", run.loaded.truth or run.graph
    hidden = sorted({*run.config.data.hide} | {*truth.vocabulary.fields} - {*run.graph.vocabulary.fields})
    if not hidden:
        return Finding(check, UNKNOWN, 0, 0, "no field is hidden")
    tellers = [name for name in hidden if name in run.graph.vocabulary.fields]
    for name in hidden:
        place = truth.vocabulary.fields.index(name)
        for field, other in enumerate(run.graph.vocabulary.fields):
            both = run.graph.observed[:, field] & truth.observed[:, place]
            if other in hidden or int(both.sum()) < FEWEST_CELLS:
                continue
            shown, secret = run.graph.values[both, field], truth.values[both, place]
            if np.ptp(shown) and np.ptp(secret) and abs(stats.spearmanr(shown, secret)[0]) >= SAME_ORDER:
                tellers.append(other)
    names = ", ".join(map(shown_name, tellers[:5]))
    fine = "they are not in the graph, and no field that is shown has the same order of values"
    return found(check, len(hidden), len(tellers), fine, f"the values of hidden fields are in {names}")


def coverage_without_facts(trained: Trained) -> Finding:
    """Intervals of missing cells that no fact tells about: do they contain the masked values?"""
    check, run = "intervals without facts", trained.run
    if not run.graph.observed.any():
        return Finding(check, UNKNOWN, 0, 0, "the graph has no values")
    told, truth = impute(trained, level=LEVEL), masked_truth(run)
    kind = told["kinds"][WITHOUT]
    cells, covered = kind["cells"], round(kind["cells"] * (kind["covered"] or 0.0))
    if truth is not None:
        cells, covered = _covered(told["cells"], run.graph, truth)
    if not cells:
        return Finding(check, UNKNOWN, 0, 0, "no cell without facts has a value to compare with")
    share, chance = covered / cells, stats.binom.cdf(covered, cells, LEVEL)
    says = f"{share:.1%} of {cells:,} {TESTED_ON[truth is None]} cells are in their interval, of {LEVEL:.0%}"
    return Finding(check, FAULT if chance < UNLIKELY else FINE, cells, cells - covered, says)


def _covered(cells: list[dict[str, Any]], graph: NumericGraph, truth: NumericGraph) -> tuple[int, int]:
    """How many of the shown intervals of cells that no fact tells about have a truth, and contain it."""
    assert {"low_value", "high_value", "known_by"} <= set(CELL_COLUMNS)
    entities = {name: place for place, name in enumerate(graph.vocabulary.entities)}
    fields = {name: place for place, name in enumerate(graph.vocabulary.fields)}
    count = inside = 0
    for cell in cells:
        place = entities[cell["entity"]], fields[cell["field"]]
        if cell["known_by"] == "facts" or not truth.observed[place]:
            continue
        low = -math.inf if cell["low_value"] is None else cell["low_value"]
        high = math.inf if cell["high_value"] is None else cell["high_value"]
        count += 1
        inside += bool(low <= truth.values[place] <= high)
    return count, inside


def _facts_of(index: Any) -> np.ndarray:
    """The facts of a `TailIndex`, int [n, 3]."""
    rows = np.repeat(np.arange(len(index.queries)), np.diff(index.indptr))
    heads, relations = index.queries[rows].T
    return np.stack([heads, relations, index.tails], axis=1)
