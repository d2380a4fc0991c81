"""Temperatures of posteriors whose draws are exact: they must be T."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import configurational_temperature, minibatch_noise
from bayesnn_ppl.diagnostics.potential_energy import potential as potential_module
from bayesnn_ppl.diagnostics.potential_energy.potential import energies_at_draws

ROWS, WIDTH = 60, 6
_generator = np.random.default_rng(0)
X = _generator.normal(size=(ROWS, WIDTH)).astype(np.float32)
Y = (X @ np.ones(WIDTH) + _generator.normal(size=ROWS)).astype(np.float32)


def model(x, y=None, *, batch_size=None):
    """A conjugate regression, and a positive site that the data say nothing of."""
    weights = numpyro.sample("net/weights", dist.Normal(0, 0.5).expand([WIDTH]).to_event(1))
    numpyro.sample("a.rate", dist.Gamma(3.0, 2.0).expand([5]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def posterior(
    temperature=1.0, *, posterior_model=model, prior=0.25, statistics=None, kernel=None, **more
):
    """Independent exact draws of exp(-U/T), U without the Jacobian."""
    generator = np.random.default_rng(1)
    precision = X.T @ X.astype(float) + np.eye(WIDTH) / prior
    mean = np.linalg.solve(precision, X.T @ Y.astype(float))
    root = np.linalg.cholesky(np.linalg.inv(precision) * temperature)
    weights = mean + generator.normal(size=(4, 150, WIDTH)) @ root.T
    # [s^2 e^{-2s}]^{1/T}, a density in s itself.
    rate = generator.gamma(2 / temperature + 1, temperature / 2, size=(4, 150, 5))
    return bnn.Posterior.from_arrays(
        {"net/weights": weights.astype(np.float32), "a.rate": rate.astype(np.float32)},
        {"step_size": np.full((4, 150), 0.01), **(statistics or {})},
        {
            "latents": ["net/weights", "a.rate"],
            "precision": "float32",
            "posterior_temperature": temperature,
            "kernel": "SGHMC" if kernel else "exact",
            "kernel_settings": kernel or {},
            "rows": ROWS,
            "chains": 4,
            "draws": 150,
            **more,
        },
        model=posterior_model,
    )


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_exact_draws_have_their_temperature(temperature):
    """With T ≠ 1 the Jacobian must count T times in U; the model may also be cold itself."""
    found = configurational_temperature(posterior(temperature), X, Y, level=1 - 1e-4)
    assert set(found) == {"a.rate", "net.weights"}
    for reading in found.values():
        assert reading.lower < temperature < reading.upper
        assert reading.upper - reading.lower < 0.6 * temperature
    cold = bnn.cold(model, temperature)
    again = configurational_temperature(posterior(temperature, posterior_model=cold), X, Y)
    for name, reading in again.items():
        assert reading.value == pytest.approx(found[name].value, rel=1e-4)


def test_wrong_draws_do_not():
    """Weights with 1.6 times their spread are 2.6 times too hot, and they alone."""
    wide = posterior()
    values = wide.tree["posterior"]["net.weights"].values
    values[:] = values.mean((0, 1)) + 1.6 * (values - values.mean((0, 1)))
    found = wide.temperatures(X, Y)
    assert {a.name: a.status for a in found.arrays} == {
        "a.rate": "right",
        "net.weights": "too hot",
    }


def test_blocks_of_rows_and_drawn_rows_give_the_gradient(monkeypatch):
    run = posterior()
    whole = energies_at_draws(run, X, Y, gradients=40)
    # By hand, and in the order of the sorted sites, which is that of the flat vector.
    assert list(whole.gradients) == ["a.rate", "net.weights"]
    theta = whole.positions["net.weights"]
    exact = (theta @ X.T - Y) @ X + theta / 0.25
    np.testing.assert_allclose(whole.gradients["net.weights"], exact, rtol=2e-3, atol=2e-3)
    log_rate = whole.positions["a.rate"]
    exact = 2 * np.exp(log_rate) - 3.0
    np.testing.assert_allclose(whole.gradients["a.rate"], exact, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(potential_module, "_ROWS_AT_ONCE", 25)
    blocks = energies_at_draws(run, X, Y, gradients=40)
    for name, gradient in whole.gradients.items():
        np.testing.assert_allclose(blocks.gradients[name], gradient, rtol=1e-3, atol=2e-2)
    some = energies_at_draws(run, X, Y, gradients=400, rows=20)
    every = energies_at_draws(run, X, Y, gradients=400)
    apart = some.gradients["net.weights"] - every.gradients["net.weights"]
    error = apart.std() / np.sqrt(apart[..., 0].size)
    assert error > 0 and np.all(np.abs(apart.mean((0, 1))) < 5 * error)


def test_data_must_be_those_of_the_run():
    import hashlib

    digest = hashlib.sha256()
    for array in (X, Y):
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    run = posterior(data_sha256=digest.hexdigest())
    assert run.temperatures(X, Y).arrays
    with pytest.raises(ValueError, match="not the data of the run"):
        run.temperatures(X[:30], Y[:30])


def kinetic(values, **settings):
    """Statistics and settings of a run of SGHMC; arrays in sorted order: a.rate, net.weights."""
    generator = np.random.default_rng(3)
    sizes = np.array([5, WIDTH])
    draws = generator.chisquare(sizes, size=(4, 150, 2)) / sizes * np.asarray(values)
    return {"kinetic_temperature": draws * 2 / 1.9}, {
        "kinetic_law": "symplectic Euler",
        "momentum_decay": 0.9,
        "reference_step_size": 0.01,
        **settings,
    }


def test_both_temperatures_of_a_run():
    statistics, kernel = kinetic([1.0, 1.0])
    run = posterior(statistics=statistics, kernel=kernel)
    found = run.temperatures(X, Y)
    assert found.right and found.kernel == "SGHMC"
    assert [a.elements for a in found.arrays] == [5, WIDTH]
    assert "positions were not looked at" in run.temperatures().verdict
    statistics, kernel = kinetic([1.0, 0.5])
    run = posterior(statistics=statistics, kernel=kernel)
    alone = run.temperatures()
    assert {a.name: a.status for a in alone.arrays} == {
        "a.rate": "right",
        "net.weights": "too cold",
    }
    assert run.temperatures(X, Y).arrays[1].kind in ("momenta", "weak")


def test_the_decay_follows_the_step_of_each_draw():
    """Half of the draws at a quarter of the step: β is 0.95 there, and 0.9 elsewhere."""
    statistics, kernel = kinetic([1.0, 1.0])
    steps = np.full((4, 150), 0.01)
    steps[:, 75:] = 0.0025
    statistics["kinetic_temperature"][:, 75:] *= 1.9 / 1.95
    run = posterior(statistics={**statistics, "step_size": steps}, kernel=kernel)
    value = run.temperatures().arrays[1].kinetic.value
    flat = posterior(statistics=kinetic([1.0, 1.0])[0], kernel=kernel)
    assert value == pytest.approx(flat.temperatures().arrays[1].kinetic.value, rel=1e-6)


def test_diagnose_reads_what_the_run_recorded():
    for level, words in ((1.0, "parameter arrays are right"), (1.6, "too hot")):
        statistics, kernel = kinetic([level, level])
        statistics["temperature"] = np.ones((4, 150))
        run = posterior(statistics=statistics, kernel=kernel)
        found = run.diagnose()
        assert words in found.verdict and found.temperatures is not None
    # With the positions looked at, in place of the momenta alone.
    full = run.temperatures(X, Y)
    assert run.diagnose(temperatures=full).temperatures is full
    assert posterior().diagnose().temperatures is None


@pytest.mark.parametrize(
    ("settings", "dynamics"),
    [
        ({"accept_step": True}, "accept step"),
        ({"accept_step": True, "kernel": {"kinetic_law": "OBABO"}}, "accept step"),
        ({"accept_step": False, "kernel": {"kinetic_law": "none"}}, "noise"),
        ({"accept_step": False}, "unadjusted"),  # MCLMC
        ({"accept_step": None}, "unadjusted"),
    ],
)
def test_words_of_a_wrong_temperature_are_those_of_the_kernel(settings, dynamics):
    """Draws at 1.6 times their spread: what is said of it depends on how they were made."""
    wide = posterior(**settings)
    values = wide.tree["posterior"]["net.weights"].values
    values[:] = values.mean((0, 1)) + 1.6 * (values - values.mean((0, 1)))
    found = wide.temperatures(X, Y)
    phrase = {
        "accept step": "which is not judged",
        "noise": "minibatch gradients too noisy",
        "unadjusted": "has no accept step, and its step is too long",
    }
    said = {kind: words in found.verdict for kind, words in phrase.items()}
    assert said == {kind: kind == dynamics for kind in phrase}
    assert found.status == ("not known" if dynamics == "accept step" else "too hot")
    assert ("has no momenta" in found.verdict) == (dynamics == "noise")


def test_stopped_chains_are_left_out_and_named():
    statistics, kernel = kinetic([1.0, 1.0])
    statistics["stopped"] = np.zeros((4, 150), bool)
    statistics["stopped"][1, 40:] = True
    statistics["kinetic_temperature"][1] = 50.0
    run = posterior(statistics=statistics, kernel=kernel)
    found = run.temperatures(X, Y)
    assert found.right and "chain 1" in found.verdict
    statistics["stopped"][:] = True
    with pytest.raises(ValueError, match="Every chain stopped"):
        posterior(statistics=statistics, kernel=kernel).temperatures()


def test_noise_of_minibatches():
    found = minibatch_noise(posterior(), X, Y, batch_size=10, minibatches=400)
    assert found["a.rate"].variance == 0
    # N²/B times the variance of a row's gradient.
    theta = posterior().draws["net.weights"][0, -1]
    rows = (X @ theta - Y)[:, None] * X
    exact = ROWS**2 / 10 * rows.var(axis=0).mean()
    assert found["net.weights"].variance == pytest.approx(exact, rel=0.25)
    assert found["net.weights"].tail_index > 1.4


def test_refusals():
    run = posterior()
    with pytest.raises(ValueError, match="no kinetic temperature that could be judged"):
        run.temperatures()
    with pytest.raises(ValueError, match="both `x` and `y`"):
        run.temperatures(X)
    with pytest.raises(ValueError, match="without its model"):
        posterior(posterior_model=None).temperatures(X, Y)
    with pytest.raises(ValueError, match="leave 3 a chain"):
        run.temperatures(X, Y, gradients=12)
    ramp = np.broadcast_to(np.linspace(0.1, 1, 150), (4, 150))
    with pytest.raises(ValueError, match="went from 0.1 to 1"):
        posterior(statistics={"temperature": ramp}).temperatures(X, Y)
