"""config.data to graph, with notices; the built graphs beside the prepared ones."""

import collections
import dataclasses
import functools
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest

from numcoke_jax.config.schema import choices, default_config
from numcoke_jax.data.load import (
    build_graph,
    comparison_settings,
    encode_comparisons,
    load_graph,
    synthetic_settings,
)
from numcoke_jax.data.public.rakge import AUTHORS_GRAPHS
from numcoke_jax.data.public.tables import known_table
from numcoke_jax.data.synthetic import SyntheticSettings, synthetic_graph
from numcoke_jax.data.tables.comparisons import ComparisonSettings, compare, nearest_negatives
from numcoke_jax.data.tables.known import TABLES, EntityTable
from numcoke_jax.system.errors import UserError


def data_config(**changes):
    config = default_config().data
    config.update(changes)
    return config


def assert_same_graph(one, other):
    for field in dataclasses.fields(one):
        if not field.compare:  # what was computed on the way
            continue
        left, right = getattr(one, field.name), getattr(other, field.name)
        if not isinstance(left, np.ndarray):
            assert left == right
        else:
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right, err_msg=field.name)


def test_defaults_of_config_and_settings_agree():
    assert comparison_settings(default_config().data) == ComparisonSettings()


def test_every_setting_comes_from_its_key():
    changes = {
        "protocol": "nearest",
        "neighbours": 3,
        "direction": "<",
        "groups": "common",
        "group_size": 7,
        "entities": 9,
        "split": (1, 0, 0),
        "missing_rate": 0,
        "negatives_per_pair": 2,
        "seed": 4,
    }
    settings = comparison_settings(data_config(**changes))
    assert dataclasses.asdict(settings) == changes
    assert set(changes) == {field.name for field in dataclasses.fields(ComparisonSettings)}


def test_wrong_key_is_named():
    with pytest.raises(UserError, match="groups: must be one of relation, common, got 'each'"):
        load_graph(data_config(groups="each"))


