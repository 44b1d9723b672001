"""`numcoke export --workdir=RUN --to=FOLDER`: a trained model as files that need no part of this package."""

import argparse
import shlex

from numcoke_jax.cli.commands import OneLineParser, add_cache_option, as_folder
from numcoke_jax.system.console import LOADING, Console
from numcoke_jax.system.errors import UserError, plural_of, shown_path


def add_options(parser: OneLineParser, command: str) -> None:
    """The options of the command."""
    parser.set_defaults(run=_run, checked=_checked)
    parser.description = (
        "Write vectors, positions and names as parquet, and a scoring function that JAX\n"
        "alone can call on CPU, GPU and TPU; manifest.json says until when, and more."
    )
    parser.add_argument("--workdir", required=True, type=as_folder, metavar="RUN", help="a finished run")
    parser.add_argument("--to", required=True, type=as_folder, metavar="FOLDER", help="a new folder")
    add_cache_option(parser)


def _checked(options: argparse.Namespace) -> argparse.Namespace:
    """The options, if the folder can be made; raises UserError if not, before anything is loaded."""
    to = options.to
    if to.exists():
        raise UserError(f"--to={shown_path(to)} already exists; give another folder, or move it away")
    if not to.absolute().parent.is_dir():
        raise UserError(f"--to={shown_path(to)}: there is no folder {shown_path(to.parent)}; create it first")
    return options


def _run(options: argparse.Namespace) -> int:
    console = Console()
    with console.waiting(LOADING):
        from numcoke_jax.inference.export import export_run
        from numcoke_jax.inference.trained import load_trained
        from numcoke_jax.system.compiled import keep_compiled

    if not options.no_cache:
        keep_compiled()
    with console.waiting("loading the run"):
        trained = load_trained(options.workdir, console.warn)
    command = shlex.join(["numcoke", "export", f"--workdir={options.workdir.absolute()}", "--to=FOLDER"])
    with console.waiting("writing the scoring function for three kinds of device"):
        manifest = export_run(trained, options.to.absolute(), command)
    for name in manifest["files_sha256"]:
        console.note(f"{shown_path(options.to / name)}")
    score, sizes = manifest["score"], manifest["sizes"]
    entities = plural_of(sizes["entities"], "entity", "entities")
    console.note(f"score.jax: the logits of {entities}, for {', '.join(score['platforms'])}")
    console.note(f"readable by {score['readable']['by']}", wrap=True)
    return 0
