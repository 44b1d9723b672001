"""A finished run, loaded for use: its data, its functions and its best parameters."""

import dataclasses
import pathlib
from typing import Any

from numcoke_jax.calibration import Calibration
from numcoke_jax.config_checks import shown_path
from numcoke_jax.config_files import stored_config
from numcoke_jax.errors import UserError
from numcoke_jax.predict import Predictor
from numcoke_jax.report import read_json
from numcoke_jax.resume import Warn, checkpoints_of, newest_state
from numcoke_jax.run import Run, create_run


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run with the parameters of its best checkpoint, and what makes its scores probabilities."""

    run: Run
    params: Any
    calibration: Calibration = Calibration()

    def predictor(self) -> Predictor:
        """Answers queries about the run's own entities."""
        return Predictor(self.run.graph, self.run.evaluate, self.params, self.calibration)


def load_trained(workdir: pathlib.Path, warn: Warn) -> Trained:
    """The run of `workdir`, its data loaded as its config.json says, with its best parameters.

    `warn` is told of damaged checkpoints that were passed over, and of a report without calibration.

    Raises:
      UserError: there is no run or no usable checkpoint, or the data are not those of the run.
    """
    if not workdir.is_dir():
        raise UserError(f"{shown_path(workdir)}: there is no such folder; give the workdir of a finished run")
    run = create_run(stored_config(workdir / "config.json"))
    with checkpoints_of(run, workdir) as checkpoints:
        newest = newest_state(run, checkpoints, warn)
        if newest is None or not newest[1].patience.best_step:
            raise UserError(f"{shown_path(workdir)}: no checkpoint that was validated; train there first")
        best = checkpoints.restore(checkpoints.usable_at(newest[1].patience.best_step))
    return Trained(run, best.state.params, _calibration(run, workdir, warn))


def _calibration(run: Run, workdir: pathlib.Path, warn: Warn) -> Calibration:
    path = workdir / "report.json"
    if not path.exists():
        warn(f"there is no {shown_path(path)}: probabilities are not calibrated; --mode=eval writes it")
        return Calibration()
    relations = run.graph.vocabulary.relations
    found = Calibration.from_report(read_json(path).get("calibration"), relations, shown_path(path))
    if not found.fitted:
        warn(f"{shown_path(path)} has no calibration: probabilities are sigmoids of the raw scores")
    return found
