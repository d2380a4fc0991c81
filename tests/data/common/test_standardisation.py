import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesnn_ppl.data import Standardisation, StandardisedTarget, from_arrays, load


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    x = generator.normal([5.0, -200.0, 0.0], [0.1, 30.0, 1.0], (50, 3))
    return x, generator.normal(7.0, 3.0, 50)


def test_training_rows_get_mean_zero_and_deviation_one(table):
    x, y = table
    s = Standardisation.fit(x, y, "regression")
    np.testing.assert_allclose(s.apply_x(x).mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(s.apply_x(x).std(0), 1, rtol=1e-12)
    np.testing.assert_allclose(s.apply_y(y), (y - y.mean()) / y.std(), rtol=1e-12)
    assert isinstance(s.y_mean, float) and isinstance(s.y_scale, float)


def test_round_trip_restores_the_units(table):
    x, y = table
    s = Standardisation.fit(x, y, "regression")
    np.testing.assert_allclose(s.undo_y(s.apply_y(y)), y, rtol=1e-12)
    np.testing.assert_allclose(s.undo_y(np.zeros((4, 2))), np.full((4, 2), y.mean()))
    # A year with a deviation of hours: float32 arithmetic would lose all of it.
    fine = Standardisation(np.zeros(1), np.ones(1), 2000.0, 1e-4)
    assert fine.undo_y(np.float32([1.0]))[0] == pytest.approx(2000.0001, abs=1e-9)


def test_inputs_come_back_too(table):
    x, y = table
    units = Standardisation.fit(x, y, "regression")
    np.testing.assert_allclose(units.undo_x(units.apply_x(x)), x, rtol=1e-12)
    with pytest.raises(ValueError, match="fitted on"):
        units.undo_x(x[:, :1])


def test_several_outputs_have_a_scale_each(table):
    x, y = table
    y = np.stack([y, 100 * y], axis=1)
    s = Standardisation.fit(x, y, "regression")
    np.testing.assert_allclose(s.y_scale, y.std(0))
    np.testing.assert_allclose(s.undo_y(s.apply_y(y)), y, rtol=1e-12)
    assert Standardisation.from_dict(json.loads(json.dumps(s.to_dict()))) == s


def test_constant_columns_get_scale_one():
    # 0.1 + 0.2 style numbers: the computed deviation of equal entries need not be exactly 0.
    x = np.stack([np.full(1000, 0.3 - 0.1), np.arange(1000.0)], axis=1)
    s = Standardisation.fit(x, np.full(1000, 0.1), "regression")
    assert s.x_scale[0] == 1.0 and s.y_scale == 1.0
    assert np.all(s.apply_x(x)[:, 0] == 0.0) and s.x_scale[1] > 200


def test_images_are_standardised_per_channel():
    x = np.random.default_rng(0).normal([0.0, 10.0], [1.0, 5.0], (20, 6, 6, 2))
    s = Standardisation.fit(x, np.zeros(20), "classification")
    assert s.x_mean.shape == (2,)
    np.testing.assert_allclose(s.apply_x(x).std((0, 1, 2)), 1, rtol=1e-12)


def test_jax_arrays_stay_jax_arrays(table):
    x, y = table
    s = Standardisation.fit(x, y, "regression")
    inputs = jax.jit(s.apply_x)(jnp.asarray(x))
    assert isinstance(inputs, jax.Array) and inputs.dtype == jnp.float32
    np.testing.assert_allclose(inputs, s.apply_x(x), atol=1e-4)
    np.testing.assert_allclose(jax.jit(s.undo_y)(jnp.zeros(3)), y.mean(), rtol=1e-6)


def test_equality_and_hash_follow_the_numbers(table):
    x, y = table
    first, second = (Standardisation.fit(x, y, "regression") for _ in range(2))
    assert first == second and hash(first) == hash(second)
    assert first != Standardisation.fit(x, y + 1, "regression")
    assert first != Standardisation.identity(3) and Standardisation.identity(3).is_identity
    assert not first.is_identity and first != "no standardisation"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((np.zeros(2), np.array([1.0, 0.0]), 0.0, 1.0), "`x_scale` .* must be positive"),
        ((np.zeros(2), np.ones(2), np.nan, 1.0), "`y_mean` .* must be finite"),
        ((np.zeros(2), np.ones(3), 0.0, 1.0), r"`x_mean` has shape \(2,\), but `x_scale`"),
        ((0.0, 1.0, 0.0, 1.0), r"`x_mean` .* must have shape \(d,\)"),
    ],
)
def test_impossible_numbers_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Standardisation(*fields)


def test_wrong_use_is_refused(table):
    x, y = table
    s = Standardisation.fit(x, y, "regression")
    with pytest.raises(ValueError, match="fitted on 3 features"):
        s.apply_x(x[:, :2])
    with pytest.raises(ValueError, match="`task` must be one of"):
        Standardisation.fit(x, y, "ranking")
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, d\)"):
        Standardisation.fit(y, y, "regression")
    with pytest.raises(ValueError, match="has the keys x_mean"):
        Standardisation.from_dict({"x_mean": [0.0]})
    target = StandardisedTarget(s.apply_y(y), s)
    with pytest.raises(ValueError, match="already standardised"):
        s.apply_y(target)
    with pytest.raises(ValueError, match="another standardisation"):
        Standardisation.fit(x, y + 1, "regression").undo_y(target)
    np.testing.assert_allclose(s.undo_y(target), y, rtol=1e-12)


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_inputs_alone_may_be_standardised(outputs, tmp_path):
    x = np.random.default_rng(0).normal(5.0, 2.0, (40, 3))
    counts = np.random.default_rng(1).poisson(4.0, (40, *outputs)).astype(float)
    np.savez(tmp_path / "counts.npz", x_train=x, y_train=counts, x_test=x[:5], y_test=counts[:5])
    for data in (
        from_arrays(x, counts, task="regression", standardise="inputs"),
        load(tmp_path / "counts.npz", task="regression", standardise="inputs"),
    ):
        np.testing.assert_allclose(data.train.x.mean(axis=0), 0, atol=1e-5)
        assert np.array_equal(data.train.y, np.round(data.train.y)) and data.train.y.max() > 4
        assert data.train.y.standardisation.is_identity is False, "that of the inputs"
    for loaded in (
        lambda: from_arrays(x, counts, standardise="x"),
        lambda: load("wine", standardise=1),
    ):
        with pytest.raises(ValueError, match='True, False, "inputs" .* or "positive"'):
            loaded()


def test_positive_targets_are_divided_by_their_geometric_mean(tmp_path):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(60, 2)), 1e5 * generator.lognormal(size=60)
    np.savez(tmp_path / "costs.npz", x=x, y=y)
    data = from_arrays(x, y, standardise="positive")
    units, train = data.standardisation, data.train
    assert units.y_mean == 0 and (np.asarray(train.y) > 0).all()
    np.testing.assert_allclose(np.log(np.asarray(train.y)).mean(), 0, atol=1e-5)
    np.testing.assert_allclose(np.asarray(train.x).mean(axis=0), 0, atol=1e-6)
    both = np.concatenate([units.undo_y(np.asarray(part.y)) for part in (train, data.test)])
    np.testing.assert_allclose(np.sort(both), np.sort(y), rtol=1e-5)
    again = load(tmp_path / "costs.npz", standardise="positive")
    assert again.standardisation == units
    with pytest.raises(ValueError, match=r"above 0, but training row \d+ has -"):
        from_arrays(x, y - 2e5, standardise="positive")
