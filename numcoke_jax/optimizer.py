"""The optax chain that `config.train` describes."""

import optax
from ml_collections import ConfigDict


def learning_rate_schedule(train: ConfigDict, total_steps: int) -> optax.Schedule:
    """step -> learning rate: linear warm-up from 0, then constant or a cosine down to 0 at `total_steps`."""
    rest = max(total_steps - train.warmup_steps, 1)
    if train.schedule == "cosine":
        main = optax.cosine_decay_schedule(train.learning_rate, rest)
    else:
        main = optax.constant_schedule(train.learning_rate)
    if not train.warmup_steps:
        return main
    warmup = optax.linear_schedule(0.0, train.learning_rate, train.warmup_steps)
    return optax.join_schedules([warmup, main], [train.warmup_steps])


def create_optimizer(train: ConfigDict, total_steps: int) -> optax.GradientTransformation:
    """Adam or AdamW on the schedule, behind an optional clip of the global gradient norm."""
    schedule = learning_rate_schedule(train, total_steps)
    if train.optimizer == "adamw":
        update = optax.adamw(schedule, weight_decay=train.weight_decay)
    else:
        update = optax.adam(schedule)
    if not train.clip_norm:
        return update
    return optax.chain(optax.clip_by_global_norm(train.clip_norm), update)