def test_cars_by_default():
    loaded = load_graph(data_config())
    graph = loaded.graph
    assert loaded.name == "cars"
    assert graph.vocabulary.relations == tuple(f"{field}_comp" for field in TABLES["cars"].relations)
    assert graph.vocabulary.fields == tuple(sorted(TABLES["cars"].fields))
    assert loaded.notices[:2] == [
        "built from table cars (231 of 403 entities, 322 of 1,610 values masked, "
        "relations Acceleration_comp, Displacement_comp, Horsepower_comp, Miles_per_Gallon_comp, "
        "Weight_in_lbs_comp): protocol complete, direction >, "
        "groups relation of 60, split 0.1/0.1/0.8, missing rate 0.2, 5 negatives per pair, seed 0",
        "cars: 3 rows left out that repeat a name",
    ]
    facts = sum(len(graph.split(name)) for name in ("train", "valid", "test"))
    assert (
        5 * (60 * 59 // 2) * 0.95 < facts < 5 * (60 * 59 // 2)
    )  # all pairs of 5 groups of 60, less some ties
    table = known_table("cars")
    rows = [table.entities.index(name) for name in graph.vocabulary.entities]
    observed = table.observed[rows]
    assert observed.sum() - graph.observed.sum() == round(0.2 * observed.sum())  # of 1,610 cells
    assert not (graph.observed & ~observed).any()
    np.testing.assert_array_equal(graph.values, np.where(graph.observed, table.values[rows], 0.0))


def test_facts_say_who_is_above():
    for direction, sign in ((">", 1), ("<", -1)):
        graph = load_graph(data_config(direction=direction, missing_rate=0.0)).graph
        columns = [
            graph.vocabulary.fields.index(relation.removesuffix("_comp"))
            for relation in graph.vocabulary.relations
        ]
        for name in ("train", "valid", "test"):
            heads, relations, tails = graph.split(name).T
            fields = np.array(columns)[relations]
            assert graph.observed[heads, fields].all()
            assert (sign * (graph.values[heads, fields] - graph.values[tails, fields]) > 0).all()
        heads, relations, tails = graph.negatives.T
        fields = np.array(columns)[relations]
        assert (sign * (graph.values[heads, fields] - graph.values[tails, fields]) < 0).all()


def test_chosen_relations():
    graph = load_graph(data_config(relations=("Year", "Horsepower"))).graph
    assert graph.vocabulary.relations == ("Horsepower_comp", "Year_comp")
    with pytest.raises(UserError, match="relations: cars has no field 'Hp'; there is 'Acceleration'"):
        load_graph(data_config(relations=("Hp",)))


def test_same_config_same_graph_other_data_seed_other_graph():
    first, again, other = (load_graph(data_config(seed=seed)).graph for seed in (0, 0, 1))
    assert_same_graph(first, again)
    assert first.vocabulary.entities != other.vocabulary.entities


def test_ids_of_the_graph_are_those_of_its_names():
    """encode_comparisons hands over names: each fact and literal arrives where its names say."""
    table = EntityTable(
        name="t",
        entities=("a", "b", "c", "without_x"),
        fields=("x", "y"),
        values=np.array([[3.0, 9.0], [2.0, 0.0], [1.0, 7.0], [0.0, 5.0]]),
        observed=np.array([[True, True], [True, True], [True, True], [False, True]]),
    )
    settings = ComparisonSettings(groups="common", group_size=0, split=(1.0, 0.0, 0.0), missing_rate=0.0)
    graph, report = encode_comparisons(table, compare(table, ("x",), settings), {})
    assert graph.vocabulary.entities == ("a", "b", "c", "without_x")
    assert graph.train.tolist() == [[0, 0, 1], [0, 0, 2], [1, 0, 2]]
    assert graph.negatives.tolist() == [[1, 0, 0], [2, 0, 0], [2, 0, 1]]
    assert graph.values.tolist() == [[3, 9], [2, 0], [1, 7], [0, 5]]
    assert graph.observed[:3].all()  # the true 0 of b is observed
    assert graph.observed[3].tolist() == [False, True]
    assert not report.errors


def test_fields_that_the_mask_empties_are_named():
    table = EntityTable(
        name="t",
        entities=("a", "b"),
        fields=("rare", "x"),
        values=np.array([[0.0, 1.0], [0.0, 2.0]]),
        observed=np.array([[False, True], [False, True]]),
    )
    settings = ComparisonSettings(split=(1.0, 0.0, 0.0), missing_rate=0.0)
    loaded = build_graph(table, ("x",), settings)
    assert loaded.graph.vocabulary.fields == ("x",)
    assert "fields without a value that is observed and not masked: rare" in loaded.notices


def test_a_path_wins_over_the_table(tmp_path):
    folder = tmp_path / "my graph"
    (folder / "literals").mkdir(parents=True)
    for split, fact in (("train", "a\tr\tb"), ("valid", "b\tr\tc"), ("test", "a\tr\tc")):
        (folder / f"{split}.txt").write_text(f"{fact}\n")
    (folder / "literals" / "numerical_literals.txt").write_text("a\tx\t1.5\n")
    loaded = load_graph(data_config(path=f"{folder}/"))
    assert loaded.name == "my graph"
    assert loaded.graph.vocabulary.entities == ("a", "b", "c")
    assert loaded.graph.observed.sum() == 1  # nothing of a folder is masked
    assert not any("built" in notice for notice in loaded.notices)


def test_bad_values_of_a_folder_are_errors_or_missing(tmp_path):
    (tmp_path / "literals").mkdir()
    for split, fact in (("train", "a\tr\tb"), ("valid", "b\tr\tc"), ("test", "a\tr\tc")):
        (tmp_path / f"{split}.txt").write_text(f"{fact}\n")
    (tmp_path / "literals" / "numerical_literals.txt").write_text("a\tx\t1.5\nb\tx\t3 kg\n")
    config = data_config(path=str(tmp_path))
    assert config.bad_values == "error"
    with pytest.raises(
        UserError, match=r"numerical_literals\.txt:2:3 kg: a number with a unit; .*bad_values=mis"
    ):
        load_graph(config)
    config.bad_values = "missing"
    loaded = load_graph(config)
    assert loaded.graph.observed.tolist() == [[True], [False], [False]]
    assert any("1 value left out as missing: literals/numerical_l" in notice for notice in loaded.notices)


def test_rdf_has_to_be_converted_first(tmp_path):
    path = tmp_path / "x.ttl.gz"
    path.touch()
    with pytest.raises(UserError) as caught:
        load_graph(data_config(path=str(path)))
    assert str(caught.value) == (
        f"data.path: {path} is RDF, which has no splits; write a folder once, with "
        f"numcoke data rdf {path} --out=DIR, and give that"
    )


# Data sets by name that are graphs already.


def test_names_of_data_sets_are_those_that_load():
    assert set(choices("data.table")) == {*TABLES, *AUTHORS_GRAPHS, "fb15k_237", "synthetic"}
    assert data_config().table == "cars"


def test_defaults_of_config_and_synthetic_settings_agree():
    assert synthetic_settings(data_config()) == SyntheticSettings()


def test_every_synthetic_setting_comes_from_its_key():
    own: dict[str, Any] = {
        "entities": 9,
        "fields": 2,
        "relations": 3,
        "triples": 50,
        "kinds": ("skewed",),
        "levels": 4,
        "mix": "distance",
    }
    shared: dict[str, Any] = {
        "direction": "<",
        "split": (0.5, 0.25, 0.25),
        "missing_rate": 0.5,
        "negatives_per_pair": 1,
        "seed": 4,
    }
    config = data_config(table="synthetic", **shared, **{f"synthetic_{key}": own[key] for key in own})
    assert dataclasses.asdict(synthetic_settings(config)) == {**own, **shared}
    loaded = load_graph(config)
    assert loaded.name == "synthetic"
    assert loaded.notices[0].startswith(
        "synthetic: fields skewed in turn (4 levels), direction <, split 0.5/"
    )
    expected, _ = synthetic_graph(SyntheticSettings(**own, **shared))
    assert_same_graph(loaded.graph, expected)


@pytest.fixture
def small_freebase(tmp_path):
    """A folder with the file names of FB15k-237: 3 entities, one field that only another entity has."""
    folder = tmp_path / "fb15k_237"
    folder.mkdir()
    for split, fact in (("train", "/m/a\tr\t/m/b"), ("valid", "/m/b\tr\t/m/a"), ("test", "/m/a\ts\t/m/c")):
        (folder / f"{split}.txt").write_bytes(f"{fact}\r\n".encode())
    numbers = ["/m/b\t<y>\t2.5", "/m/a\t<y>\t0.0", "/m/other\t<x>\t7", "/m/c\t<z>\t-1"]
    (folder / "FB15K_NumericalTriples.txt").write_text("\n".join(numbers))
    return tmp_path


def test_fb15k_237_joins_triples_and_numbers(small_freebase):
    loaded = load_graph(data_config(table="fb15k_237", dir=str(small_freebase)))
    graph = loaded.graph
    assert loaded.name == "fb15k_237"
    assert graph.vocabulary.entities == ("/m/a", "/m/b", "/m/c")
    assert graph.vocabulary.relations == ("r", "s")
    assert graph.vocabulary.fields == ("<x>", "<y>", "<z>")
    assert graph.values.tolist() == [[0, 0, 0], [0, 2.5, 0], [0, 0, -1]]
    assert graph.observed.tolist() == [[False, True, False], [False, True, False], [False, False, True]]
    assert [graph.split(split).tolist() for split in ("train", "valid", "test")] == [
        [[0, 0, 1]],
        [[1, 0, 0]],
        [[0, 1, 2]],
    ]
    assert (
        "3 numeric fields, of which 1 field without a value of an entity of the graph: <x>" in loaded.notices
    )
    assert sum("is another version than the known one" in notice for notice in loaded.notices) == 4
    assert not any("fields" in notice and "dropped" in notice for notice in loaded.notices)


def test_a_number_of_fb15k_237_that_is_none_is_named(small_freebase):
    path = small_freebase / "fb15k_237" / "FB15K_NumericalTriples.txt"
    path.write_text("/m/a\t<y>\t1\n/m/b\t<y>\tfive\n")
    with pytest.raises(UserError, match=rf"^{path}: 'five' in row 2: not a number; fetch the file again$"):
        load_graph(data_config(table="fb15k_237", dir=str(small_freebase)))


def test_fb15k_237_is_the_published_one(shared_dir):
    """The counts of the release, and 116 fields.

    One of them, tv.tv_series_season.to, has values only for entities of FB15k that FB15k-237 lacks.
    """
    folder = str(shared_dir / "data" / "fb15k_237")
    loaded = load_graph(data_config(table="fb15k_237", dir=folder))
    graph = loaded.graph
    assert (graph.num_entities, graph.num_relations, graph.num_fields) == (14_541, 237, 116)
    assert [len(graph.split(split)) for split in ("train", "valid", "test")] == [272_115, 17_535, 20_466]
    assert len(graph.negatives) == 0
    assert graph.observed.sum() == 29_247  # of 29,395 values, none of them repeated
    assert np.count_nonzero(graph.observed.any(axis=0)) == 115
    empty = graph.vocabulary.fields.index("<http://rdf.freebase.com/ns/tv.tv_series_season.to>")
    assert not graph.observed[:, empty].any()
    height = graph.vocabulary.fields.index("<http://rdf.freebase.com/ns/people.person.height_meters>")
    person = graph.vocabulary.entities.index("/m/016ywr")
    assert graph.values[person, height] == 1.87  # the line of it in the file
    assert not any("another version" in notice for notice in loaded.notices)
    again = load_graph(data_config(path=f"{folder}/FB15k-237.zip")).graph  # the triples alone
    assert again.vocabulary.entities == graph.vocabulary.entities
    np.testing.assert_array_equal(again.train, graph.train)


# RAKGE's prepared folders: https://github.com/learndatalab/RAKGE, datasets/NAME.zip


def rakge_files():
    """What NAME.zip holds, and what the preprocessing script of RAKGE adds to it."""
    pickled = pickle.dumps({"song a": 0, "song b": 1, "song c": 2})
    return {
        "train.txt": b"song a\ttempo\tsong b\nsong b\ttempo\tsong c\n",
        "valid.txt": b"song a\ttempo\tsong c\n",
        "test.txt": b"song a\tkey\tsong c\n",
        "neg.txt": b"song b\ttempo\tsong a\nsong c\ttempo\tsong b\n",
        "literals/numerical_literals.txt": b"song a\ttempo\t150.062\nsong b\ttempo\t120.5\nsong b\tkey\t0\n",
        "entities.dict": pickled,
        "relations.dict": pickle.dumps({"tempo": 0, "key": 1}),
        "train.npy": bytes(range(128)),
        "neg.npy": bytes(range(128)),
        "literals/numerical_literals.npy": bytes(range(128)),
        "literals/.DS_Store": b"\x00\x01",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_prepared_folders_of_rakge_load_unchanged(tmp_path, packed):
    if packed:
        path = tmp_path / "spotify.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in rakge_files().items():
                archive.writestr(f"spotify/{name}", content)
                archive.writestr(f"__MACOSX/spotify/._{name}", b"junk")
    else:
        path = tmp_path / "spotify"
        for name, content in rakge_files().items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    loaded = load_graph(data_config(path=str(path)))
    graph = loaded.graph
    assert graph.vocabulary.entities == ("song a", "song b", "song c")
    assert graph.vocabulary.relations == ("key", "tempo")
    assert graph.vocabulary.fields == ("key", "tempo")
    assert graph.train.tolist() == [[0, 1, 1], [1, 1, 2]]
    assert graph.valid.tolist() == [[0, 1, 2]]
    assert graph.test.tolist() == [[0, 0, 2]]
    assert graph.negatives.tolist() == [[1, 1, 0], [2, 1, 1]]
    assert graph.values.tolist() == [[0, 150.062], [0, 120.5], [0, 0]]
    assert graph.observed.tolist() == [[False, True], [True, True], [False, False]]  # a true 0 is observed
    assert not any("npy" in notice or ".dict" in notice for notice in loaded.notices)


# The prepared graphs under shared/data/kg: their own groups, split and mask differ from ours (another
# generator), so counts agree up to the ties of the drawn values, and rules exactly.

PREPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "credit_mini": (
        "credit",
        {"groups": "relation", "group_size": 60, "entities": 300, "split": (0.8, 0.1, 0.1)},
    ),
    "spotify_mini": (
        "spotify",
        {"groups": "relation", "group_size": 60, "entities": 300, "split": (0.8, 0.1, 0.1)},
    ),
    "credit_sparse": ("credit", {"groups": "common", "group_size": 150, "split": (0.1, 0.1, 0.8)}),
    "us_cities_sparse": ("us_cities", {"groups": "common", "group_size": 150, "split": (0.1, 0.1, 0.8)}),
}


@pytest.mark.parametrize("folder", PREPARED)
def test_built_graphs_have_the_structure_of_the_prepared_ones(shared_dir, folder):
    table, changes = PREPARED[folder]
    raw = str(shared_dir / "data" / "raw")
    built = load_graph(data_config(table=table, dir=raw, **changes)).graph
    prepared = load_graph(data_config(path=str(shared_dir / "data" / "kg" / folder))).graph
    assert built.vocabulary.relations == prepared.vocabulary.relations
    assert built.vocabulary.fields == prepared.vocabulary.fields
    assert built.num_entities == pytest.approx(prepared.num_entities, rel=0.1)
    for name in ("train", "valid", "test"):
        assert len(built.split(name)) == pytest.approx(len(prepared.split(name)), rel=0.03)
    assert len(built.negatives) == pytest.approx(len(prepared.negatives), rel=0.1)
    assert built.observed.mean() == pytest.approx(0.8, abs=0.001)
    counts = [len(prepared.split(name)) for name in ("train", "valid", "test")]
    largest = counts.index(max(counts))
    floors = [int(share * sum(counts) + 1e-9) for share in changes["split"]]
    assert all(counts[i] == floors[i] for i in range(3) if i != largest)  # our rule for the counts is theirs


raw_table = functools.lru_cache(known_table)


@pytest.mark.parametrize(
    "folder",
    ["credit", "credit_mini", "credit_sparse", "spotify", "spotify_mini", "spotify_sparse", "us_cities"]
    + ["us_cities_sparse"],
)
def test_negatives_rule_reproduces_the_prepared_neg_txt(shared_dir, folder):
    """From train.txt and the raw values: the same distances for every (h, r), the same names up to ties."""
    name = folder.removesuffix("_mini").removesuffix("_sparse")
    table = raw_table(name, str(shared_dir / "data" / "raw"))
    graph = load_graph(data_config(path=str(shared_dir / "data" / "kg" / folder))).graph
    row_of = {entity: row for row, entity in enumerate(table.entities)}
    rows = [row_of[entity] for entity in graph.vocabulary.entities]
    columns = [table.fields.index(relation.removesuffix("_comp")) for relation in graph.vocabulary.relations]
    values = table.values[rows][:, columns]
    ours = nearest_negatives(graph.train.astype(np.int64), values, 5)

    def distances(negatives):
        found = collections.defaultdict(list)
        for head, relation, tail in negatives.tolist():
            found[head, relation].append(abs(values[head, relation] - values[tail, relation]))
        return {pair: sorted(of_pair) for pair, of_pair in found.items()}

    assert distances(ours) == distances(graph.negatives)
    theirs = {tuple(fact) for fact in graph.negatives.tolist()}
    share = len(theirs & {tuple(fact) for fact in ours.tolist()}) / len(theirs)
    print(f"{folder}: {share:.4f} of {len(theirs)} negatives are the same, the others tie in distance")
    assert share > 0.95
