"""What the runner promises besides right answers: reuse, copies, starts, interruption, kernels."""

import _thread
import signal
import threading
import time

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import AIES, HMC, MCMC, NUTS, init_to_median, init_to_value

import bayesnn_ppl as bnn
from bayesnn_ppl import storage
from bayesnn_ppl.diagnostics import rhat
from bayesnn_ppl.inference.runtime.program_cache import compiling

SHORT = dict(chains=2, seed=0, progress=False)


def linear():
    return bnn.models.linear(likelihood=bnn.likelihoods.gaussian())


def equal(a, b):
    return all(np.array_equal(a.draws[name], b.draws[name]) for name in a.draws)


def test_an_equal_run_compiles_nothing(regression, compilations):
    kernel = NUTS(linear(), max_tree_depth=5)
    first = bnn.sample(kernel, *regression, warmup=30, draws=20, **SHORT)
    assert first.provenance["seconds"]["compile"] > 0
    before = compilations()
    again = bnn.sample(kernel, *regression, warmup=30, draws=20, **SHORT)
    fresh = bnn.sample(NUTS(linear(), max_tree_depth=5), *regression, warmup=30, draws=20, **SHORT)
    # Neither the number of draws, nor thinning, seed or values of the data are compiled in.
    x, y = regression
    bnn.sample(kernel, x, y + 1, warmup=30, draws=7, thinning=3, **(SHORT | {"seed": 5}))
    assert compilations() == before
    assert fresh.provenance["seconds"]["compile"] == 0
    assert equal(first, again) and equal(first, fresh)
    # The negative control: another warm-up length is another program.
    bnn.sample(kernel, *regression, warmup=31, draws=20, **SHORT)
    assert compilations() > before


def test_a_kernel_keeps_nothing_of_an_earlier_run(regression):
    """NumPyro keeps the warm-up length in the kernel: 20 and then 150 would adapt as if 20."""
    kernel = NUTS(linear(), max_tree_depth=5)
    bnn.sample(kernel, *regression, warmup=20, draws=5, **SHORT)
    reused = bnn.sample(kernel, *regression, warmup=150, draws=20, **SHORT)
    fresh = bnn.sample(NUTS(linear(), max_tree_depth=5), *regression, warmup=150, draws=20, **SHORT)
    assert equal(reused, fresh)
    sizes = reused.statistics["step_size"]
    assert (sizes == sizes[:, :1]).all(), "the step size must be fixed after warm-up"


def test_thinning_keeps_every_kth_draw(regression):
    kernel = NUTS(linear(), max_tree_depth=5)
    every = bnn.sample(kernel, *regression, warmup=30, draws=20, **SHORT)
    third = bnn.sample(kernel, *regression, warmup=30, draws=6, thinning=3, **SHORT)
    for name, values in third.draws.items():
        np.testing.assert_array_equal(values, every.draws[name][:, 2:18:3])


def test_a_chain_does_not_depend_on_how_many_there_are(regression):
    kernel = NUTS(linear(), max_tree_depth=5)
    settings = dict(warmup=30, draws=5, seed=0, progress=False)
    two = bnn.sample(kernel, *regression, chains=2, mesh=bnn.device_mesh(2), **settings)
    four = bnn.sample(kernel, *regression, chains=4, mesh=bnn.device_mesh(4), **settings)
    for name in two.draws:
        np.testing.assert_allclose(two.draws[name], four.draws[name][:2], rtol=1e-4)


