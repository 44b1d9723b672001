"""The graph of a run that was started from a table, kept in its workdir: the run needs nothing else."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from numcoke_jax.data.files.folder import write_folder
from numcoke_jax.data.graph import graph_hash
from numcoke_jax.data.load import load_folder
from numcoke_jax.data.numeric_kg import NumericKG
from numcoke_jax.runs.file_names import COMPARISONS_FILE, CONFIG_FILE, GRAPH_FOLDER
from numcoke_jax.runs.workdir import TRACES, exclusive
from numcoke_jax.system.errors import UserError, shown_path
from numcoke_jax.system.files import write_json_atomically


@contextlib.contextmanager
def kept_graph(kg: NumericKG, workdir: Path) -> Iterator[None]:
    """`keep_graph`, and the run in the block; if that fails before it began, what was written is removed.

    What was there before stays, and so does all of a workdir that another process works in.

    Raises:
      UserError: as `keep_graph`.
    """
    made = [name for name in (GRAPH_FOLDER, COMPARISONS_FILE) if not (workdir / name).exists()]
    keep_graph(kg, workdir)
    try:
        yield
    except BaseException:
        with contextlib.suppress(UserError, OSError), exclusive(workdir):
            if GRAPH_FOLDER in made and not any((workdir / name).exists() for name in TRACES):
                doomed = workdir / f".{GRAPH_FOLDER}.removed"  # a graph is there whole or not at all
                os.rename(workdir / GRAPH_FOLDER, doomed)
                shutil.rmtree(doomed, ignore_errors=True)
                if COMPARISONS_FILE in made:
                    (workdir / COMPARISONS_FILE).unlink(missing_ok=True)
        raise


def keep_graph(kg: NumericKG, workdir: Path) -> None:
    """Write the graph of a run, and how it was made, into its workdir, or check that they are already there.

    Raises:
      UserError: the workdir holds another graph, or a run whose graph is elsewhere.
    """
    shown, folder = shown_path(workdir), workdir / GRAPH_FOLDER
    if folder.exists():
        if graph_hash(load_folder(str(folder)).graph) != graph_hash(kg.graph):
            raise UserError(
                f"workdir {shown} belongs to another graph, the one in its folder {folder.name}: give that "
                "graph or another workdir; numcoke train --overwrite moves this one aside"
            )
    elif (workdir / CONFIG_FILE).exists():
        raise UserError(
            f"workdir {shown} belongs to a run that was not started from a table: resume it with numcoke "
            "train and its config, or give another workdir"
        )
    else:
        truth = kg.loaded.truth or kg.graph
        fields = (graph.vocabulary.fields for graph in (truth, kg.graph))
        write_folder(truth, folder, sorted(set.difference(*map(set, fields))))
    if kg.comparisons is not None and not (workdir / COMPARISONS_FILE).exists():
        write_json_atomically(workdir / COMPARISONS_FILE, kg.comparisons)
