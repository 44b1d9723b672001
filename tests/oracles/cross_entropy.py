"""Cross-entropy of one fact's tail among all candidates."""

import math
from collections.abc import Sequence


def of_fact(logits: Sequence[float], tail: int, weights: Sequence[float], smoothing: float) -> float:
    """-sum_e target_e log p_e, p = exp(x_e) / sum_f w_f exp(x_f); targets s / E, 1 - s more at the tail.

    p sums to 1 only without weights; for logits whose exponentials are finite.
    """
    partition = sum(weight * math.exp(logit) for logit, weight in zip(logits, weights, strict=True))
    loss = 0.0
    for candidate, logit in enumerate(logits):
        target = smoothing / len(logits) + (1.0 - smoothing if candidate == tail else 0.0)
        loss -= target * math.log(math.exp(logit) / partition)
    return loss
