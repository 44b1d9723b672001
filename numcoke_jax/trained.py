"""A finished run, loaded for use: its data, its functions and its best parameters."""

import dataclasses
import pathlib
from typing import Any

from numcoke_jax.config_checks import shown_path
from numcoke_jax.config_files import stored_config
from numcoke_jax.errors import UserError
from numcoke_jax.resume import Warn, checkpoints_of, newest_state
from numcoke_jax.run import Run, create_run


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run with the parameters of its best checkpoint."""

    run: Run
    params: Any


def load_trained(workdir: pathlib.Path, warn: Warn) -> Trained:
    """The run of `workdir`, its data loaded as its config.json says, with its best parameters.

    `warn` is told of damaged checkpoints that were passed over.

    Raises:
      UserError: there is no run or no usable checkpoint, or the data are not those of the run.
    """
    run = create_run(stored_config(workdir / "config.json"))
    with checkpoints_of(run, workdir) as checkpoints:
        newest = newest_state(run, checkpoints, warn)
        if newest is None or not newest[1].patience.best_step:
            raise UserError(f"{shown_path(workdir)}: no checkpoint that was validated; train there first")
        best = checkpoints.restore(checkpoints.usable_at(newest[1].patience.best_step))
    return Trained(run, best.state.params)
