"""What the adapter of stochastic-gradient kernels promises, whatever the method."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import MCMC

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import SVRG
from bayesnn_ppl.inference.kernels.stochastic_gradient.preconditioners import RMSProp
from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.schedules.simple import Ramp
from tests.inference.kernels.known_moments import LINEAR, closed_form, coefficients

SHORT = dict(step_size=1e-4, batch_size=8, steps_per_draw=4)


def test_draws_of_unequal_length(regression):
    """`steps_per_draw` is gone through again and again, and schedules count the steps."""
    settings = SHORT | {"steps_per_draw": (6, 2, 2), "temperature": Ramp(1.0, steps=20)}
    posterior = bnn.sample(
        SGLD(LINEAR, **settings), *regression, warmup=0, draws=8, chains=1, progress=False
    )
    statistics = posterior.statistics
    np.testing.assert_array_equal(statistics["n_steps"][0], [6, 2, 2, 6, 2, 2, 6, 2])
    last = np.cumsum([6, 2, 2, 6, 2, 2, 6, 2]) - 1
    np.testing.assert_allclose(statistics["temperature"][0], np.minimum(last / 20, 1), rtol=1e-5)


def cliff(x, y=None, *, batch_size=None):
    """A gradient that is NaN beyond 3, where a walk from 0 must come to."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 100.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        cut = jnp.where(theta > 3.0, jnp.nan, 0.0)
        numpyro.sample("y", dist.Normal(cut * theta * jnp.ones(x.shape[0]), 1.0), obs=y)


def test_a_chain_that_is_not_finite_stops_at_its_last_good_draw(regression, capsys):
    kernel = SGHMC(cliff, step_size=1e-2, batch_size=8, steps_per_draw=4)
    start = {"theta": np.array([2.9, -500.0], np.float32)}
    posterior = bnn.sample(
        kernel,
        *regression,
        warmup=0,
        draws=60,
        chains=2,
        seed=1,
        init=start,
        progress=False,
        chain_method="sequential",
    )
    theta, stopped = posterior.draws["theta"], posterior.statistics["stopped"]
    assert np.isfinite(theta).all()
    assert posterior.provenance["stopped_chains"] == [0]
    assert not stopped[1].any() and len(np.unique(theta[1])) > 50
    draw = int(np.argmax(stopped[0]))
    assert stopped[0, draw:].all() and (theta[0, draw:] == theta[0, max(draw - 1, 0)]).all()
    assert (posterior.statistics["n_steps"][0, draw + 1 :] == 0).all()


@pytest.mark.parametrize("warmup", [0, 2000])
def test_a_run_ends_when_all_of_its_chains_have_stopped(regression, capsys, tmp_path, warmup):
    kernel = SGHMC(cliff, step_size=1e-2, batch_size=8, steps_per_draw=4)
    posterior = bnn.sample(
        kernel,
        *regression,
        warmup=warmup,
        draws=20_000,
        chains=2,
        init={"theta": np.array([2.9, 2.9], np.float32)},
        out=tmp_path / "run",
    )
    made = posterior.provenance["draws"]
    assert 0 < made < 2000 and posterior.statistics["stopped"][:, -1].all()
    assert posterior.provenance["ended"] == {"by": "stopped"}
    assert posterior.provenance["stopped_chains"] == [0, 1]
    assert capsys.readouterr().err.count("All chains have stopped, so the run ends.") == 1
    again = bnn.resume(tmp_path / "run", kernel, *regression, progress=False)
    assert again.provenance["draws"] == made, "The run is complete."


def variance_ratio(regression, mesh, **settings):
    kernel = SGLD(LINEAR, step_size=2e-4, batch_size=20, steps_per_draw=40, **settings)
    posterior = bnn.sample(
        kernel,
        *regression,
        warmup=20,
        draws=500,
        chains=4,
        seed=2,
        mesh=bnn.device_mesh(*mesh),
        progress=False,
    )
    exact = np.diag(closed_form(*regression)[1])
    return (coefficients(posterior).reshape(-1, 3).var(0) / exact).mean()


@pytest.mark.check
@pytest.mark.parametrize("mesh", [(1, 4), (2, 2)])
def test_the_distribution_is_the_same_on_any_mesh(regression, mesh):
    """Variances within 10 %; a gradient counted once per device would make them a quarter."""
    assert abs(variance_ratio(regression, mesh) - 1) < 0.1


class CountedPerDevice(SGLD):
    """The gradient summed over devices that each hold all of it: T = 1/4."""

    def _step(self, position, variables, gradient, normals, settings):
        return super()._step(position, variables, lambda v: 4 * gradient(v), normals, settings)


@pytest.mark.check
def test_a_gradient_counted_once_per_device_would_be_noticed(regression, monkeypatch):
    kernel = CountedPerDevice(LINEAR, step_size=5e-5, batch_size=20, steps_per_draw=40)
    posterior = bnn.sample(
        kernel,
        *regression,
        warmup=20,
        draws=300,
        chains=4,
        seed=2,
        progress=False,
        mesh=bnn.device_mesh(1, 4),
    )
    exact = np.diag(closed_form(*regression)[1])
    assert (coefficients(posterior).reshape(-1, 3).var(0) / exact).mean() < 0.5


