"""The synthetic data sets, and the paired differences that the table shows."""

import pytest

from benchmarks.synthetic_temperature import paired

pytestmark = pytest.mark.check


def row(number, temperature, nll):
    return {
        "dataset": number,
        "temperature": temperature,
        "nll": nll,
        "accuracy": 0.5,
        "arrays": ["right", "not known"],
        "function_rhat": 1.0 + nll / 100,
        "function_ess": 100 * nll,
    }


def test_paired():
    runs = [row(0, 1.0, 0.5), row(0, 10.0, 0.7), row(1, 1.0, 0.8), row(1, 10.0, 0.9)]
    table = paired([*runs, row(2, 10.0, 5.0)])  # data set 2 has no T = 1 yet
    hot = table["10"]
    assert hot["datasets"] == 2 and hot["worse_on"] == 2
    assert hot["difference"] == pytest.approx(0.15)
    assert hot["standard_error"] == pytest.approx(0.05)
    assert hot["arrays"] == {"not known": 2, "right": 2}
    assert hot["function_rhat"] == pytest.approx(1.009) and hot["function_ess"] == 70
    assert table["1"]["difference"] == 0
