"""What results look like in a shell and in a notebook, and in which order layers are listed."""

import inspect
import re
from html.parser import HTMLParser

import numpy as np
import numpyro
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.data.common.target import Target
from bayesnn_ppl.posterior.recorded_prediction import RecordedPrediction

COLOURS = re.compile(r"color|background|#[0-9a-f]{3,6}\b|rgb", re.I)


class Cells(HTMLParser):
    """The texts of a fragment's cells; an element that is not closed is an error."""

    def __init__(self, fragment):
        super().__init__()
        self.cells, self._open = [], []
        self.feed(fragment)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.cells.append(data)


@pytest.fixture(scope="module")
def data(regression):
    x, y = regression
    return bnn.data.from_arrays(x, y, name="waves")


@pytest.fixture(scope="module")
def results(data):
    """Name -> what a first session returns."""
    model = bnn.models.linear()
    kernel = bnn.kernels.HMC(model, num_leapfrogs=3)
    posterior = bnn.sample(kernel, *data.train, warmup=20, draws=20, chains=2, progress=False)
    fitted = bnn.fit(bnn.approximations.MAP(model, epochs=2), *data.train, progress=False)
    prior = bnn.diagnostics.prior_predictive(model, data.train.x, draws=5)
    temperatures = posterior.temperatures(*data.train, gradients=8)
    return {
        "data": data,
        "split": data.train,
        "standardisation": data.standardisation,
        "stream": bnn.data.stream(*data.train),
        "model": model,
        "cold": bnn.cold(model, 0.5),
        "kernel": kernel,
        "approximation": bnn.approximations.Laplace(model, structure="diagonal"),
        "posterior": posterior,
        "fitted": fitted,
        "prediction": posterior.predict(data.test.x),
        "evaluation": bnn.metrics.evaluate(posterior, *data.test),
        "comparison": bnn.metrics.compare({"a": posterior, "b": fitted}, *data.test),
        "loo": bnn.metrics.loo(posterior, *data.train),
        "diagnosis": posterior.diagnose(data.test.x),
        "fit diagnosis": fitted.diagnose(data.test.x),
        "temperatures": temperatures,
        "reading": temperatures.arrays[0].configurational,
        "prior": prior,
        "priors": bnn.diagnostics.PriorComparison({"a": prior, "b": prior}),
        "reference": bnn.references.load(bnn.references.names()[0]),
        "page": bnn.report.page(posterior, *data.test, gradients=0),
    }


def test_a_result_is_one_short_line(results):
    for name, result in results.items():
        line = repr(result)
        assert len(line) <= 250 and "\n" not in line and " object at 0x" not in line, (name, line)


def test_a_result_is_a_small_table_in_a_notebook(results):
    for name, result in results.items():
        if name in ("model", "cold", "page"):
            continue
        fragment = result._repr_html_()
        assert len(fragment) < 6000 and len(Cells(fragment).cells) >= 2, name
        assert not COLOURS.search(fragment), f"{name}: a notebook is light or dark."


def test_the_figures_that_a_reader_wants_first(results):
    evaluation, loo = results["evaluation"], results["loo"]
    assert f"rows=4, rmse={evaluation['rmse']:.4g}" in repr(evaluation)
    assert f"elpd={loo.elpd:.4g}, standard_error={loo.standard_error:.4g}" in repr(loo)
    assert "mixing=" in repr(results["diagnosis"]) and "status=" in repr(results["diagnosis"])
    assert repr(results["split"]) == "Split(x=float32[36,2], y=float32[36])"
    assert repr(results["kernel"]) == "HMC(model=BayesianNetwork, num_leapfrogs=3)"
    assert repr(results["approximation"]) == "Laplace(model=BayesianNetwork, structure='diagonal')"
    # Whose class has a default of that private name.
    assert repr(bnn.approximations.MAP(learning_rate=0.05)) == "MAP(learning_rate=0.05)"
    assert f"nll=(a: {results['comparison'].lines['a']['nll']:.4g}, b: " in repr(
        results["comparison"]
    )
    shown = Cells(results["evaluation"]._repr_html_()).cells
    assert f"{evaluation['crps']:.4f}" in shown and evaluation.meaning("crps") in shown
    shown = Cells(results["posterior"]._repr_html_()).cells
    assert {"HMC", "net.Dense_0.kernel", "(2, 1)"} <= set(shown)
    assert "36 for training, 4 for tests" in Cells(results["data"]._repr_html_()).cells


