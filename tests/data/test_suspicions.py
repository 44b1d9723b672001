"""Files that seem to mean something else: columns in another order, literals of entities called otherwise."""

import io
import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from numcoke_jax.data.files.findings import GraphReport
from numcoke_jax.data.files.folder import read_folder
from numcoke_jax.data.files.ids import read_ids
from numcoke_jax.data.load import load_folder
from numcoke_jax.runs.screen import Screen

Rows = Sequence[tuple[str, ...]]


def random_facts(ids: bool) -> Rows:
    """200 facts of 40 entities and 3 relations, called by numbers or by words."""
    generator = np.random.default_rng(3)
    heads, tails = generator.integers(40, size=(2, 200)).tolist()
    relations = generator.integers(3, size=200).tolist()
    entity, relation = ("{}", "{}") if ids else ("thing {}", "likes {}")
    return sorted(
        {
            (entity.format(h), relation.format(r), entity.format(t))
            for h, r, t in zip(heads, relations, tails, strict=True)
        }
    )


def suspicions(folder: Path, facts: Rows, literals: Rows = (), *, test: Rows | None = None) -> GraphReport:
    """The report on a folder with these facts, a tenth of them in valid and in test each."""
    folder.mkdir()
    tenth = len(facts) // 10
    splits = {"train": facts[2 * tenth :], "valid": facts[:tenth], "test": test or facts[tenth : 2 * tenth]}
    for name, rows in splits.items():
        (folder / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    if literals:
        (folder / "literals").mkdir()
        rows_of_text = "".join("\t".join(row) + "\n" for row in literals)
        (folder / "literals" / "numerical_literals.txt").write_text(rows_of_text)
    return read_folder(folder)[1]


def test_swapped_columns_are_asked_about(cases_dir: Path) -> None:
    _, report = read_folder(cases_dir / "G_swapped_columns_hrt")
    assert report.suspicions == [
        "the middle column looks like entities: 37 of its 39 names also stand in the first one, and it has "
        "39 different names, the last column 3; each line needs head, relation, tail: are the columns in "
        "another order (head, tail, relation)? numcoke data convert --order=head,tail,relation puts them "
        "right"
    ]
    assert report.notices()[0] == report.suspicions[0]
    graph, mended = read_ids(cases_dir / "G_swapped_columns_hrt", ("head", "tail", "relation"))
    assert (graph.num_relations, mended.suspicions) == (3, [])


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_order_with_entities_in_the_middle_is_asked_about(
    order: tuple[int, ...], ids: bool, tmp_path: Path
) -> None:
    facts = [tuple(row[column] for column in order) for row in random_facts(ids)]
    found = suspicions(tmp_path / "g", facts).suspicions
    if order[1] == 1:  # relations in the middle: head and tail may have changed places, nobody can tell
        assert found == []
        return
    named = "relation, head, tail" if order[0] == 1 else "head, tail, relation"
    remedy = f"numcoke data convert --order={named.replace(' ', '')} puts them right"
    assert len(found) == 1
    assert "looks like entities" in found[0] and found[0].endswith(f"({named})? {remedy}")


def test_heads_and_tails_without_a_common_name_are_told_by_their_number(tmp_path: Path) -> None:
    facts = [(f"user {i % 20}", f"film {i}", "saw") for i in range(60)]
    (found,) = suspicions(tmp_path / "g", facts).suspicions
    assert "it has 60 different names, the last column 1" in found


def test_a_split_in_another_order_than_training_is_asked_about(tmp_path: Path) -> None:
    facts = random_facts(ids=False)
    turned = [(head, tail, relation) for head, relation, tail in facts[:15]]
    (found,) = suspicions(tmp_path / "g", facts, test=turned).suspicions
    assert found.startswith("the middle column of test.txt looks like entities: 15 of its 15 facts have")


def test_many_relations_are_no_reason_to_ask(tmp_path: Path) -> None:
    facts = [(f"e{i % 30}", f"r{i}", f"e{(7 * i + 1) % 30}") for i in range(120)]
    assert suspicions(tmp_path / "g", facts).suspicions == []


def test_literals_without_the_namespace_of_the_facts_are_one_loud_warning(cases_dir: Path) -> None:
    case = cases_dir / "G_literal_names_without_namespace"
    _, report = read_folder(case)
    assert report.suspicions == [
        "literals: NO row belongs to an entity of the facts: 12 rows of 12 entities ignored, and the graph "
        "has no numeric fields; 12 names would fit otherwise, such as Town_0 there, "
        "<http://example.org/resource/Town_0> in the facts: write them alike"
    ]
    assert report.notices() == [*report.suspicions, "no neg.txt: no negatives are given"]
    loaded, stream = load_folder(str(case)), io.StringIO()
    Screen(stream).graph(loaded.graph, loaded.notices, loaded.name, loaded.warnings)
    assert "\nwarning: literals: NO row belongs to an entity of the facts" in stream.getvalue()
    assert stream.getvalue().count("NO row") == 1


@pytest.mark.parametrize(
    ("of_facts", "of_literals"),
    [
        ("Town_{}", "<http://example.org/resource/Town_{}>"),
        ("http://example.org/Town_{}", "ex:Town_{}"),
        ("<http://a.org/Town_{}>", "<http://b.org/x#Town_{}/>"),
        ("/m/0ab{}", "<http://rdf.freebase.com/ns/m.0ab{}>"),
        ("Town_{}", "town {}"),
    ],
)
def test_any_two_ways_of_naming_are_shown_as_a_pair(of_facts: str, of_literals: str, tmp_path: Path) -> None:
    facts = [(of_facts.format(i), "larger", of_facts.format(j)) for i in range(6) for j in range(i)]
    literals = [(of_literals.format(i), "area", str(i)) for i in range(6)]
    (found,) = suspicions(tmp_path / "g", facts, literals).suspicions
    pair = f"{of_literals.format(0)} there, {of_facts.format(0)} in the facts"
    assert "NO row" in found and f"6 names would fit otherwise, such as {pair}: write them alike" in found


def test_literals_that_mostly_do_not_fit_are_asked_about(tmp_path: Path) -> None:
    facts = [(f"Town_{i}", "larger", f"Town_{j}") for i in range(6) for j in range(i)]
    literals = [("Town_0" if i == 0 else f"ex:Town_{i}", "area", str(i)) for i in range(6)]
    report = suspicions(tmp_path / "g", facts, literals)
    (found,) = report.suspicions
    assert found.startswith("literals: only 1 of 6 rows belong to an entity of the facts; 5 names would fit")
    # Rows about other things are common in published files: not a word above the usual count.
    others = [("Town_0", "area", "1"), *[(f"river {i}", "area", str(i)) for i in range(6)]]
    assert suspicions(tmp_path / "h", facts, others).suspicions == []


def test_fields_before_entities_are_told_so(tmp_path: Path) -> None:
    facts = [(f"Town_{i}", "larger", f"Town_{j}") for i in range(6) for j in range(i)]
    (found,) = suspicions(tmp_path / "g", facts, [("area", f"Town_{i}", str(i)) for i in range(6)]).suspicions
    assert "6 names of the second column are entities, such as Town_0: each line needs entity, field" in found


def test_two_things_of_one_local_name_are_not_taken_for_one(tmp_path: Path) -> None:
    facts = [(f"actor:{i}", "knows", f"actor:{j}") for i in range(9) for j in range(i)]
    report = suspicions(
        tmp_path / "g", facts, test=[("actor:1", "knows", "town:1"), ("actor:2", "knows", "3")]
    )
    assert report.namespace_misses == (("3", "actor:3"),)
    assert "1 name would be known but for the namespace: '3' / 'actor:3'" in report.notices()


def test_a_copy_in_the_right_order_is_not_asked_about(cases_dir: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(cases_dir / "G_swapped_columns_hrt", tmp_path / "g"))
    for name in ("train", "valid", "test"):
        rows = [line.split("\t") for line in (folder / f"{name}.txt").read_text().splitlines()]
        (folder / f"{name}.txt").write_text("".join(f"{h}\t{r}\t{t}\n" for h, t, r in rows))
    assert read_folder(folder)[1].suspicions == []
