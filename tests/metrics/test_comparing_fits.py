"""What the metrics of runs say of fits: `compare`, `loo`, `k_fold`, in Python and in a shell."""

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.approximations import MAP, Ensemble, Laplace

MODEL = bnn.models.linear()
FITS = {
    "map": MAP(MODEL, epochs=300),
    "laplace": Laplace(MODEL, mode=MAP(epochs=300), draws=50),
    "ensemble": Ensemble(MODEL, members=3, epochs=50),
}


@pytest.fixture(scope="module")
def split(regression):
    x, y = regression
    return (x[:20], y[:20]), (x[20:], y[20:])


@pytest.fixture(scope="module")
def fits(split, tmp_path_factory):
    """Three fits on disk, opened again."""
    folder = tmp_path_factory.mktemp("fits")
    return {
        name: bnn.fit(approximation, *split[0], progress=False, out=folder / name)
        for name, approximation in FITS.items()
    }


def test_fits_are_compared(fits, split):
    _, test = split
    table = bnn.metrics.compare(fits, *test, reference="laplace")
    assert set(table.lines) == set(fits)
    for name, line in table.lines.items():
        assert line["method"] == type(FITS[name]).__name__
        assert line["rmse"] == pytest.approx(bnn.metrics.evaluate(fits[name], *test)["rmse"])
        assert line["seconds"] > 0 and line["status"]
    assert table.lines["laplace"]["wasserstein"] == 0 < table.lines["map"]["wasserstein"]
    assert np.isfinite(table.lines["laplace"]["log_evidence"])
    assert table.lines["map"]["log_evidence"] is None


def test_leave_one_out_of_a_fit_is_refused_and_folds_serve(fits, split):
    """Weights 1/p(y|θ) of draws that are not of the posterior would be of nothing."""
    train, _ = split
    for name, posterior in fits.items():
        with pytest.raises(ValueError, match=rf"{type(FITS[name]).__name__}.*Use `k_fold`"):
            bnn.metrics.loo(posterior, *train)

        def fit(x, y, seed, name=name):
            return bnn.fit(FITS[name], x, y, seed=seed, progress=False)

        found = bnn.metrics.k_fold(fit, *train, folds=2)
        assert found.rows == 20 and np.isfinite(found.elpd)
