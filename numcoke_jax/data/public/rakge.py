"""The Credit and Spotify graphs of RAKGE and NumCoKE by name: "rakge_credit", "rakge_spotify".

The authors' are train.txt and, if it is there, neg.txt (each fact of train.txt reversed), as published in
`REPOSITORY`.  Their relations `FIELD_comp` compare clients or songs, which the raw tables know by number:
ID<n> is the client with ID n, id<n> the song with running number n.  The other relations, such as EDUCATION
or artist, link them to categories and are in training only.

Rebuilt are valid.txt, test.txt and the literals, which are not public.  Held out are all other pairs of
compared entities whose values differ, in two random halves: 98.9 % of the pairs of Credit and 99.6 % of those
of Spotify.  A share of the cells is masked.  So figures compare with printed ones up to the partition
of the held-out pairs and the mask.
"""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numcoke_jax.data.files.encode import encode_graph, named_facts, named_literals
from numcoke_jax.data.files.lines import FACT_COLUMNS, plain_file, read_triples
from numcoke_jax.data.graph import NumericGraph
from numcoke_jax.data.public.downloads import FOLDER_VARIABLE, file_hash, version_notice
from numcoke_jax.data.public.sources import check_directory, download_folder, find_table, search_folders
from numcoke_jax.data.tables.cells import read_table
from numcoke_jax.data.tables.comparisons import Comparisons
from numcoke_jax.data.tables.known import (
    CREDIT,
    RELATION_SUFFIX,
    SPOTIFY,
    EntityTable,
    TableSpec,
    field_column,
)
from numcoke_jax.system.errors import UserError, plural

REPOSITORY = "https://github.com/22zwChen/KADGN"
LICENCE = "Apache-2.0, as its repository states"
FILES = ("train.txt", "neg.txt")
MONTHS = (0, 2, 3, 4, 5, 6)  # of the columns PAY_<n>; the table has no PAY_1


@dataclasses.dataclass(frozen=True)
class AuthorsGraph:
    """A graph of which training facts are published.

    Attributes:
      name: its name in `config.data.table`.
      folders: where its files are looked for inside a data folder, in this order.
      raw: the table that was compared.
      number_column, prefix: row with number n in this column is entity prefix<n>.
      fields: field -> the columns whose sum it is, in order of names.
      hashes: SHA-256 of the known `FILES`.
    """

    name: str
    folders: tuple[str, ...]
    raw: TableSpec
    number_column: str
    prefix: str
    fields: dict[str, tuple[str, ...]]
    hashes: tuple[str, str]


RAKGE_CREDIT = AuthorsGraph(
    name="rakge_credit",
    folders=("rakge/credit", "rakge/Credit"),
    raw=CREDIT,
    number_column="ID",
    prefix="ID",
    fields={
        "AGE": ("AGE",),
        "LIMIT_BAL": ("LIMIT_BAL",),
        "TOTAL_BILL": tuple(f"BILL_AMT{month}" for month in range(1, 7)),
        "TOTAL_DELAY": tuple(f"PAY_{month}" for month in MONTHS),
        "TOTAL_PAY": tuple(f"PAY_AMT{month}" for month in range(1, 7)),
    },
    hashes=(
        "89541628bc6a4c9aca73441b0610d93b88b1a83f4fe0380b4c9b990075fd6288",
        "a733b913649f5f6a6b509a31d1568d7ac1e3514dc700e493cbcd9f3715c0b354",
    ),
)
RAKGE_SPOTIFY = AuthorsGraph(
    name="rakge_spotify",
    folders=("rakge/spotify", "rakge/Spotify"),
    raw=SPOTIFY,
    number_column="",  # the unnamed first column
    prefix="id",
    fields={name: (name,) for name in SPOTIFY.fields if name not in ("key", "mode", "time_signature")},
    hashes=(
        "357425defbf09f13fbd779b18d0ec4b33c9f1edb7a8245e8dbf8601c7d26760b",
        "1251fe38be0b757982925763b9ed419fd4d10992cdcf5a6f8d77ff79bbb1454a",
    ),
)
AUTHORS_GRAPHS = {graph.name: graph for graph in (RAKGE_CREDIT, RAKGE_SPOTIFY)}


