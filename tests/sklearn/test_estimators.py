"""What the estimators predict, in which units, and what they refuse."""

from functools import partial

import joblib
import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import bayesnn_ppl as bnn
from bayesnn_ppl.core.identity import identity_key
from bayesnn_ppl.sklearn import methods

NOISE = 0.3
KNOWN_NOISE = bnn.bayesian_network(
    bnn.nn.MLP((), outputs=1), bnn.priors.normal(1.0), bnn.likelihoods.gaussian(NOISE)
)
# Without jitter eight leapfrogs are about one period of this posterior, and chains hardly mix.
HMC = partial(bnn.kernels.HMC, num_leapfrogs=8, jitter=0.5)
MAP = bnn.approximations.MAP(epochs=200, learning_rate=0.05)
FEW = {"warmup": 100, "draws": 1000, "chains": 4}


def linear(**settings):
    return bnn.sklearn.BayesianRegressor(KNOWN_NOISE, random_state=0, **settings)


def logistic(**settings):
    settings = {"method": MAP, "random_state": 0} | settings
    return bnn.sklearn.BayesianClassifier(bnn.models.logistic, **settings)


def perceptron(**settings):
    settings = {"hidden": 3, "method": MAP, "random_state": 0} | settings
    return bnn.sklearn.BayesianMLPRegressor(**settings)


@pytest.fixture(scope="module")
def rows(regression):
    """The shared rows in units in which nothing has mean 0 or standard deviation 1."""
    x, y = regression
    return 20 + 5 * x.astype(float), 1000 + 50 * y.astype(float)


@pytest.fixture(scope="module")
def sampled(rows):
    return linear(method=HMC, **FEW).fit(*rows)


def exact(x, y, new):
    """Mean and standard deviation of the predictive of `KNOWN_NOISE`, in closed form."""
    moments = x.mean(axis=0), x.std(axis=0)
    a, b = (np.column_stack([(z - moments[0]) / moments[1], np.ones(len(z))]) for z in (x, new))
    covariance = np.linalg.inv(np.eye(a.shape[1]) + a.T @ a / NOISE**2)
    weights = covariance @ a.T @ ((y - y.mean()) / y.std()) / NOISE**2
    std = np.sqrt(NOISE**2 + np.einsum("ij,jk,ik->i", b, covariance, b))
    return y.mean() + y.std() * b @ weights, y.std() * std


def test_mean_and_standard_deviation_are_the_exact_ones_in_the_units_of_y(rows, sampled):
    new = rows[0][:7] + 2.0
    mean, std = sampled.predict(new, return_std=True)
    exact_mean, exact_std = exact(*rows, new)
    # Of standard deviations of 18 to 25, to which the unknown function contributes up to 18.
    np.testing.assert_allclose(mean, exact_mean, atol=0.6)
    np.testing.assert_allclose(std, exact_std, rtol=0.02)
    np.testing.assert_array_equal(sampled.predict(new), mean)


def test_an_interval_holds_its_probability(rows, sampled):
    new = rows[0][:7]
    interval = sampled.predict_interval(new, level=0.8)
    mean, std = exact(*rows, new)
    assert interval.shape == (7, 2)
    below, above = stats.norm(mean, std).cdf(interval.T)
    np.testing.assert_allclose(below, 0.1, atol=0.01)
    np.testing.assert_allclose(above, 0.9, atol=0.01)


@pytest.mark.parametrize(
    ("level", "error"), [(1.0, ValueError), (90, ValueError), ("a", TypeError)]
)
def test_a_level_that_is_not_a_probability_is_refused(rows, sampled, level, error):
    with pytest.raises(error, match="`level`"):
        sampled.predict_interval(rows[0], level=level)


def test_probabilities_are_in_the_order_of_the_sorted_labels(rows):
    x, y = rows
    labels = np.where(y > y.mean(), "above", "not above")
    found = logistic().fit(x, labels)
    assert found.classes_.tolist() == ["above", "not above"]
    assert found.score(x, labels) > 0.85
    assert set(found.predict(x)) == {"above", "not above"}
    probabilities = found.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    # The other order of the labels is the other order of the columns.
    other = logistic().fit(x, np.where(labels == "above", "z", "b"))
    np.testing.assert_allclose(other.predict_proba(x)[:, ::-1], probabilities, atol=0.02)


def test_the_perceptrons_are_the_models_that_they_are_said_to_be(rows):
    x, y = rows
    regressor = perceptron(hidden=[3, 2], activation="relu", prior=bnn.priors.normal(0.5))
    model = bnn.models.mlp(hidden=(3, 2), activation="relu", prior=bnn.priors.normal(0.5))
    assert identity_key(regressor.fit(x, y).posterior_.model) == identity_key(model)
    classifier = bnn.sklearn.BayesianMLPClassifier(
        np.int64(3), likelihood=bnn.likelihoods.ordinal, method=MAP, random_state=0
    )
    classifier.fit(x, np.digitize(y, [970, 1030]))
    assert classifier.posterior_.model.likelihood == bnn.likelihoods.ordinal(3)