def flops(shards, regression):
    """Of one step on one device, of a network whose work is all in the rows."""
    model = bnn.models.mlp(hidden=(64,))
    kernel = SGLD(model, step_size=1e-6, batch_size=512, steps_per_draw=1)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2048, 8)).astype(np.float32)
    mesh = bnn.device_mesh(1, shards)
    place = jax.NamedSharding(mesh, jax.P("data"))
    x, y = (jax.device_put(a, place) for a in (x, x[:, 0]))
    state = kernel.init(jax.random.key(0), 0, None, (x, y), {})

    def draw(state, x, y):
        return jax.shard_map(
            lambda state, x, y: kernel.sample(state, (x, y), {}),
            mesh=mesh,
            in_specs=(jax.P(), jax.P(), jax.P()),
            out_specs=jax.P(),
            axis_names={"chain"},
            check_vma=False,
        )(state, x, y)

    compiled = jax.jit(draw).lower(state, x, y).compile()
    return compiled.cost_analysis()["flops"]


@pytest.mark.check
def test_work_per_device_falls_with_the_shards(regression):
    one, four = flops(1, regression), flops(4, regression)
    assert four < 0.35 * one


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 41}, "at most the 40 rows"),
        ({"sub_batches": 3}, "does not divide into 3 sub-batches"),
        ({"minibatches": "epochs"}, 'must be "random" or "epoch"'),
        ({"steps_per_draw": ()}, "is empty"),
        ({"preconditioner": RMSProp(mode="corrected")}, "cannot take the drift"),
        ({"gradient": SVRG(every=2), "temperature": Ramp(1.0, 5)}, "the gradient at an anchor"),
    ],
)
def test_settings_out_of_range(regression, settings, words):
    with pytest.raises(ValueError, match=words):
        kernel = SGHMC(LINEAR, **(SHORT | settings))
        bnn.sample(kernel, *regression, warmup=1, draws=1, progress=False)


def test_two_temperatures_are_refused(regression):
    cold = bnn.cold(LINEAR, 0.5)
    with pytest.raises(ValueError, match="two whole-posterior temperatures"):
        SGLD(cold, temperature=0.5, **SHORT)

    def hidden(x, y=None, *, batch_size=None):
        return cold(x, y, batch_size=batch_size)

    with pytest.raises(ValueError, match="two whole-posterior temperatures"):
        bnn.sample(
            SGLD(hidden, temperature=0.5, **SHORT), *regression, warmup=1, draws=1, progress=False
        )


@pytest.mark.parametrize("temperature", [0.5, Ramp(1.0, 5)])
def test_a_tempered_likelihood_and_a_temperature_are_refused(regression, temperature):
    likelihood = bnn.likelihoods.gaussian(0.5)
    model = bnn.models.linear(likelihood=likelihood, temperature=0.5)
    kernel = SGLD(model, temperature=temperature, **SHORT)
    with pytest.raises(ValueError, match="likelihood of the model is tempered, T = 0.5, and SGLD"):
        bnn.sample(kernel, *regression, warmup=1, draws=1, progress=False)
    # The kernel by itself, as NumPyro's `MCMC` calls it, refuses it too.
    kernel = SGLD(model, temperature=temperature, **SHORT)
    with pytest.raises(ValueError, match="`y` has a likelihood temperature"):
        MCMC(kernel, num_warmup=1, num_samples=1, progress_bar=False).run(
            jax.random.key(0), *regression
        )
    alone = bnn.sample(SGLD(model, **SHORT), *regression, warmup=1, draws=1, progress=False)
    assert alone.provenance["likelihood_temperature"] == 0.5


def test_a_foreign_temperature_is_recorded_where_it_ends(regression):
    kernel = SGLD(LINEAR, temperature=optax.linear_schedule(0.1, 1.0, 8), **SHORT)
    posterior = bnn.sample(kernel, *regression, warmup=3, draws=4, chains=1, progress=False)
    np.testing.assert_allclose(posterior.statistics["temperature"], 1.0)
    assert posterior.provenance["posterior_temperature"] == 1.0


def test_a_wrong_argument_is_told_with_the_name_of_the_kernel():
    with pytest.raises(TypeError, match="^SGLD has no argument `momentum_decay`. There are"):
        SGLD(LINEAR, momentum_decay=0.9, **SHORT)
    with pytest.raises(TypeError, match="^SGHMC has no argument `momentum`.*`momentum_decay`"):
        SGHMC(LINEAR, momentum=0.9, **SHORT)
    with pytest.raises(TypeError, match="^SGMCLMC has no argument `precondition`.*`precondit"):
        bnn.kernels.SGMCLMC(LINEAR, precondition=RMSProp(), **SHORT)
    with pytest.raises(TypeError, match="^SGLD needs `batch_size` and `step_size`.$"):
        SGLD(LINEAR)
    assert "batch_size" in inspect.signature(SGLD).parameters  # what an editor shows


def test_a_density_of_all_rows_is_refused(regression):
    def centred(x, y=None, *, batch_size=None):
        LINEAR(x - x.mean(0), y, batch_size=batch_size)

    with pytest.raises(ValueError, match="mixes the rows of its data"):
        bnn.sample(SGLD(centred, **SHORT), *regression, warmup=1, draws=1, progress=False)


def test_a_latent_for_each_row_is_refused(regression):
    def local(x, y=None, *, batch_size=None):
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            shift = numpyro.sample("shift", dist.Normal(0.0, 1.0))
            numpyro.sample("y", dist.Normal(shift, 1.0), obs=y)

    with pytest.raises(ValueError, match="have a value for each row"):
        bnn.sample(SGLD(local, **SHORT), *regression, warmup=1, draws=1, progress=False)
