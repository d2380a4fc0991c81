"""New rows in the data's units, labels and numbers, and draws under the names of sites."""

import warnings

import jax
import numpy as np
import pandas
import polars
import pytest
from numpyro.infer import Predictive, log_likelihood

import bayesnn_ppl as bnn
from bayesnn_ppl.core.predictions import far_inputs_expected
from bayesnn_ppl.data.new_inputs import (
    input_range,
    standardised,
    warn_outside,
    warn_targets_outside,
)

DATA = {name: bnn.data.load(name) for name in ("diabetes", "wine")}
RAW = {name: data.standardisation.undo_x(data.test.x) for name, data in DATA.items()}
RUN = {"warmup": 20, "draws": 20, "chains": 2, "seed": 0, "progress": False}


def sampled(name, y=None, **likelihood):
    data = DATA[name]
    kernel = bnn.kernels.HMC(bnn.models.linear(**likelihood), num_leapfrogs=5)
    return bnn.sample(kernel, data.train.x, data.train.y if y is None else y, **RUN)


@pytest.fixture(scope="module")
def runs():
    return {
        "diabetes": sampled("diabetes"),
        "wine": sampled("wine", likelihood=bnn.likelihoods.categorical(3)),
    }


@pytest.mark.parametrize("name", DATA)
def test_rows_in_the_datas_units_are_predicted_as_their_standardised_selves(runs, name):
    data, posterior = DATA[name], runs[name]
    expected = posterior.predict(data.test.x).mean
    np.testing.assert_allclose(posterior.predict(RAW[name], raw=True).mean, expected, rtol=1e-4)
    np.testing.assert_allclose(data.transform(RAW[name]), data.test.x, atol=1e-5)


@pytest.mark.parametrize("library", [pandas, polars])
def test_the_columns_of_a_table_are_matched_by_name(library):
    data, raw = DATA["diabetes"], RAW["diabetes"]
    columns = {name: raw[:, j] for j, name in reversed(list(enumerate(data.feature_names)))}
    table = library.DataFrame({"ward": ["a"] * len(raw), **columns})
    np.testing.assert_allclose(data.transform(table), data.test.x, atol=1e-5)
    with pytest.raises(ValueError, match=r"`rows` lacks 1 of the 10 features.*`bmi`"):
        data.transform(table[[name for name in data.feature_names if name != "bmi"]])
    columns["age"] = [*raw[:-1, 0], np.nan]
    with pytest.raises(ValueError, match=r"`age` \(1 of 44 rows, first at row 43\)"):
        data.transform(library.DataFrame(columns))


@pytest.mark.parametrize("library", [pandas, polars])
def test_predict_matches_the_columns_of_a_table_in_the_datas_units(runs, library):
    data, raw, posterior = DATA["diabetes"], RAW["diabetes"], runs["diabetes"]
    columns = {name: raw[:, j] for j, name in reversed(list(enumerate(data.feature_names)))}
    expected = posterior.predict(data.test.x).mean
    found = posterior.predict(library.DataFrame(columns), raw=True).mean
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    del columns["bmi"]
    with pytest.raises(ValueError, match=r"`x` lacks 1 of the 10 features of .*`bmi`"):
        posterior.predict(library.DataFrame(columns), raw=True)