def test_counts_keep_their_units(rows):
    x, _ = rows
    counts = np.random.default_rng(0).poisson(9.0, size=len(x))
    settings = {"hidden": 3, "likelihood": bnn.likelihoods.poisson(), "method": MAP}
    found = bnn.sklearn.BayesianMLPRegressor(**settings, standardise="inputs").fit(x, counts)
    assert abs(found.predict(x).mean() - 9) < 1
    with pytest.raises(ValueError, match="cannot come from the model's Poisson"):
        bnn.sklearn.BayesianMLPRegressor(**settings).fit(x, counts)


def test_a_row_is_predicted_alike_in_any_company_and_nothing_more_is_compiled(
    rows, sampled, compilations
):
    x = rows[0]
    whole = sampled.predict(x, return_std=True)
    begun = compilations()
    for few in (x[:3], x[:1], x[::2]):
        sampled.predict(few, return_std=True)
    assert compilations() == begun
    np.testing.assert_array_equal(sampled.predict(x[5:9], return_std=True), np.array(whole)[:, 5:9])


def test_many_rows_are_predicted_as_few(rows, sampled):
    many = np.tile(rows[0], (30, 1))  # 1 200, which are filled up to 2 048
    np.testing.assert_allclose(sampled.predict(many)[-40:], sampled.predict(rows[0]), rtol=1e-6)


def test_equal_estimators_share_a_compiled_program(rows, sampled, compilations):
    begun = compilations()
    again = clone(sampled).fit(rows[0], rows[1][::-1])
    assert compilations() == begun
    assert not np.allclose(again.predict(rows[0]), sampled.predict(rows[0]))


