"""What is worth knowing about a loaded graph: counts, and findings that deserve a warning.

Policies, in one place:

* a repeated fact counts once; facts shared by two splits stay in both and are reported;
* entities that training never saw keep their rows and are ranked like any other;
* of a relation without a training fact nothing can be learned: its facts are in no metric, and report.json
  names it (`variants.without_unseen_relations`);
* negatives that are training facts, or that name something unknown, are dropped; negatives that
  contradict valid or test facts are reported and kept, because using them would leak those facts;
* names that look alike (outer or different white space, invisible characters, Unicode normalisation
  form, 7 and 7.0) stay distinct and are reported.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.graph import HEAD, RELATION, SPLITS, TAIL, NumericGraph, fact_keys
from numcoke_jax.data.tail_index import sorted_unique
from numcoke_jax.system.errors import plural, plural_of, shown_name

EMPTY = {"valid": "early stopping has nothing to go by", "test": "nothing to rank"}  # what follows
SHOWN_NAMES = 3  # examples in a notice
INVISIBLE = "[\u00ad\u200b-\u200d\u2060\ufeff]"  # soft hyphen, zero-width characters


@dataclasses.dataclass(frozen=True)
class FieldSummary:
    """A numeric field: how many entities have it and its range in its own unit."""

    name: str
    observed: int
    minimum: float
    maximum: float


@dataclasses.dataclass
class GraphReport:
    """Counts and findings of loading a graph; counts are of distinct things unless they are called rows.

    Attributes:
      rows, repeated: rows per split, and how many of them repeat an earlier one.
      facts, self_loops: distinct facts per split, and how many of them link an entity to itself.
      overlaps: (split, later split) -> facts in both.
      inverse_pairs: unordered pairs (h, r, t), (t, r, h), h != t, that are both facts of some split.
      unseen_entities, unseen_relations: names in valid or test that training lacks, sorted.
      entities_without_facts: names that are entities although no fact of any split mentions them, sorted.
      unseen_facts: facts with an unseen name in valid and in test, per split.
      negative_rows, ..._repeated, ..._training_facts, ..._unknown (rows with an unknown name),
        ..._contradicting (split -> kept negatives that are facts of it), negatives (kept).
      literal_rows, ..._unknown (rows of entities without facts), ..._repeated (exact repeats),
        ..._conflicting (cells with several values), ..._converted (how -> rows), ..._rounded, ..._bad
        (not numbers, left out on request).
      unknown_literal_entities, entities_without_literals, unknown_negative_names: names, sorted.
      dropped_fields: fields whose every value belongs to an unknown entity.
      look_alikes: groups of names that look alike; padded_names: names with outer white space;
        near_misses: (name that no fact mentions or that training lacks, known entity that differs only in
        quotes, brackets, case or underscores for spaces).
      namespace_misses: the same for names that differ in their namespace only.
      suspicions: questions whether the files mean what they were read as (`suspicions.py`), one line each.
      hidden_fields: fields that no model is given.
      source_notes: what the files themselves were like (headers, missing files).
      errors: faults of the data, one line each; a graph that comes with errors is not to be trained on.
    """

    num_entities: int = 0
    num_relations: int = 0
    rows: dict[str, int] = dataclasses.field(default_factory=dict)
    repeated: dict[str, int] = dataclasses.field(default_factory=dict)
    facts: dict[str, int] = dataclasses.field(default_factory=dict)
    self_loops: dict[str, int] = dataclasses.field(default_factory=dict)
    overlaps: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    inverse_pairs: int = 0
    unseen_entities: tuple[str, ...] = ()
    unseen_relations: tuple[str, ...] = ()
    entities_without_facts: tuple[str, ...] = ()
    unseen_facts: dict[str, int] = dataclasses.field(default_factory=dict)
    negative_rows: int = 0
    negatives: int = 0
    negatives_repeated: int = 0
    negatives_training_facts: int = 0
    negatives_unknown: int = 0
    negatives_contradicting: dict[str, int] = dataclasses.field(default_factory=dict)
    unknown_negative_names: tuple[str, ...] = ()
    literal_rows: int = 0
    literals_unknown: int = 0
    literals_repeated: int = 0
    literals_conflicting: int = 0
    literals_converted: dict[str, int] = dataclasses.field(default_factory=dict)
    literals_rounded: int = 0
    literals_bad: int = 0
    unknown_literal_entities: tuple[str, ...] = ()
    entities_without_literals: tuple[str, ...] = ()
    dropped_fields: tuple[str, ...] = ()
    fields: tuple[FieldSummary, ...] = ()
    look_alikes: tuple[tuple[str, ...], ...] = ()
    near_misses: tuple[tuple[str, str], ...] = ()
    namespace_misses: tuple[tuple[str, str], ...] = ()
    padded_names: tuple[str, ...] = ()
    suspicions: list[str] = dataclasses.field(default_factory=list)
    hidden_fields: tuple[str, ...] = ()
    source_notes: list[str] = dataclasses.field(default_factory=list)
    errors: list[str] = dataclasses.field(default_factory=list)

    def notices(self) -> list[str]:
        """Every finding, one line each: what the files seem not to mean, notes on them, the warnings."""
        return [*self.suspicions, *self.milder_notices()]

    def milder_notices(self) -> list[str]:
        """The findings besides the suspicions."""
        return [*self.source_notes, *self.warnings()]

    def warnings(self) -> list[str]:
        """Findings that may mean a fault in the data, one line each."""
        return [
            *self._fact_warnings(),
            *self._negative_warnings(),
            *self._literal_warnings(),
            *self._name_warnings(),
        ]

    def _fact_warnings(self) -> list[str]:
        lines = [
            f"{split}.txt: {plural(count, 'repeated row')}; a repeated fact counts once"
            for split, count in self.repeated.items()
            if count
        ]
        lines += [
            f"{first} and {second} share {plural(count, 'fact')}: scores on {second} are too good"
            for (first, second), count in self.overlaps.items()
            if count
        ]
        unseen = sum(self.unseen_facts.values())
        if unseen:
            names = []
            if self.unseen_entities:
                names.append(_counted_names(self.unseen_entities, "entity", "entities"))
            if self.unseen_relations:
                names.append(_counted_names(self.unseen_relations, "relation", "relations"))
            where = ", ".join(f"{count} {split}" for split, count in self.unseen_facts.items())
            policies = ["entities are ranked like any other"] if self.unseen_entities else []
            policies += (
                ["facts of such relations are left out of all metrics"] if self.unseen_relations else []
            )
            lines.append(
                f"unseen in training: {' and '.join(names)} in {plural(unseen, 'fact')} ({where}); "
                f"{', '.join(policies)}"
            )
        if self.entities_without_facts:
            alone = _counted_names(self.entities_without_facts, "entity", "entities")
            kept = "it is" if len(self.entities_without_facts) == 1 else "they are"
            lines.append(f"in no fact: {alone}; {kept} kept, and ranked like any other")
        loops = sum(self.self_loops.values())
        if loops:
            kept = "it is" if loops == 1 else "they are"
            lines.append(f"self-loops, facts that link an entity to itself: {loops:,}; {kept} kept")
        if self.inverse_pairs:
            count = plural(self.inverse_pairs, "pair")
            lines.append(f"facts in both directions, (h, r, t) and (t, r, h): {count}")
        return lines

    def _negative_warnings(self) -> list[str]:
        lines = []
        if self.negatives_training_facts:
            count = plural(self.negatives_training_facts, "negative")
            lines.append(f"neg.txt: {count} dropped because train.txt states the same fact")
        if self.negatives_repeated:
            lines.append(
                f"neg.txt: {plural(self.negatives_repeated, 'repeated row')}; a negative counts once"
            )
        if self.negatives_unknown:
            names = _counted_names(self.unknown_negative_names, "unknown name", "unknown names")
            lines.append(f"neg.txt: {plural(self.negatives_unknown, 'row')} dropped for {names}")
        leaks = ", ".join(
            f"{count} {split}" for split, count in self.negatives_contradicting.items() if count
        )
        if leaks:
            lines.append(
                f"neg.txt: negatives contradict facts of other splits ({leaks}); they are kept, but "
                "negatives made with knowledge of valid or test facts leak that knowledge into training"
            )
        return lines

    def _literal_warnings(self) -> list[str]:
        lines = []
        if self.unknown_literal_entities and self.literals_unknown < self.literal_rows:  # else: a suspicion
            names = _counted_names(self.unknown_literal_entities, "entity", "entities")
            lines.append(
                f"literals: {plural(self.literals_unknown, 'row')} ignored, of {names} that no fact mentions"
            )
        if self.dropped_fields and self.fields:
            lines.append(
                f"literals: {_counted_names(self.dropped_fields, 'field', 'fields')} left without any value"
            )
        if self.entities_without_literals and self.fields:
            names = _counted_names(self.entities_without_literals, "entity", "entities")
            lines.append(f"literals: {names} without any value")
        if self.literals_repeated:
            lines.append(
                f"literals: {plural(self.literals_repeated, 'repeated row')}; a repeated value counts once"
            )
        if self.literals_conflicting:
            lines.append(
                f"literals: {plural(self.literals_conflicting, 'cell')} (entity, field) with several values; "
                "their median is used"
            )
        for how, count in self.literals_converted.items():
            lines.append(f"literals: {plural(count, 'value')} converted ({how})")
        if self.literals_rounded:
            lines.append(
                f"literals: {plural(self.literals_rounded, 'integer')} beyond 2^53 rounded to float64"
            )
        return lines

    def _name_warnings(self) -> list[str]:
        lines = []
        if self.look_alikes:
            unseen = {*self.unseen_entities, *self.unseen_relations}
            examples = "; ".join(
                " / ".join(f"{name!a}{' (unseen in training)' if name in unseen else ''}" for name in group)
                for group in self.look_alikes[:SHOWN_NAMES]
            )
            lines.append(
                "look-alike names, different only in white space, invisible characters, Unicode form or .0: "
                f"{plural(len(self.look_alikes), 'group')}, kept as different names: {examples}"
            )
        kinds = (
            (self.near_misses, "quotes, brackets, case or underscores"),
            (self.namespace_misses, "the namespace"),
        )
        # Where no literal fits, a suspicion has said so already.
        said = set(self.unknown_literal_entities if self.literals_unknown == self.literal_rows else ())
        for found, difference in kinds:
            left = [pair for pair in found if pair[0] not in said]
            if left:
                pairs = "; ".join(f"{miss!a} / {name!a}" for miss, name in left[:SHOWN_NAMES])
                lines.append(f"{plural(len(left), 'name')} would be known but for {difference}: {pairs}")
        if self.padded_names:
            names = ", ".join(map(ascii, self.padded_names[:SHOWN_NAMES]))
            count = plural(len(self.padded_names), "name")
            lines.append(f"{count} with white space before or after, kept to the letter: {names}")
        return lines


def check_facts(
    report: GraphReport,
    splits: dict[str, np.ndarray],
    keys: dict[str, np.ndarray],
    entities: Sequence[str],
    relations: Sequence[str],
) -> None:
    """Fills the report's findings about distinct facts.

    Args:
      report: changed in place.
      splits: split -> distinct facts int32 [n, 3].
      keys: split -> int64 [n] ascending, one for each fact, equal where facts are equal.
      entities, relations: names in id order.
    """
    for split, facts in splits.items():
        report.facts[split] = len(facts)
        report.self_loops[split] = int((facts[:, HEAD] == facts[:, TAIL]).sum())
    for number, first in enumerate(SPLITS):
        for second in SPLITS[number + 1 :]:
            shared = np.intersect1d(keys[first], keys[second], assume_unique=True)
            report.overlaps[first, second] = len(shared)
    report.inverse_pairs = _count_inverse_pairs([splits[split] for split in SPLITS])

    seen_entity = np.zeros(len(entities), dtype=bool)
    seen_entity[splits["train"][:, [HEAD, TAIL]].ravel()] = True
    seen_relation = np.zeros(len(relations), dtype=bool)
    seen_relation[splits["train"][:, RELATION]] = True
    mentioned = seen_entity.copy()
    for split in SPLITS[1:]:
        mentioned[splits[split][:, [HEAD, TAIL]].ravel()] = True
    report.unseen_entities = tuple(entities[i] for i in np.flatnonzero(mentioned & ~seen_entity).tolist())
    report.unseen_relations = tuple(relations[i] for i in np.flatnonzero(~seen_relation).tolist())
    for split in SPLITS[1:]:
        head, relation, tail = splits[split].T
        known = seen_entity[head] & seen_relation[relation] & seen_entity[tail]
        report.unseen_facts[split] = int((~known).sum())


def empty_splits(graph: NumericGraph) -> list[str]:
    """A note on each split without facts, with what follows from it."""
    return [
        f"{split}.txt holds no facts: {consequence}"
        for split, consequence in EMPTY.items()
        if not len(graph.split(split))
    ]


def _count_inverse_pairs(splits: list[np.ndarray]) -> int:
    """Pairs of facts (h, r, t), (t, r, h) with h < t, each in some split."""
    upward = np.concatenate([facts[facts[:, HEAD] < facts[:, TAIL]] for facts in splits])
    downward = np.concatenate([facts[facts[:, HEAD] > facts[:, TAIL]] for facts in splits])
    largest = np.concatenate([upward, downward]).max(axis=0, initial=0)
    num_entities, num_relations = int(max(largest[HEAD], largest[TAIL])) + 1, int(largest[RELATION]) + 1
    keys_up, keys_down = fact_keys([upward, downward[:, ::-1]], num_entities, num_relations)
    return len(np.intersect1d(sorted_unique(keys_up), sorted_unique(keys_down), assume_unique=True))


def find_look_alikes(names: pa.Array) -> tuple[tuple[str, ...], ...]:
    """Groups of at least two distinct names of a string array that are equal after folding.

    Folding applies Unicode form NFC, makes every white-space character a space, drops invisible
    characters and removes outer white space and the .0 of 7.0; it keeps the case of letters.
    """
    codes = _fold(names).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    repeated = np.bincount(codes)[codes] > 1 if len(codes) else np.zeros(0, dtype=bool)
    groups: dict[int, list[str]] = {}
    for row in np.flatnonzero(repeated).tolist():
        groups.setdefault(int(codes[row]), []).append(names[row].as_py())
    return tuple(sorted(tuple(sorted(group)) for group in groups.values()))


def find_near_misses(unknown: pa.Array, entities: pa.Array) -> tuple[tuple[str, str], ...]:
    """Pairs (unknown name, entity) that differ in no more than quotes, brackets, case or underscores.

    Both arguments are string arrays; an unknown name gets at most one entity, look-alikes get none.
    """
    if len(unknown) == 0:
        return ()
    place = pc.index_in(_loosen(unknown), value_set=_loosen(entities))
    near = entities.take(place)
    near = pc.if_else(pc.equal(_fold(unknown), _fold(near)), None, near)
    pairs = zip(unknown.to_pylist(), near.to_pylist(), strict=True)
    return tuple((name, entity) for name, entity in pairs if entity is not None)


def _loosen(names: pa.Array) -> pa.Array:
    loose = pc.replace_substring(_fold(names), '""', '"')
    loose = pc.utf8_trim(loose, "\"'<>")
    return pc.utf8_lower(pc.replace_substring(loose, "_", " "))


def _fold(names: pa.Array) -> pa.Array:
    folded = pc.utf8_normalize(names, form="NFC")
    folded = pc.replace_substring_regex(folded, INVISIBLE, "")
    folded = pc.replace_substring_regex(folded, r"[\s\pZ\x{85}\v]", " ")
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(folded), r"^(-?[0-9]+)\.0$", r"\1")


def find_padded(names: pa.Array) -> tuple[str, ...]:
    """Names of a string array that begin or end with white space, sorted."""
    padded = names.filter(pc.not_equal(pc.utf8_trim_whitespace(names), names))
    return tuple(sorted(padded.to_pylist()))


def _counted_names(names: Sequence[str], one: str, many: str) -> str:
    """The count with its noun and first names: 3 entities (a, b, ...)."""
    shown = "; ".join(shown_name(name) for name in names[:SHOWN_NAMES])
    more = "; ..." if len(names) > SHOWN_NAMES else ""
    return f"{plural_of(len(names), one, many)} ({shown}{more})"