def test_a_table_of_a_prediction_computes_nothing_and_shows_what_is_computed(results, data):
    prediction = results["posterior"].predict(data.test.x)
    shown = Cells(prediction._repr_html_()).cells
    assert "_moments" not in vars(prediction) and "asked for: `.mean`" in " ".join(shown)
    mean = prediction.mean
    assert f"{mean.min():.4g} to {mean.max():.4g}" in Cells(prediction._repr_html_()).cells
    kept = {"probability": np.array([[[0.9, 0.1], [0.2, 0.8]]]), "y": np.zeros((1, 2), int)}
    labels = RecordedPrediction(kept, None, class_names=["cat", "dog"])
    assert labels.probabilities.shape == (2, 2)
    assert "cat in 1, dog in 1" in Cells(labels._repr_html_()).cells


@pytest.mark.parametrize(
    "part",
    [
        bnn.likelihoods.gaussian(),
        bnn.likelihoods.student_t(),
        bnn.likelihoods.quantile(),
        bnn.priors.hierarchical(),
        bnn.bayesian_network(
            bnn.nn.MLP((5,), outputs=1), bnn.priors.hierarchical(), bnn.likelihoods.gaussian()
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_the_parts_of_a_model_name_their_distributions(part):
    assert "HalfNormal(scale=1.0)" in repr(part) and " at 0x" not in repr(part)


def test_a_page_shows_itself_and_prints_its_verdict(results):
    page = results["page"]
    assert repr(page).startswith(f"Page(run='{page.statuses['run']}'")
    fragment = page._repr_html_()
    frame = re.fullmatch(
        r'<iframe sandbox="allow-scripts" [^>]*srcdoc="([^"]*)"></iframe>', fragment
    )
    assert frame, "a notebook's styles and the page's must not meet"
    assert "&lt;!DOCTYPE html&gt;" in frame[1]


@pytest.mark.parametrize(
    "module", [bnn.metrics, bnn.diagnostics, bnn.references, bnn.data, bnn.approximations]
)
def test_every_public_class_is_readable(module):
    public = [getattr(module, name) for name in module.__all__]
    unreadable = [
        kind.__name__
        for kind in public
        if inspect.isclass(kind)
        and not issubclass(kind, Target)  # an array, which shows itself
        and not (hasattr(kind, "_repr_html_") and kind.__repr__ is not object.__repr__)
    ]
    assert not unreadable


def test_names_and_values_are_text_and_no_markup():
    assert "&lt;b&gt;" in html_table("<b>", [("<i>", "1")]) and "<i>" not in html_table(
        "", [("<i>",)]
    )

    @readable
    class Found:
        def _figures(self):
            return {
                "name": "<b>",
                "long": "x" * 1000,
                "many": list(range(1000)),
                "of": np.float32(2),
            }

    assert "<b>" not in Found()._repr_html_()
    assert "many=1000 entries, of=2)" in repr(Found()) and len(repr(Found())) < 150


def test_tab_shows_public_names_only():
    assert dir(bnn) == sorted(bnn.__all__)
    for name in bnn.__all__:
        module = getattr(bnn, name)
        if inspect.ismodule(module):
            shown = {n for n in dir(module) if not n.startswith("_")}
            parts = {n for n in shown if inspect.ismodule(getattr(module, n))}
            assert shown - parts <= set(module.__all__), name
            foreign = {
                n for n in parts if not getattr(module, n).__name__.startswith("bayesnn_ppl")
            }
            assert not foreign, name


def test_the_tenth_layer_comes_after_the_second(regression):
    def model(x, y=None, *, batch_size=None):
        weights = [numpyro.sample(f"w{i}", numpyro.distributions.Normal()) for i in (10, 9, 2)]
        with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
            x, y = bnn.minibatch(x, y)
            numpyro.sample("y", numpyro.distributions.Normal(x[:, 0] * sum(weights), 1.0), obs=y)

    kernel = bnn.kernels.SGHMC(model, step_size=1e-3, batch_size=40, steps_per_draw=1)
    posterior = bnn.sample(kernel, *regression, warmup=5, draws=40, chains=2, progress=False)
    order = ["w2", "w9", "w10"]
    assert list(posterior.draws) == list(posterior.tree["posterior"].data_vars) == order
    assert list(posterior.diagnose(regression[0]).weights) == order
    fitted = bnn.fit(bnn.approximations.MAP(model, epochs=1), *regression, progress=False)
    assert list(fitted.draws) == list(fitted.tree["posterior"].data_vars) == order
    temperatures = posterior.temperatures(*regression, gradients=8)
    assert [array.name for array in temperatures.arrays] == order
    # The statistics stand in the order of the sampler's sites: w10, w2, w9.
    recorded = posterior.statistics["kinetic_temperature"].mean(axis=(0, 1))
    read = [array.kinetic.value for array in temperatures.arrays]
    np.testing.assert_allclose(
        np.array(read) / recorded[[1, 2, 0]], read[0] / recorded[1], rtol=1e-5
    )