def test_rows_are_not_standardised_twice(runs):
    data, raw = DATA["diabetes"], RAW["diabetes"]
    rows = data.transform(raw)
    for again in (rows, rows[:3], rows.copy(), data.standardisation.apply_x(raw)):
        with pytest.raises(ValueError, match="already standardised.*Leave `raw` out"):
            runs["diabetes"].predict(again, raw=True)
    with pytest.raises(ValueError, match=r"already standardised.*`numpy\.asarray\(x\)`"):
        data.standardisation.apply_x(rows)
    assert type(rows + 1) is type(data.standardisation.undo_x(rows)) is np.ndarray
    # The rows of a `Dataset` do not know it.
    with pytest.warns(UserWarning, match=r"33 of 44 rows .* `sex` is .*, and was 1 to 2"):
        runs["diabetes"].predict(data.test.x, raw=True)
    # Near 0 in each feature, and not as far below the range as that is wide.
    near = np.random.default_rng(0).normal(size=(20, 3))
    run = {"input_range": {"low": [11.0] * 3, "high": [227.0] * 3}}
    with pytest.warns(UserWarning, match=r"20 of 20 rows .* was 11 to 227"):
        warn_outside(near, run, given=near)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_outside(near[:, :1], {"input_range": {"low": [11.0], "high": [227.0]}}, given=near)
        warn_outside(near + [11.0, 100.0, 100.0], run, given=near)
    # A map that changes nothing can be applied as often as one likes.
    same = bnn.data.Standardisation.identity(10)
    np.testing.assert_array_equal(same.apply_x(same.apply_x(raw)), raw)


def test_what_cannot_be_transformed_says_why(runs):
    data, posterior, raw = DATA["diabetes"], runs["diabetes"], RAW["diabetes"]
    with pytest.raises(ValueError, match=r"must have shape \(n, 10\).*Give one row as"):
        data.transform(raw[0])
    with pytest.raises(ValueError, match="no `x` is given"):
        posterior.predict(raw=True)
    with pytest.raises(ValueError, match=r"rows of shape \(\), but .*one row as `rows\[None\]`"):
        posterior.predict(data.test.x[0])
    nameless = posterior.provenance | {"dataset": None}
    with pytest.raises(ValueError, match="does not know the names of its features"):
        standardised(pandas.DataFrame(raw), nameless)
    plain = sampled("diabetes", np.asarray(data.train.y))
    with pytest.raises(ValueError, match="does not know how its inputs were standardised"):
        plain.predict(raw, raw=True)


def test_inputs_far_outside_the_training_range_are_reported(runs):
    posterior, x = runs["diabetes"], DATA["diabetes"].test.x
    far = r"44 of 44 rows of `x` lie far .*`age` is 79, and was .*4 features more.*raw=True"
    for asked in (posterior.predict, posterior.function_values, posterior.diagnose):
        with pytest.warns(UserWarning, match=far) as caught:
            asked(RAW["diabetes"])
        assert {w.filename for w in caught if "far outside" in str(w.message)} == {__file__}
    # Rows that are known to be standardised are shown as they were given, and not so advised.
    units = DATA["diabetes"].standardisation
    far = "`age` is 7900, and was 19 to 79 in training.*look at the units of these columns"
    for asked in (
        lambda: posterior.predict(100 * RAW["diabetes"], raw=True),
        lambda: posterior.function_values(units.apply_x(100 * RAW["diabetes"]).astype("f4")),
    ):
        with pytest.warns(UserWarning, match=far) as caught:
            asked()
        assert "raw=True" not in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior.predict(x)
        # As far outside as the training range is wide: an extrapolation that a plot shows.
        high, low = DATA["diabetes"].train.x.max(axis=0), DATA["diabetes"].train.x.min(axis=0)
        posterior.predict((high + 0.99 * (high - low))[None])