def load_authors_graph(
    name: str, directory: str = "", *, seed: int = 0, missing_rate: float = 0.2
) -> tuple[NumericGraph, list[str]]:
    """The graph, and what its user should know about it.

    Args:
      name: a key of `AUTHORS_GRAPHS`.
      directory: the folder in which its files are looked for first (config.data.dir); "" for none.
      seed: decides the halves of the held-out pairs and the mask (config.data.seed).
      missing_rate: the probability that a cell is masked, each on its own.

    Raises:
      UserError: a file is not found, or is malformed, or training facts and raw table disagree.
    """
    wanted = AUTHORS_GRAPHS[name]
    folder = find_authors_files(wanted, directory)
    found = [folder / file for file in FILES if os.path.isfile(folder / file)]
    train, *negatives = (read_triples(plain_file(path), FACT_COLUMNS) for path in found)
    raw_path = find_table(wanted.raw, directory, inner=("", "raw"))
    compared = compared_entities(wanted, train, folder / FILES[0], raw_path)
    built = rebuild(compared, train, folder / FILES[0], seed=seed, missing_rate=missing_rate)
    names = pa.array(compared.entities, pa.string()), pa.array(built.relations, pa.string())
    graph, report = encode_graph(
        {"train": train, **{split: named_facts(facts, *names) for split, facts in built.splits.items()}},
        negatives[0] if negatives else None,
        named_literals(compared.entities, compared.fields, compared.values, built.shown),
    )
    held_out, shown = sum(map(len, built.splits.values())), int(built.shown.sum())
    notices = [
        f"{name}: train.txt{' and neg.txt' if negatives else ''} of the authors ({folder}), {LICENCE}, "
        f"{REPOSITORY}; rebuilt from {raw_path}: the {held_out:,} other pairs of {len(compared.entities):,} "
        f"entities in two halves, {built.masked:,} of {built.masked + shown:,} values masked, seed {seed}",
        *(
            line
            for path, known in zip(found, wanted.hashes, strict=False)
            for line in version_notice(str(path), file_hash(path), (known,))
        ),
        *([] if negatives else ["no neg.txt: no negatives are given"]),
    ]
    return graph, [*notices, *compared.notices, *report.notices()]


def find_authors_files(wanted: AuthorsGraph, directory: str) -> Path:
    """The first folder with the authors' train.txt.

    Raises:
      UserError: no folder has one; the message says what to put where, and where it is published.
    """
    first, folders = wanted.folders[0], search_folders(directory)
    check_directory(directory, first)
    for folder in folders:
        for inner in wanted.folders:
            if os.path.isfile(folder / inner / FILES[0]):
                return folder / inner
    raise UserError(
        f"{wanted.name}: no {first}/{FILES[0]} in {', '.join(map(str, folders))}, and it cannot be "
        f"downloaded by itself: get {' and '.join(FILES)} from {REPOSITORY} ({LICENCE}), save them in "
        f"{download_folder() / first}, or set ${FOLDER_VARIABLE} to a folder that has it"
    )


