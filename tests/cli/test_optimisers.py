"""Words for optimisers, schedules and modes: what they build is what they say."""

import jax.numpy as jnp
import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.training.trainer import cosine
from bayesnn_ppl.settings.declaring import declared, from_plain
from bayesnn_ppl.settings.methods.approximations import _with_objects as with_objects
from bayesnn_ppl.settings.methods.approximations import approximation_group

MAP = bnn.approximations.MAP


def moves(optimiser, gradients):
    """The updates that an optimiser makes of gradients, one after another."""
    state = optimiser.init(jnp.zeros(()))
    made = []
    for gradient in gradients:
        update, state = optimiser.update(jnp.asarray(gradient), state, jnp.zeros(()))
        made.append(float(update))
    return np.array(made)


def test_gradient_descent_with_momentum():
    made = with_objects(
        MAP, {"optimiser": "sgd", "learning_rate": 0.1, "momentum": 0.5, "epochs": 3}
    )
    assert set(made) == {"optimiser", "epochs"}
    # m = 1, 0.5 + 2, 1.25 + 0
    np.testing.assert_allclose(moves(made["optimiser"], [1.0, 2.0, 0.0]), [-0.1, -0.25, -0.125])
    usual = with_objects(MAP, {"optimiser": "sgd", "learning_rate": 0.1})["optimiser"]
    np.testing.assert_allclose(moves(usual, [1.0, 0.0]), [-0.1, -0.09], rtol=1e-6)
    bnn.approximations.MAP(bnn.models.linear(), **made)


def test_schedules_and_modes():
    assert with_objects(MAP, {"schedule": "cosine"}) == {"schedule": cosine}
    assert with_objects(MAP, {"schedule": "constant"}) == {"schedule": None}
    assert with_objects(MAP, {"optimiser": "adamw", "learning_rate": 1.0}) == {"learning_rate": 1.0}
    made = with_objects(MAP, {"mode": "map", "mode_epochs": 7, "epochs": 3})
    assert made == {"mode": bnn.approximations.MAP(epochs=7), "epochs": 3}
    swag = with_objects(bnn.approximations.SWAG, {"momentum": 0.5, "learning_rate": 0.1})
    assert swag == {"momentum": 0.5, "learning_rate": 0.1}  # settings of its own
    assert "momentum" in declared(approximation_group("swag"))
    assert {"momentum", "optimiser", "schedule", "epochs"} <= set(
        declared(approximation_group("map"))
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"optimiser": "sgd"}, "needs --learning-rate"),
        ({"momentum": 0.9}, "is that of `--optimiser sgd`"),
        ({"optimiser": "sgd", "learning_rate": -1.0}, "positive"),
        ({"mode_epochs": 3}, "`--mode map` begins at"),
        ({"mode": "runs/mine", "mode_epochs": 3}, "`--mode map` begins at"),
    ],
)
def test_bad_words_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        with_objects(MAP, settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"optimiser": "sdg"}, "--optimiser: .*Did you mean `sgd`"),
        ({"schedule": "cosin"}, "--schedule: .*Did you mean `cosine`"),
        ({"mode_momentum": 1.5}, "--mode-momentum: must be between 0 and 1"),
    ],
)
def test_bad_values_are_refused_by_name(settings, sentence):
    group = approximation_group("variational")
    with pytest.raises(ValueError, match=sentence):
        from_plain(group, settings, "The recipe")