def test_targets_far_outside_the_training_range_are_reported(runs):
    posterior, data = runs["diabetes"], DATA["diabetes"]
    y = data.standardisation.undo_y(data.test.y)
    far = r"of 44 rows of `y` lie far .*`disease progression` is 317, and was .*apply_y\(y\)"
    with pytest.warns(UserWarning, match=far) as caught:
        bnn.metrics.evaluate(posterior, data.test.x, y, samples=2)
    assert {w.filename for w in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bnn.metrics.evaluate(posterior, *data.test, samples=2)
        warn_targets_outside(y, posterior.provenance | {"target_range": None})  # an older run
        with far_inputs_expected():
            warn_targets_outside(y, posterior.provenance)
    known = bnn.data.StandardisedTarget(np.full(3, 100.0), data.standardisation)
    with pytest.warns(UserWarning, match="and was 31 to 346 in training.*units of the target"):
        warn_targets_outside(known, posterior.provenance)
    assert runs["wine"].provenance["target_range"] is None


def test_token_ids_and_images_have_their_ranges():
    assert input_range(np.zeros((4, 7), np.int32)) is None
    pixels = np.stack([np.zeros((5, 2, 2)), np.ones((5, 2, 2))], axis=-1).astype(np.float32)
    assert input_range(pixels) == {"low": [0.0, 1.0], "high": [0.0, 1.0]}


def test_classes_have_their_names(runs):
    posterior, data = runs["wine"], DATA["wine"]
    prediction = posterior.predict(data.test.x)
    assert prediction.class_names == list(data.class_names)
    best = prediction.probabilities.argmax(-1)
    np.testing.assert_array_equal(prediction.labels, np.array(data.class_names)[best])
    prediction.class_names = None
    np.testing.assert_array_equal(prediction.labels, best)
    prediction.class_names = ["a", "b"]  # a third class is in no row of the data
    assert set(prediction.labels) <= {"a", "b", "2"}
    for y in (data.test.y, np.asarray(data.test.y)):
        found = bnn.metrics.evaluate(posterior, data.test.x, y)
        assert [one.name for one in found.by_class] == list(data.class_names)
    with pytest.raises(ValueError, match="Only a model with labels"):
        runs["diabetes"].predict(DATA["diabetes"].test.x).labels  # noqa: B018


def test_labels_are_no_numbers_of_a_regression():
    with pytest.raises(ValueError, match=r"labels of a classification.*categorical\(3\)"):
        sampled("wine")
    with pytest.raises(ValueError, match=r"labels of a classification.*categorical\(3\)"):
        bnn.fit(bnn.approximations.MAP(bnn.models.linear()), *DATA["wine"].train, progress=False)
    assert sampled("wine", DATA["wine"].train.y.astype(np.float32)).provenance["rows"] == 160


def test_draws_by_site_are_those_that_numpyro_takes(runs):
    posterior, data = runs["diabetes"], DATA["diabetes"]
    samples = posterior.samples()
    assert samples.keys() == posterior.samples(group_by_chain=True).keys()
    assert samples["net/Dense_0.kernel"].shape == (40, 10, 1)
    assert posterior.samples(group_by_chain=True)["net/Dense_0.kernel"].shape == (2, 20, 10, 1)
    densities = log_likelihood(posterior.model, samples, *data.test)["y"]
    expected = posterior.log_likelihood(data.test.x, np.asarray(data.test.y))
    log_scale = np.log(data.standardisation.y_scale)  # `log_likelihood` is per unit of the data
    np.testing.assert_allclose(
        densities, np.reshape(expected, densities.shape) + log_scale, atol=1e-3
    )
    dotted = {name: a.reshape(-1, *a.shape[2:]) for name, a in posterior.draws.items()}
    with pytest.warns(UserWarning, match=r"given as `net\.Dense_0.*`posterior\.samples\(\)`"):
        Predictive(posterior.model, dotted)(jax.random.key(0), data.test.x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Predictive(posterior.model, samples)(jax.random.key(0), data.test.x)


def test_a_part_is_sliced_by_rows():
    part = DATA["diabetes"].train
    x, y = part
    few, chosen = part[:30], part[np.arange(len(part)) % 2 == 0]
    assert len(part) == len(x) == 398 and len(few) == 30 and len(chosen) == 199
    np.testing.assert_array_equal(few.y, y[:30])
    assert few.y.standardisation == DATA["diabetes"].standardisation
    np.testing.assert_array_equal(chosen.x, x[::2])
    with pytest.raises(TypeError, match=r"`part\.x` and `part\.y` are the arrays"):
        part[0]


def test_all_rows_may_train():
    x, y = np.random.default_rng(0).normal(size=(2, 40))
    data = bnn.data.from_arrays(x[:, None], y, test_fraction=0)
    assert len(data.train) == 40 and len(data.test) == 0
