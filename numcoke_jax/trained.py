"""A finished run, loaded for use: its data, its functions and its best parameters."""

import dataclasses
import pathlib
from typing import Any

from numcoke_jax.checkpoints import Checkpoints
from numcoke_jax.config_files import stored_config
from numcoke_jax.errors import UserError
from numcoke_jax.run import Run, create_run
from numcoke_jax.train import restore
from numcoke_jax.workdir import keep_vocabulary


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run with the parameters of its best checkpoint."""

    run: Run
    params: Any


def load_trained(workdir: pathlib.Path) -> Trained:
    """The run of `workdir`, its data loaded as its config.json says, with its best parameters.

    Raises:
      UserError: there is no run or no complete checkpoint, or the data are not those of the run.
    """
    if not (workdir / "checkpoints").is_dir():
        raise UserError(f"{workdir}: no run with checkpoints there; train one with --workdir={workdir}")
    run = create_run(stored_config(workdir / "config.json"))
    keep_vocabulary(workdir, run.graph.vocabulary, run.scale)
    with Checkpoints(workdir / "checkpoints", newest=run.config.checkpoint.keep) as checkpoints:
        if not checkpoints.steps():
            raise UserError(f"{workdir}: no complete checkpoint there; train first")
        _, progress = restore(run, checkpoints, checkpoints.steps()[-1])
        state, _ = restore(run, checkpoints, progress.patience.best_step)
    return Trained(run, state.params)