def compared_entities(wanted: AuthorsGraph, train: pa.Table, where: Path, raw_path: Path) -> EntityTable:
    """The entities of comparative training facts with their values, sorted by name.

    Args:
      wanted: says what names and fields mean.
      train: columns head, relation, tail.
      where: the file of `train`, for messages.
      raw_path: the raw table.

    Raises:
      UserError: there is no comparative fact, or an entity is no row of the raw table.
    """
    comparative = train.filter(pc.ends_with(train["relation"].cast(pa.string()), RELATION_SUFFIX))
    ends = [comparative[column].cast(pa.string()).unique() for column in ("head", "tail")]
    entities = sorted({name for column in ends for name in column.to_pylist()})
    if not entities:
        raise UserError(f"{where}: no relation ends in {RELATION_SUFFIX}; give the train.txt of {REPOSITORY}")
    raw = read_table(raw_path)
    rows = {f"{wanted.prefix}{number}": row for row, number in enumerate(raw.names(wanted.number_column))}
    strange = [name for name in entities if name not in rows]
    if strange:
        raise UserError(
            f"{where}: {strange[0]!r} is no row of {raw_path} (nor are {len(strange) - 1:,} others): "
            f"{wanted.prefix}<n> must be the row with {wanted.number_column!r} n; give the table of "
            f"{wanted.raw.source}"
        )
    chosen = np.array([rows[name] for name in entities])
    sums = []
    for columns in wanted.fields.values():
        cells = [field_column(raw, column) for column in columns]
        observed = np.all([cell.observed for cell in cells], axis=0)
        total = sum(cell.values for cell in cells)
        sums.append((np.where(observed, total, 0.0)[chosen], observed[chosen]))
    return EntityTable(
        name=wanted.name,
        entities=tuple(entities),
        fields=tuple(wanted.fields),
        values=np.stack([values for values, _ in sums], axis=1),
        observed=np.stack([observed for _, observed in sums], axis=1),
    )


def rebuild(
    compared: EntityTable, train: pa.Table, where: Path, *, seed: int, missing_rate: float
) -> Comparisons:
    """The pairs that training leaves out, in two halves, and the mask.

    Args:
      compared: N entities with values.
      train: columns head, relation, tail.
      where: the file of `train`, for messages.
      seed: one generator draws the permutation of the pairs, then a number in [0, 1) per cell.
      missing_rate: a cell is masked where its number is below this.

    Returns:
      Splits "valid" (the smaller half) and "test", int32 [n, 3], sorted; no negatives.

    Raises:
      UserError: a comparative relation has no field, or a training fact contradicts the values.
    """
    names = train["relation"].cast(pa.string())
    relations = tuple(sorted(name for name in names.unique().to_pylist() if name.endswith(RELATION_SUFFIX)))
    ids, pairs = pa.array(compared.entities, pa.string()), []
    for relation, name in enumerate(relations):
        field = name.removesuffix(RELATION_SUFFIX)
        if field not in compared.fields:
            raise UserError(f"{where}: {name} compares no field of {', '.join(compared.fields)}")
        column = compared.fields.index(field)
        values = np.where(compared.observed[:, column], compared.values[:, column], np.nan)
        above = values[:, None] > values[None, :]  # False where one is missing
        facts = train.filter(pc.equal(names, name))
        heads, tails = (
            pc.index_in(facts[end].cast(pa.string()), value_set=ids).to_numpy() for end in ("head", "tail")
        )
        wrong = np.flatnonzero(~above[heads, tails])
        if len(wrong):
            head, tail = compared.entities[heads[wrong[0]]], compared.entities[tails[wrong[0]]]
            raise UserError(
                f"{where}: {plural(len(wrong), 'fact')} of {name}, such as {head} above {tail}, contradict "
                "the raw table: one of the two files is another version"
            )
        above[heads, tails] = False
        left = np.argwhere(above).astype(np.int32)
        pairs.append(np.insert(left, 1, relation, axis=1))
    held_out = np.concatenate(pairs)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(held_out))
    halves = {"valid": order[: len(order) // 2], "test": order[len(order) // 2 :]}
    shown = compared.observed & (generator.random(compared.values.shape) >= missing_rate)
    return Comparisons(
        relations=relations,
        splits={split: held_out[np.sort(half)] for split, half in halves.items()},
        negatives=np.zeros((0, 3), np.int32),
        kept=np.ones(len(compared.entities), bool),
        shown=shown,
        masked=int(compared.observed.sum() - shown.sum()),
        notices=(),
    )
