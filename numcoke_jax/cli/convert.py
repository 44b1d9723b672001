"""Id files of other toolkits -> a folder in text layout.

    numcoke data convert DIR --out=DIR [--order=head,tail,relation]

`data/files/ids.py` says which files are read.
"""

import argparse
import itertools

from numcoke_jax.cli.commands import OneLineParser, refuse_existing, tell_written
from numcoke_jax.data.files.folder import write_folder
from numcoke_jax.data.files.ids import read_ids
from numcoke_jax.data.files.lines import FACT_COLUMNS
from numcoke_jax.system.errors import plural, plural_of
from numcoke_jax.system.files import home_path

EPILOG = """\
Read are entity2id.txt, relation2id.txt, train2id.txt, valid2id.txt, test2id.txt
(head, tail, relation, as OpenKE writes them; a first line of one number is the
count of rows), LibKGE's entity_ids.del, relation_ids.del, train.del, ..., and
with --order also train.txt, ... of names in another order than head, relation,
tail.  literals/numerical_literals.txt comes along.  Exit code 0 when the folder
was written, 2 with one line on stderr otherwise.

examples:
  numcoke data convert FB15K237 --out=graphs/fb15k
  numcoke data convert FB15k --order=head,tail,relation --out=graphs/fb15k
"""
ORDERS = [",".join(order) for order in itertools.permutations(FACT_COLUMNS)]


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run)
    parser.description = "Write the facts of other toolkits as a folder in text layout."
    parser.epilog = EPILOG
    parser.add_argument("folder", type=home_path, metavar="DIR", help="a folder, or a zip archive of one")
    parser.add_argument("--out", required=True, type=home_path, metavar="DIR", help="folder; must not exist")
    parser.add_argument(
        "--order",
        choices=ORDERS,
        metavar="A,B,C",
        help="what the columns of a fact are (default: as the toolkit writes them)",
    )


def _run(options: argparse.Namespace) -> int:
    refuse_existing(options.out)
    graph, report = read_ids(options.folder, options.order.split(",") if options.order else ())
    write_folder(graph, options.out, source=options.folder)
    entities = plural_of(graph.num_entities, "entity", "entities")
    sizes = f"{entities}, {plural(graph.num_relations, 'relation')}, {plural(graph.num_fields, 'field')}"
    return tell_written([*report.notices(), sizes], options.out)
