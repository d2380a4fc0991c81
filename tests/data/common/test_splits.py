import os
from pathlib import Path

import numpy as np
import pytest

from bayesnn_ppl.data import uci_split_indices
from bayesnn_ppl.data.sources import uci

FOLDER = os.environ.get("BAYESNN_DATA")
STORED = [name for name in uci.SETS if name != "ionosphere"]


@pytest.mark.skipif(not FOLDER, reason="BAYESNN_DATA, the folder of the UCI files, is not set")
@pytest.mark.parametrize("name", STORED)
def test_rule_gives_the_stored_indices(name):
    with np.load(Path(FOLDER) / "uci" / f"{name}.npz", allow_pickle=False) as stored:
        train, test = uci_split_indices(len(stored["y"]), len(stored["train_idx"]))
        np.testing.assert_array_equal(train, stored["train_idx"])
        np.testing.assert_array_equal(test, stored["test_idx"])


def test_rule_draws_from_one_legacy_generator():
    generator = np.random.RandomState(1)
    expected = [generator.choice(range(45), 45, replace=False) for _ in range(3)]
    train, test = uci_split_indices(45, 3)
    # 0.9 * 45 = 40.5 rounds to the even number.
    assert train.shape == (3, 40) and test.shape == (3, 5)
    np.testing.assert_array_equal(np.concatenate([train, test], axis=1), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "at least 2 rows"),
        ({"n": 10, "splits": 0}, "at least 1 split"),
        ({"n": 10, "test_fraction": -0.1}, "0 or more and below 1"),
        ({"n": 10, "test_fraction": 1.5}, "0 or more and below 1"),
        ({"n": 10, "test_fraction": 0.01}, "leaves 10 training and 0 test rows"),
    ],
)
def test_impossible_splits_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        uci_split_indices(**arguments)