def far_start(x, y=None, *, batch_size=None):
    """Nearly flat: one transition hardly moves, so that the first draw shows the start."""
    a = numpyro.sample("net/a", dist.Normal(10.0, 1.0))
    b = numpyro.sample("b", dist.HalfNormal(1.0).expand([2]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(0 * a + 0 * b.sum(), 1.0), obs=y)


def first_draws(regression, init, chains=3, **settings):
    kernel = HMC(
        far_start,
        step_size=1e-6,
        num_steps=1,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
        **settings,
    )
    posterior = bnn.sample(
        kernel,
        *regression,
        warmup=0,
        draws=1,
        chains=chains,
        init=init,
        progress=False,
        chain_method="vectorized",
    )
    return {name: values[:, 0] for name, values in posterior.draws.items()}


def test_chains_start_at_draws_from_the_prior(regression):
    start = first_draws(regression, None, chains=40)["net.a"]
    assert abs(start.mean() - 10) < 1 and 0.6 < start.std() < 1.5


def test_chains_start_where_they_are_told_to(regression):
    start = first_draws(regression, {"net.a": 3.0, "b": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    np.testing.assert_allclose(start["net.a"], [3.0, 3.0, 3.0], atol=1e-4)
    np.testing.assert_allclose(start["b"], [[1, 2], [3, 4], [5, 6]], rtol=1e-4)
    start = first_draws(regression, {"net/a": [1.0, 2.0, 3.0]})
    np.testing.assert_allclose(start["net.a"], [1.0, 2.0, 3.0], atol=1e-4)
    assert (start["b"] > 0).all() and len(np.unique(start["b"])) == 6  # the rest: the prior
    for strategy in (
        init_to_median(num_samples=2000),
        lambda site: init_to_median(site, num_samples=2000),
    ):
        start = first_draws(regression, strategy)
        np.testing.assert_allclose(start["net.a"], 10.0, atol=0.2)
    np.testing.assert_allclose(first_draws(regression, init_to_median)["net.a"], 10.0, atol=2.0)
    start = first_draws(regression, {"net.a": 3, "b": [1, 2]})  # integers
    np.testing.assert_allclose(start["net.a"], 3.0, atol=1e-4)


def test_chains_start_at_the_last_draws_of_a_posterior(regression):
    def run(chains, **how):
        how = {"chains": chains, "progress": False, "chain_method": "vectorized"} | how
        return bnn.sample(NUTS(far_start, max_tree_depth=3), *regression, warmup=5, draws=3, **how)

    earlier = run(3)
    start = first_draws(regression, earlier)
    for name, draws in earlier.draws.items():
        np.testing.assert_allclose(start[name], draws[:, -1], rtol=1e-3)
        assert not np.allclose(draws[:, 0], draws[:, -1], rtol=1e-6)
    one = run(1)
    start = first_draws(regression, one)
    np.testing.assert_allclose(start["net.a"], np.repeat(one.draws["net.a"][:, -1], 3), rtol=1e-3)
    with pytest.raises(ValueError, match="has 2 chains, and 3 chains begin at a draw"):
        first_draws(regression, run(2))
    with pytest.raises(ValueError, match="has no weights"):
        first_draws(regression, run(3, keep=bnn.Keep("none", probe=regression[0])))
    other = bnn.sample(NUTS(linear()), *regression, warmup=1, draws=1, **SHORT | {"chains": 3})
    with pytest.raises(ValueError, match="Give a run of the same network"):
        first_draws(regression, other)


def test_the_kernels_own_strategy_counts(regression):
    own = init_to_value(values={"net/a": -77.0})
    start = first_draws(regression, None, init_strategy=own)
    np.testing.assert_allclose(start["net.a"], -77.0, atol=1e-3)


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ({"net.c": 0.0}, "`net.c`, which is not a latent site .* Did you mean `net.a`"),
        ({"b": [1.0, 2.0, 3.0, 4.0]}, r"shape \(4,\) for `b`; it must be \(2,\)"),
        ({"b": [float("nan"), 1.0]}, "not finite"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(regression, init, sentence):
    with pytest.raises(ValueError, match=sentence):
        first_draws(regression, init)


def test_no_finite_start_is_explained(regression):
    def nowhere(x, y=None, *, batch_size=None):
        a = numpyro.sample("a", dist.Normal(0, 1))
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", dist.Normal(a, 0.0 * a), obs=y)

    with pytest.raises(RuntimeError, match=r"No finite starting point .* at the sites \['y'\]"):
        bnn.sample(NUTS(nowhere), *regression, warmup=1, draws=1, **SHORT)


def test_ctrl_c_keeps_what_was_drawn(regression):
    def interrupt(progress):
        if progress.phase == "sample" and progress.done >= 3:
            _thread.interrupt_main()
            time.sleep(0.05)

    posterior = bnn.sample(
        NUTS(linear(), max_tree_depth=5),
        *regression,
        warmup=30,
        draws=100_000,
        callback=interrupt,
        **SHORT,
    )
    made = posterior.provenance["draws"]
    assert posterior.provenance["interrupted"]
    assert 3 <= made < 100_000
    assert posterior.draws["noise_scale"].shape == (2, made)
    assert (posterior.draws["noise_scale"] > 0).all()  # no row that was never written


def interrupt(progress):
    if progress.done >= 3:
        _thread.interrupt_main()
        time.sleep(0.05)


IN_WARMUP = dict(warmup=100_000, draws=20, callback=interrupt, **SHORT)


def test_ctrl_c_in_warmup_says_what_is_kept(regression, tmp_path):
    kernel = NUTS(linear(), max_tree_depth=5)
    with pytest.raises(KeyboardInterrupt, match="so nothing is kept. A run with `out=` keeps"):
        bnn.sample(kernel, *regression, **IN_WARMUP)
    with pytest.raises(KeyboardInterrupt) as caught:
        bnn.sample(kernel, *regression, out=tmp_path / "run", **IN_WARMUP)
    done = storage.read_commit(tmp_path / "run")["done"]
    assert done >= 3
    assert str(caught.value) == (
        f"Interrupted. {done} of 100000 warm-up draws per chain are kept in {tmp_path / 'run'}, "
        "and `resume` continues from there."
    )


def test_ctrl_c_is_heard_while_xla_compiles():
    class Lowered:
        def compile(self, compiler_options):
            _thread.interrupt_main()
            ended.wait(60)

    ended = threading.Event()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compiling(Lowered(), float64=False).result()
    assert time.monotonic() - began < 30
    ended.set()


def test_ctrl_c_is_heard_where_its_exception_is_swallowed(regression):
    """As JAX does in its callback of the garbage collector, while a program is traced."""

    def swallowing(x, y=None, *, batch_size=None):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
        return linear()(x, y, batch_size=batch_size)

    with pytest.raises(KeyboardInterrupt, match="nothing is kept"):
        bnn.sample(NUTS(swallowing), *regression, warmup=1, draws=1, **SHORT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_callback_sees_every_draw_and_may_end_the_run(regression):
    seen = []

    def watch(progress):
        seen.append(progress)
        return progress.phase == "sample" and progress.done >= 5

    posterior = bnn.sample(
        NUTS(linear(), max_tree_depth=5),
        *regression,
        warmup=30,
        draws=5_000_000,
        callback=watch,
        **SHORT,
    )
    phases = [p.phase for p in seen]
    assert phases == sorted(phases, reverse=True), "warm-up comes before sampling"
    assert sum(p.draws["noise_scale"].shape[1] for p in seen if p.phase == "warmup") == 30
    drawn = np.concatenate([p.draws["noise_scale"] for p in seen if p.phase == "sample"], axis=1)
    np.testing.assert_array_equal(drawn, posterior.draws["noise_scale"])
    assert not posterior.provenance["interrupted"]


def test_a_callback_that_ends_the_warm_up_leaves_nothing_to_return(regression):
    with pytest.raises(RuntimeError, match=r"in its warm-up, after \d+ of 30 draws"):
        bnn.sample(
            NUTS(linear(), max_tree_depth=5),
            *regression,
            warmup=30,
            draws=20,
            callback=lambda progress: np.True_,
            **SHORT,
        )


def test_a_failing_callback_does_not_cost_the_draws(regression, capfd):
    def fail(progress):
        raise ZeroDivisionError("my metric")

    posterior = bnn.sample(
        NUTS(linear(), max_tree_depth=5),
        *regression,
        warmup=30,
        draws=20,
        callback=fail,
        **(SHORT | {"progress": True}),
    )
    assert posterior.draws["noise_scale"].shape == (2, 20)
    printed = capfd.readouterr().err
    assert printed.count("The callback failed") == 1 and "my metric" in printed


def test_progress_is_shown_as_lines_where_there_is_no_terminal(regression, capfd):
    bnn.sample(
        NUTS(linear(), max_tree_depth=5),
        *regression,
        warmup=30,
        draws=20,
        **(SHORT | {"progress": True}),
    )
    printed = capfd.readouterr().err
    assert "30/30 × 2 chains" in printed and "20/20 × 2 chains" in printed
    assert "divergences" in printed and "acceptance" in printed


@pytest.mark.check
def test_an_ensemble_kernel_runs_on_a_mesh(regression):
    """Its chains learn from one another wherever they are, and agree."""
    posterior = bnn.sample(
        AIES(linear(), moves={AIES.StretchMove(): 0.5, AIES.DEMove(): 0.5}),
        *regression,
        warmup=500,
        draws=500,
        chains=16,
        mesh=bnn.device_mesh(2, 2),
        thinning=4,
        progress=False,
    )
    assert posterior.statistics["acceptance_rate"].shape == (16, 500)
    for values in posterior.draws.values():
        assert values.shape[:2] == (16, 500) and np.max(rhat(values)) < 1.05


def test_numpyro_mcmc_runs_our_models(regression):
    mcmc = MCMC(
        NUTS(linear(), max_tree_depth=5),
        num_warmup=100,
        num_samples=200,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *regression)
    samples = mcmc.get_samples(group_by_chain=True)
    assert samples["net/Dense_0.kernel"].shape == (2, 200, 2, 1)
    assert np.max(rhat(np.asarray(samples["net/Dense_0.kernel"]))) < 1.1


def test_provenance_says_what_was_done(regression):
    posterior = bnn.sample(
        NUTS(
            bnn.cold(bnn.models.linear(likelihood=bnn.likelihoods.gaussian(0.5)), 0.5),
            max_tree_depth=5,
        ),
        *regression,
        warmup=10,
        draws=5,
        **(SHORT | {"seed": 7}),
    )
    run = posterior.provenance
    assert run["seed"] == 7 and run["prng"] == "threefry2x32" and run["precision"] == "float32"
    assert run["posterior_temperature"] == 0.5 and run["likelihood_temperature"] == 1.0
    assert run["kernel"] == "NUTS" and run["kernel_settings"]["max_tree_depth"] == 5
    assert run["model"] == (
        "ColdModel(model=BayesianNetwork(network=MLP(hidden=(), outputs=1, activation='tanh'), "
        "prior=Normal(scale=1.0), likelihood=Gaussian(scale=0.5, outputs=1), temperature=1.0, "
        "name='net'), temperature=0.5)"
    )
    assert run["devices"]["platform"] == "cpu" and run["devices"]["mesh"]["chain"] == 2
    assert set(run["seconds"]) == {"compile", "start", "warmup", "sample", "total"}
    assert {"numpyro", "jax", "python", "bayesnn_ppl"} <= set(run["versions"])