def test_the_random_state_decides_the_draws(rows):
    one, same, other = (perceptron(random_state=s).fit(*rows).predict(rows[0]) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_rows_far_outside_are_told_by_their_number(rows, sampled):
    with pytest.warns(UserWarning, match="^3 of 3 rows of `x` lie far outside"):
        sampled.predict(100 * rows[0][:3])


def test_a_verdict_that_fails_is_a_warning_and_one_that_passes_is_none(rows):
    """The fits of the other tests do not warn: a warning is an error there."""
    walk = linear(method=partial(bnn.kernels.RandomWalk, step_size=1e-4), warmup=0, draws=20)
    with pytest.warns(ConvergenceWarning, match="are not converged.*`diagnosis_` has the details"):
        walk.fit(*rows)
    assert walk.diagnosis_.status == "not converged"


def test_sample_weights_are_refused(rows):
    with pytest.raises(TypeError, match="sample_weight"):
        linear(method=MAP).fit(*rows, sample_weight=np.ones(40))


class TestMethods:
    def kernel(self, rows, **settings):
        """The provenance of a run that is too short to be judged."""
        settings = {"warmup": 2, "draws": 2, "chains": 2} | settings
        with pytest.warns(ConvergenceWarning):
            return linear(**settings).fit(*rows).posterior_.provenance

    def test_settings_reach_the_kernel(self, rows):
        run = self.kernel(rows, method=HMC, warmup=3, draws=4, init="network")
        assert (run["warmup"], run["draws"], run["chains"]) == (3, 4, 2)
        assert (run["kernel"], run["start"]) == ("HMC", "network")

    def test_time_that_is_up_ends_a_run(self, rows):
        slow = partial(bnn.kernels.HMC, num_leapfrogs=2000)
        self.kernel(rows, method=slow)  # compiles, which would count
        run = self.kernel(rows, method=slow, draws=10**7, max_time=2.0)
        assert run["ended"]["by"] == "max_time"
        assert run["draws"] < 10**7

    def test_time_that_is_up_in_the_warm_up_is_an_error(self, rows):
        with pytest.raises(
            RuntimeError, match="`max_time` of 0.001 was over before the first draw"
        ):
            linear(method=HMC, warmup=10**7, draws=2, max_time=0.001).fit(*rows)

    def test_mile(self, rows):
        ensemble = bnn.approximations.Ensemble(epochs=2)
        mile = partial(bnn.mile, warmup_steps=20, steps_per_draw=2, ensemble=ensemble)
        run = self.kernel(rows, method=mile, warmup=None, draws=3)
        assert (run["kernel"], run["warmup"], run["draws"]) == ("MCLMC", 10, 3)

    @pytest.mark.parametrize(
        ("settings", "error", "sentence"),
        [
            ({"method": MAP, "draws": 9}, ValueError, "`draws` cannot be given for MAP"),
            ({"method": MAP, "max_time": 9}, ValueError, "`max_time` cannot be given for MAP"),
            ({"method": bnn.mile, "warmup": 9}, ValueError, "partial.bnn.mile, warmup_steps="),
            ({"method": HMC(KNOWN_NOISE)}, TypeError, "that has a model already"),
            ({"method": bnn.approximations.MAP(KNOWN_NOISE)}, ValueError, "Leave its model out"),
            ({"method": "HMC"}, TypeError, "`method` is None, a class such as"),
            ({"method": repr}, TypeError, "is a str, but must be a kernel or an approximation"),
            ({"method": HMC, "max_time": "soon"}, ValueError, "which is not a time"),
            ({"method": HMC, "chains": 0}, ValueError, "`chains` must be at least 1"),
            ({"standardise": "targets"}, ValueError, "`standardise` must be True"),
        ],
    )
    def test_what_cannot_be_is_refused(self, rows, compilations, settings, error, sentence):
        begun = compilations()
        with pytest.raises(error, match=sentence):
            linear(**settings).fit(*rows)
        assert compilations() == begun


@pytest.mark.parametrize(
    ("estimator", "y", "error", "sentence"),
    [
        (perceptron(), np.ones(40), ValueError, "is constant"),
        (perceptron(hidden=0), None, ValueError, "A width in `hidden` must be at least 1"),
        (perceptron(hidden="ten"), None, TypeError, "A width in `hidden` must be an integer"),
        (perceptron(likelihood="normal"), None, TypeError, "must come from"),
        (linear(), np.ones((40, 2)), ValueError, "1d array"),
        (logistic(), np.full(40, "a"), ValueError, "`y` has one class, a,"),
        (logistic(), np.linspace(0, 1, 40), ValueError, "Unknown label type"),
        (
            bnn.sklearn.BayesianMLPClassifier(likelihood=bnn.likelihoods.categorical(2)),
            np.arange(40) % 2,
            TypeError,
            "must be a function of the number of classes",
        ),
        (
            bnn.sklearn.BayesianClassifier(bnn.models.logistic(classes=3)),
            np.arange(40) % 2,
            ValueError,
            "3 classes, but the labels .2. never occur",
        ),
        (
            bnn.sklearn.BayesianClassifier(KNOWN_NOISE),
            np.arange(40) % 2,
            ValueError,
            "labels of a classification",
        ),
    ],
)
def test_data_and_models_that_do_not_fit_are_refused(
    rows, compilations, estimator, y, error, sentence
):
    begun = compilations()
    with pytest.raises(error, match=sentence):
        estimator.fit(rows[0], rows[1] if y is None else y)
    assert compilations() == begun


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_grid_search_in_a_pipeline_of_columns(rows):
    """With a category that one fold lacks, whose column is constant there."""
    x, y = rows
    table = pandas.DataFrame(x, columns=["length", "width"])
    table["kind"] = ["rare"] * 2 + ["a", "b"] * 19
    kinds = OneHotEncoder(categories=[["a", "b", "rare"]], sparse_output=False)
    columns = ColumnTransformer([("kind", kinds, ["kind"])], remainder="passthrough")
    pipeline = make_pipeline(columns, perceptron())
    grid = {
        "bayesianmlpregressor__prior": [bnn.priors.normal(1e-3), bnn.priors.fan_in_normal()],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(table, y)
    # A network whose weights are nearly 0 predicts the mean.
    assert search.best_params_["bayesianmlpregressor__prior"] == bnn.priors.fan_in_normal()
    assert search.best_score_ > 0.6
    assert search.cv_results_["mean_test_score"][0] < 0.1
    assert search.best_estimator_[-1].n_features_in_ == 5


@pytest.mark.check
def test_processes_of_joblib_give_the_same_scores(rows):
    alone, shared = (cross_val_score(perceptron(), *rows, cv=2, n_jobs=n) for n in (1, 2))
    np.testing.assert_allclose(shared, alone, rtol=1e-4)


def test_a_fitted_estimator_survives_a_file(rows, sampled, tmp_path):
    joblib.dump(sampled, tmp_path / "estimator.joblib")
    loaded = joblib.load(tmp_path / "estimator.joblib")
    np.testing.assert_array_equal(loaded.predict(rows[0]), sampled.predict(rows[0]))
    assert loaded.diagnosis_.status == sampled.diagnosis_.status


def test_the_default_depends_on_the_number_of_rows(rows, monkeypatch):
    settings = {"warmup": 2, "draws": 2, "chains": 2}
    few = TestMethods().kernel(rows, **settings)
    monkeypatch.setattr(methods, "MOST_ROWS_FOR_CHEES", 39)
    many = TestMethods().kernel(rows, **settings)
    assert (few["kernel"], many["kernel"]) == ("ChEES", "MCLMC")
