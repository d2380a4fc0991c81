"""Streamed runs: the rows of the plan, all N of them, in bounded memory, bit-for-bit identical."""

import threading

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS

import bayesnn_ppl as bnn
from bayesnn_ppl.data import stream
from bayesnn_ppl.data.streaming.row_order import RowOrder
from bayesnn_ppl.inference.kernels.stochastic_gradient.gradient_estimators import ControlVariate
from bayesnn_ppl.inference.kernels.stochastic_gradient.sgld import SGLD
from bayesnn_ppl.inference.sampling import streamed_plan

ROWS, BATCH, STEPS = 52, 8, 6
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5]) + np.random.default_rng(1).normal(size=ROWS)).astype(np.float32)


def linear(x, y=None, *, batch_size=None):
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def falling(step):
    return 2e-3 / (1 + 0.05 * step)


def kernel(minibatches="epoch", model=linear, **changes):
    """Without noise, so that NumPy can say where every step must arrive."""
    settings = dict(step_size=falling, noise=0.0, batch_size=BATCH, steps_per_draw=STEPS)
    return SGLD(model, minibatches=minibatches, **(settings | changes))


RUN = dict(warmup=3, draws=5, chains=2, thinning=2, seed=4, float64=True, progress=False)


def gradient_descent(starts, order, *, rows=ROWS, run=RUN):
    """Gradient descent on the minibatches of `order`, in NumPy: (chain, draw, 3)."""
    x, y = X.astype(float), Y.astype(float)
    found = []
    for chain, weights in enumerate(starts.astype(float)):
        kept = []
        transitions = run["warmup"] + run["draws"] * run["thinning"]
        for step, batch in enumerate(order.batches(chain, 0, transitions * STEPS)):
            residual = x[batch] @ weights - y[batch]
            gradient = rows / BATCH * x[batch].T @ residual + weights
            weights = weights - falling(step) * gradient
            done, left = divmod(step + 1 - run["warmup"] * STEPS, run["thinning"] * STEPS)
            if done > 0 and left == 0:
                kept.append(weights)
        found.append(kept)
    return np.array(found)


def in_small_blocks(monkeypatch, steps):
    """Blocks of so many minibatches, for 2 chains."""
    monkeypatch.setattr(
        streamed_plan, "_BLOCK_BYTES", streamed_plan._LEAST_ROW_BYTES * BATCH * 2 * steps
    )


MESHES = {"1x1": (1, 1), "2x2": (2, 2)}


@pytest.mark.parametrize(
    ("minibatches", "chunk", "block", "mesh"),
    [
        ("epoch", 1, 1000, "1x1"),  # all rows in one block
        ("random", 1, 3 * STEPS + 1, "1x1"),  # blocks of three transitions, that no draw ends with
        ("epoch", 7, 4, "1x1"),  # a draw in two pieces
        ("epoch", 1, 4, "2x2"),
    ],
)
def test_every_step_takes_its_rows_at_full_scale(monkeypatch, minibatches, chunk, block, mesh):
    in_small_blocks(monkeypatch, block)
    data = stream(X, Y, chunk=chunk, window=2)
    posterior = bnn.sample(kernel(minibatches), *data, mesh=bnn.device_mesh(*MESHES[mesh]), **RUN)
    order = RowOrder(ROWS, BATCH, RUN["seed"], minibatches == "epoch", chunk, 2)
    starts = posterior.tree["starts"]["w"].values
    expected = gradient_descent(starts, order)
    np.testing.assert_allclose(posterior.draws["w"], expected, rtol=1e-9)
    # The test sees a wrong N, and another order.
    other = RowOrder(ROWS, BATCH, 5, minibatches == "epoch", chunk, 2)
    for wrong in (
        gradient_descent(starts, order, rows=ROWS - 1),
        gradient_descent(starts, other),
    ):
        assert np.abs(posterior.draws["w"] - wrong).max() > 1e-4
    assert (posterior.statistics["n_steps"] == STEPS).all()
    assert posterior.provenance["rows"] == ROWS
    assert posterior.provenance["streamed"] == {"chunk": chunk, "window": 2}


def test_a_minibatch_of_all_rows_gives_the_draws_of_a_run_in_memory():
    """Noise included: it comes from the same keys, and only the order of the rows differs."""
    settings = dict(step_size=1e-3, noise=1.0, batch_size=ROWS)
    runs = [
        bnn.sample(kernel("epoch", **settings), *data, **RUN) for data in (stream(X, Y), (X, Y))
    ]
    np.testing.assert_allclose(runs[0].draws["w"], runs[1].draws["w"], rtol=1e-9)
    assert np.abs(np.diff(runs[0].draws["w"], axis=1)).min() > 0


