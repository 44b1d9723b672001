"""A finished run, loaded for use: its data, its functions and its best parameters."""

import dataclasses
import functools
import pathlib
from typing import Any

from numcoke_jax.evaluation.calibration import Calibration
from numcoke_jax.inference.names import Names
from numcoke_jax.inference.predict import Predictor
from numcoke_jax.runs.create import create_run
from numcoke_jax.runs.file_names import REPORT_FILE
from numcoke_jax.runs.resume import Progress, Warn, checkpoints_of, newest_state
from numcoke_jax.runs.run import Run
from numcoke_jax.runs.stored import Report, hidden_fields, read_report, run_config
from numcoke_jax.runs.unseen import NewEntities, extended
from numcoke_jax.system.errors import UserError, shown_path


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run with its best parameters, what makes its scores probabilities, and report.json if it is there."""

    run: Run
    params: Any
    calibration: Calibration = Calibration()
    report: Report | None = None

    @functools.cached_property
    def names(self) -> Names:
        """The names of the run's graph."""
        truth, shown = self.run.loaded.truth or self.run.graph, self.run.graph.vocabulary
        hidden = dict.fromkeys(
            set(truth.vocabulary.fields) - set(shown.fields), "the graph that it was given"
        )
        return Names(shown, hidden | hidden_fields(self.run.config))

    def predictor(self, new: NewEntities | None = None) -> Predictor:
        """Answers queries about the run's own entities, and about `new` ones after them."""
        if new is None:
            return Predictor(self.run.graph, self.run.scorer, self.params, self.calibration)
        return Predictor(*extended(self.run, self.params, new), self.calibration)


def load_trained(workdir: pathlib.Path, warn: Warn) -> Trained:
    """The run of `workdir`, its data loaded as its config.json says, with its best parameters.

    `warn` reports damaged checkpoints that were passed over, and a missing report.

    Raises:
      UserError: there is no run or no usable checkpoint, or the data are not those of the run.
    """
    config = run_config(workdir, warn)
    config.mesh.data = config.mesh.entity = 1  # however many devices it was trained on
    run = create_run(config)
    with checkpoints_of(run, workdir) as checkpoints:
        state, progress = newest_state(run, checkpoints, warn) or (None, Progress())
        best_step = progress.patience.best_step
        if state is None or not best_step:
            raise UserError(f"{shown_path(workdir)}: no checkpoint was validated; train there first")
        if int(state.step) != best_step:
            state = checkpoints.restore(checkpoints.usable_at(best_step)).state
    where = shown_path(workdir / REPORT_FILE)
    if not (workdir / REPORT_FILE).exists():
        warn(f"there is no {where}: probabilities of scores are unknown; numcoke eval writes it")
        return Trained(run, state.params)
    report = read_report(workdir)
    graph, stored = run.graph, report.get("calibration")
    if isinstance(stored, dict) and "directions" not in stored:
        warn(f"{where} is of an earlier version: probabilities of scores are unknown; numcoke eval writes it")
        stored = None
    calibration = Calibration.from_report(stored, graph.vocabulary.relations, graph.num_entities, where)
    return Trained(run, state.params, calibration, report)
