"""Mixture of experts: readings 4 and 5 of the paper; the gate's noise and its relation temperature."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numcoke_jax.models.experts import MixtureOfExperts, _at_most_zero
from tests import examples
from tests.oracles import experts as oracle
from tests.oracles.arithmetic import dense, sigmoid, softplus

N, D, R = 5, 4, 3
RELATIONS = jnp.array([2, 0, 2], jnp.int32)


def module_and_parameters(**attributes: Any) -> tuple[MixtureOfExperts, dict]:
    module = MixtureOfExperts(num_relations=R, **attributes)
    return module, examples.parameters_of(module, jnp.zeros((N, D)), RELATIONS, train=False)


def mixture(module: MixtureOfExperts, parameters: dict, features: jax.Array, **call: Any) -> Any:
    noise = call.pop("noise_key", None)
    rngs = {} if noise is None else {"gating_noise": noise}
    return examples.apply(module, parameters, features, RELATIONS, rngs=rngs, **call)


def gate(module: MixtureOfExperts, parameters: dict, features: jax.Array, **call: Any) -> np.ndarray:
    """F_k [S, N, K] of a call."""
    _, kept = mixture(
        module,
        parameters,
        features,
        capture_intermediates=lambda _, method: method == "gate",
        mutable=["intermediates"],
        **call,
    )
    return np.asarray(kept["intermediates"]["gate"][0])


def expected_mixture(parameters: dict, features: jax.Array, hidden: int, psi: Any = None) -> np.ndarray:
    parameters, rows = examples.float64(parameters), examples.float64(features)
    return np.array(
        [
            [
                oracle.entity_embedding(
                    parameters, row, int(r), hidden=hidden, psi=None if psi is None else psi[s, i]
                )
                for i, row in enumerate(rows)
            ]
            for s, r in enumerate(RELATIONS)
        ]
    )


@pytest.mark.parametrize(("count", "hidden"), [(1, 0), (3, 0), (1, 6), (3, 6)])
def test_evaluation_equals_the_equation(count: int, hidden: int) -> None:
    module, parameters = module_and_parameters(count=count, hidden=hidden)
    features = examples.normal(N, D, seed=1)
    found = mixture(module, parameters, features, train=False)
    np.testing.assert_allclose(found, expected_mixture(parameters, features, hidden), rtol=1e-5, atol=1e-5)


def test_training_equals_the_equation_with_the_drawn_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    module, parameters = module_and_parameters(count=3)
    features = examples.normal(N, D, seed=1)
    psi = examples.normal(3, N, 3, seed=2)
    monkeypatch.setattr(jax.random, "normal", lambda key, shape: psi.reshape(shape))
    found = mixture(module, parameters, features, train=True, noise_key=jax.random.key(0))
    expected = expected_mixture(parameters, features, 0, np.asarray(psi, np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(expected - expected_mixture(parameters, features, 0)).max() > 0.1


def test_the_noise_is_normal_with_the_softplus_as_standard_deviation() -> None:
    """With two experts log(F_1 / F_2) rho = U_1 - U_2 + s_1 psi_1 - s_2 psi_2, of variance s_1^2 + s_2^2."""
    module, parameters = module_and_parameters(count=2)
    features = 0.3 * examples.normal(1500, D, seed=1)
    found = gate(module, parameters, features, train=True, noise_key=jax.random.key(3)).astype(np.float64)
    exact = examples.float64(parameters)
    standard = np.zeros((3, 1500))
    for i, row in enumerate(examples.float64(features)):
        views = [oracle.perspective(exact, k, row, hidden=0) for k in range(2)]
        u = [dense(exact["gate_logit"], view)[0] for view in views]
        deviation = [softplus(dense(exact["noise_scale"], view)[0]) for view in views]
        for s, r in enumerate(RELATIONS):
            log_odds = np.log(found[s, i, 0] / found[s, i, 1]) * sigmoid(exact["relation_temperature"][r])
            standard[s, i] = (log_odds - (u[0] - u[1])) / np.hypot(deviation[0], deviation[1])
    # 1500 draws a slot, tolerances of 4 standard deviations: of the mean 0.026, the variance 0.037,
    # a correlation 0.026.  P(|z| < 1) is 0.683 (0.012) and P(|z| < 2) 0.954 (0.0054) if z is normal.
    np.testing.assert_allclose(standard.mean(axis=1), 0.0, atol=0.104)
    np.testing.assert_allclose(standard.var(axis=1), 1.0, atol=0.148)
    np.testing.assert_allclose((np.abs(standard) < 1).mean(axis=1), 0.683, atol=0.048)
    np.testing.assert_allclose((np.abs(standard) < 2).mean(axis=1), 0.954, atol=0.022)
    # Slots draw their own noise, also two slots of the same relation (0 and 2).
    correlations = np.asarray(np.corrcoef(standard))[np.triu_indices(3, 1)]
    np.testing.assert_allclose(correlations, 0.0, atol=0.104)


@pytest.mark.parametrize("attributes", [{"count": 3, "noise": False}, {"count": 1}])
def test_training_without_noise_or_a_choice_is_evaluation_and_needs_no_key(attributes: dict) -> None:
    module, parameters = module_and_parameters(**attributes)
    features = examples.normal(N, D)
    np.testing.assert_array_equal(
        mixture(module, parameters, features, train=True), mixture(module, parameters, features, train=False)
    )


def test_noise_is_absent_in_evaluation_and_follows_its_key_in_training() -> None:
    module, parameters = module_and_parameters(count=3)
    features = examples.normal(N, D)

    def run(seed: int, train: bool) -> np.ndarray:
        return np.asarray(mixture(module, parameters, features, train=train, noise_key=jax.random.key(seed)))

    np.testing.assert_array_equal(run(0, train=False), run(1, train=False))
    np.testing.assert_array_equal(run(0, train=True), run(0, train=True))
    assert np.abs(run(0, train=True) - run(1, train=True)).max() > 1e-3
    assert np.abs(run(0, train=True) - run(0, train=False)).max() > 1e-3


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_gate_sums_to_one(count: int, train: bool) -> None:
    module, parameters = module_and_parameters(count=count)
    weights = gate(module, parameters, examples.normal(N, D), train=train, noise_key=jax.random.key(0))
    assert weights.shape == (3, N, count)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-6)


def test_one_expert_is_a_residual_entity_layer() -> None:
    module, parameters = module_and_parameters(count=1)
    features = examples.normal(N, D)
    found = mixture(module, parameters, features, train=True)
    layer = features + features @ parameters["kernel"][0] + parameters["bias"][0]
    for slot in found:  # the relation makes no difference
        np.testing.assert_allclose(slot, layer, rtol=1e-5, atol=1e-6)


def test_the_temperature_is_the_only_trace_of_the_relation_and_sharpens_the_gate() -> None:
    module, parameters = module_and_parameters(count=3)
    features = examples.normal(N, D)
    equal = parameters | {"relation_temperature": jnp.full((R,), 0.4)}
    same = np.asarray(mixture(module, equal, features, train=False))
    np.testing.assert_array_equal(same[0], same[1])

    cold = parameters | {"relation_temperature": jnp.array([-12.0, 0.0, 30.0])}
    hot, sharp, again = gate(module, cold, features, train=False)  # relations 2, 0, 2
    np.testing.assert_array_equal(hot, again)
    np.testing.assert_allclose(sharp.max(-1), 1.0, atol=1e-6)  # sigmoid(-12): one expert is left
    np.testing.assert_array_equal(sharp.argmax(-1), hot.argmax(-1))
    assert hot.max() < 0.999  # sigmoid(30) is 1: the plain softmax


def test_a_gap_that_rounding_made_positive_is_zero_and_keeps_its_gradient() -> None:
    value, slope = jax.value_and_grad(_at_most_zero)(jnp.float32(1e-7))
    assert value == 0.0 and slope == 1.0