@pytest.mark.parametrize("phase", ["warmup", "sample"])
def test_a_stopped_run_resumes_bit_for_bit(monkeypatch, tmp_path, phase):
    in_small_blocks(monkeypatch, 4)
    for name, array in {"x": X, "y": Y}.items():
        np.save(tmp_path / f"{name}.npy", array)
    noisy = kernel("epoch", noise=1.0)
    settings = RUN | {"float64": False}

    def data(**how):
        return stream(tmp_path / "x.npy", tmp_path / "y.npy", **how)

    whole = bnn.sample(noisy, *data(), **settings)

    def stop(progress):
        return progress.phase == phase and progress.done >= 2

    try:
        bnn.sample(noisy, *data(), out=tmp_path / "run", callback=stop, **settings)
    except RuntimeError:
        assert phase == "warmup"
    with pytest.raises(ValueError, match="made with other data"):
        bnn.resume(tmp_path / "run", noisy, *data(chunk=2), progress=False)
    run = bnn.resume(tmp_path / "run", noisy, *data(), progress=False)
    np.testing.assert_array_equal(run.draws["w"], whole.draws["w"])
    assert run.draws["w"].shape[1] == RUN["draws"]


def test_few_blocks_are_held_and_the_thread_ends(monkeypatch, compilations):
    in_small_blocks(monkeypatch, 4)
    shape = (2, 1, 3 * BATCH, 3)  # chains, transitions, rows, features
    held = []

    def look(progress):
        held.append(sum(a.shape == shape for a in jax.live_arrays()))
        assert any(t.name.startswith("bayesnn-rows") for t in threading.enumerate())

    settings = RUN | {"float64": False, "draws": 20}
    bnn.sample(kernel(), *stream(X, Y), callback=look, **settings)
    assert held and 1 <= max(held) <= 3
    assert not any(t.name.startswith("bayesnn-rows") for t in threading.enumerate())
    before = compilations()
    bnn.sample(kernel(), *stream(X, Y), **settings)
    assert compilations() == before, "an equal run compiles nothing"


def labels(x, y=None, *, batch_size=None):
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([3, 3]).to_event(2))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Categorical(logits=x @ weights), obs=y)


def test_labels_may_be_sorted_but_not_unknown(monkeypatch):
    in_small_blocks(monkeypatch, 4)
    sorted_labels = np.arange(ROWS) * 3 // ROWS  # the first rows show one class
    short = RUN | {"float64": False}
    probe = bnn.Keep(probe=(X[:4], sorted_labels[:4]))
    sampler = kernel(model=labels)
    run = bnn.sample(sampler, *stream(X, sorted_labels), keep=probe, **short)
    assert np.isfinite(run.draws["w"]).all()
    assert (
        run.recorded["probability"].shape[:2] == (2, RUN["draws"])
        if hasattr(run, "recorded")
        else True
    )
    wrong = sorted_labels.copy()
    wrong[40] = 3
    with pytest.raises(ValueError, match=r"Row 40 of the stream.*labels must be 0 … 2"):
        bnn.sample(sampler, *stream(X, wrong), **short)


def test_until_watches_rows_of_the_stream():
    run = bnn.sample(
        kernel(noise=1.0), *stream(X, Y), until={"function_rhat": 50.0, "ess": 1}, **RUN
    )
    assert run.provenance["keep"]["probe_rows"] == ROWS


def rowwise(x, y=None, *, batch_size=None):
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.deterministic("mean", x @ weights)
        numpyro.sample("y", dist.Normal(x @ weights, 1.0), obs=y)


def latent_rows(x, y=None, *, batch_size=None):
    weights = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        shift = numpyro.sample("shift", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(x @ weights + shift, 1.0), obs=y)


class Accepting(SGLD):
    accept_step = True


@pytest.mark.parametrize(
    ("sampler", "changes", "sentence"),
    [
        (lambda: NUTS(linear), {}, "NUTS needs the log density of all rows"),
        (
            lambda: Accepting(linear, step_size=1e-3, batch_size=8),
            {},
            "Accepting accepts or rejects by the log density of all rows",
        ),
        (lambda: kernel(gradient=ControlVariate()), {}, "needs gradients of all rows"),
        (lambda: kernel(batch_size=53), {}, "`batch_size` of SGLD is 53, and the stream has 52"),
        (lambda: kernel("random"), {"chunk": 2}, 'minibatches="epoch"'),
        (lambda: kernel(model=rowwise), {}, r"values for each row, at the sites \['mean'\]"),
        (lambda: kernel(model=latent_rows), {}, r"\['shift'\] have a value for each row"),
        (lambda: kernel(steps_per_draw=(2, 4)), {}, "Draws of unequal length"),
    ],
)
def test_what_needs_all_rows_is_refused_before_anything_is_compiled(
    sampler, changes, sentence, compilations
):
    data = stream(X, Y, **changes)
    made = sampler()
    before = compilations()
    with pytest.raises(ValueError, match=sentence):
        bnn.sample(made, *data, **RUN)
    assert compilations() == before


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (lambda: (stream(X, Y), Y), "Unpack the stream"),
        (lambda: (stream(X, Y).x, Y), "x and y of one stream"),
        (lambda: (stream(X, Y).x, stream(X, Y).y), "x and y of one stream"),
        (lambda: (stream(X, Y).y, stream(X, Y).x), "x and y of one stream"),
    ],
)
def test_columns_of_one_stream_go_together(columns, sentence):
    with pytest.raises(TypeError, match=sentence):
        bnn.sample(kernel(), *columns(), **RUN)
