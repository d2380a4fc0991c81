"""The plane through three draws: its coordinates, and its densities against exact ones."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import NUTS
from numpyro.infer.util import potential_energy
from scipy import stats

import bayesnn_ppl as bnn
from bayesnn_ppl.diagnostics import plane_basis, posterior_segment, posterior_surface
from bayesnn_ppl.diagnostics.potential_energy import surface

T_LIKELIHOOD, T_WHOLE, SCALE = 0.5, 0.25, 2.0


def line(x, y=None, *, batch_size=None):
    """A plane through the origin with a noise of its own: one constrained site."""
    slope = numpyro.sample("slope", dist.Normal(0, SCALE).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        numpyro.sample("y", dist.Normal(x @ slope, noise), obs=y)


def tempered_line(x, y=None, *, batch_size=None):
    slope = numpyro.sample("slope", dist.Normal(0, SCALE).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        x, y = bnn.minibatch(x, y)
        with bnn.tempered(T_LIKELIHOOD):
            numpyro.sample("y", dist.Normal(x @ slope, noise), obs=y)


DRAWS = {
    "slope": np.array([[[1.0, 0.4], [0.3, 0.9], [0.1, 0.2]]]),
    "noise": np.array([[0.5, 0.9, 0.3]]),
}


@pytest.fixture(scope="module")
def data(regression):
    return regression[0].astype(np.float64), regression[1].astype(np.float64)


@pytest.fixture(scope="module", params=["plain", "tempered", "cold"])
def posterior(request, data):
    """Three draws that nobody sampled, of a model at one of its temperatures."""
    model = {
        "plain": line,
        "tempered": tempered_line,
        "cold": bnn.cold(line, T_WHOLE),
    }[request.param]
    return bnn.Posterior.from_arrays(
        DRAWS,
        {},
        {
            "latents": ["noise", "slope"],
            "precision": "float64",
            "likelihood_temperature": T_LIKELIHOOD if request.param == "tempered" else 1.0,
            "posterior_temperature": T_WHOLE if request.param == "cold" else 1.0,
        },
        model=model,
    )


def test_gram_schmidt():
    points = np.random.default_rng(0).normal(size=(3, 7))
    basis, coordinates = plane_basis(points)
    assert basis[0] @ basis[1] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(points[0] + coordinates @ basis, points, atol=1e-12)
    np.testing.assert_allclose(coordinates[:2], [(0, 0), (1, 0)])
    assert coordinates[2, 1] == 1
    # Not projected, the third point would stand at (0, 1), elsewhere in the plane.
    assert np.abs(points[0] + np.array([0, 1]) @ basis - points[2]).max() > 0.1


def test_points_without_a_plane_are_refused():
    along = np.outer([0.0, 1.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="lie on one line"):
        plane_basis(along)
    with pytest.raises(ValueError, match="same point"):
        plane_basis(along[[0, 0, 1]])
    with pytest.raises(ValueError, match="three points"):
        plane_basis(along[:2])


def exact(slope, noise, data):
    """Log likelihood and prior by SciPy; the prior is that of (slope, log noise)."""
    x, y = data
    likelihood = stats.norm.logpdf(y, x @ slope, noise).sum()
    prior = stats.norm.logpdf(slope, 0, SCALE).sum() + stats.halfnorm.logpdf(noise)
    return likelihood, prior, np.log(noise)


@pytest.mark.parametrize("rows", [4096, 7])
def test_densities_in_the_plane_are_exact(posterior, data, rows, monkeypatch):
    monkeypatch.setattr(surface, "_ROWS_AT_ONCE", rows)
    found = posterior_surface(posterior, *data, grid=3, limits=((-0.5, 1.0), (0.0, 1.0)))
    # Coordinates are those of (log noise, slope), in the order of the sites' names.
    points = np.concatenate([np.log(DRAWS["noise"][0])[:, None], DRAWS["slope"][0]], axis=1)
    basis, coordinates = plane_basis(points)
    np.testing.assert_allclose(found.coordinates, coordinates, atol=1e-10)
    np.testing.assert_allclose(found.lengths, np.linalg.norm(basis, axis=1))
    run = posterior.provenance
    whole, tempering = run["posterior_temperature"], run["likelihood_temperature"]
    for row, second in enumerate(found.second):
        for column, first in enumerate(found.first):
            place = points[0] + first * basis[0] + second * basis[1]
            likelihood, prior, jacobian = exact(place[1:], np.exp(place[0]), data)
            at = (row, column)
            assert found.log_likelihood[at] == pytest.approx(likelihood, rel=1e-9)
            assert found.log_prior[at] == pytest.approx(prior + jacobian, rel=1e-9)
            expected = (likelihood / tempering + prior) / whole + jacobian
            assert found.log_posterior[at] == pytest.approx(expected, rel=1e-9)
            if whole * tempering != 1:  # an untempered posterior, or a tempered Jacobian, is wrong
                for wrong in (
                    likelihood + prior + jacobian,
                    (likelihood / tempering + prior) / whole**2 / tempering + jacobian,
                ):
                    assert abs(wrong - expected) > 1e-3


def test_the_line_is_an_edge_of_the_plane(posterior, data):
    draws = [(0, 0), (0, 1)]
    line = posterior_segment(posterior, *data, draws=draws, limits=(-0.5, 1.0), grid=3)
    plane = posterior_surface(posterior, *data, grid=3, limits=((-0.5, 1.0), (0.0, 1.0)))
    for name in ("log_likelihood", "log_prior", "log_posterior"):
        np.testing.assert_allclose(getattr(line, name), getattr(plane, name)[0], rtol=1e-9)
    np.testing.assert_allclose(line.position, plane.first)
    assert line.length == pytest.approx(plane.lengths[0])


def test_of_a_run_it_is_the_density_that_was_sampled(data):
    x, y = (a.astype(np.float32) for a in data)
    run = bnn.sample(NUTS(line), x, y, warmup=10, draws=4, chains=1, seed=0, progress=False)
    found = posterior_segment(run, x, y, grid=2, limits=(0.0, 1.0))
    draws = [{name: jnp.asarray(a[0, i]) for name, a in run.draws.items()} for i in (0, -1)]
    z = [{"slope": d["slope"], "noise": jnp.log(d["noise"])} for d in draws]
    energies = [-float(potential_energy(line, (x, y), {}, one)) for one in z]
    np.testing.assert_allclose(found.log_posterior, energies, rtol=1e-5)
    with pytest.raises(ValueError, match="not the data of the run"):
        posterior_segment(run, x[:-1], y[:-1])


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"draws": [(0, 0), (0, 1)]}, ValueError, r"3 pairs \(chain, draw\)"),
        ({"draws": [(0, 0), (0, 1), (1, 0)]}, ValueError, "chain of `draws` must be below 1"),
        ({"draws": [(0, 0), (0, 1), (0, 3)]}, ValueError, "draw of `draws` must be below 3"),
        ({"draws": [(0, 0), (0, 1), (0, 1)]}, ValueError, "lie on one line"),
        ({"grid": 1}, ValueError, "at least 2"),
        ({"limits": ((1.0, 0.0), (0.0, 1.0))}, ValueError, "must rise"),
    ],
)
def test_bad_arguments_are_refused(posterior, data, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        posterior_surface(posterior, *data, **options)
