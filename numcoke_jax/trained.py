"""A finished run, loaded for use: its data, its functions and its best parameters."""

import dataclasses
import pathlib
from typing import Any

from absl import logging

from numcoke_jax.config_files import stored_config
from numcoke_jax.errors import UserError
from numcoke_jax.resume import checkpoints_of, keep_best, newest_state
from numcoke_jax.run import Run, create_run


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
    with checkpoints_of(run, workdir) as checkpoints:
        newest = newest_state(run, checkpoints, logging.warning)
        if newest is None or not newest[1].patience.best_step:
            raise UserError(f"{workdir}: no checkpoint there that was validated; train first")
        progress = keep_best(run, checkpoints, newest[1], logging.warning)
        best = checkpoints.restore(checkpoints.usable_at(progress.patience.best_step))
    return Trained(run, best.state.params)
