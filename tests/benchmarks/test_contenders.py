"""What samplers of other environments are given, and what is made of their draws."""

import sys

import jax
import numpy as np
import pytest

from benchmarks.samplers.contenders import CHAINS, nutpie_nuts
from benchmarks.samplers.efficiency import judge
from benchmarks.samplers.problem import Problem

# Stays where it starts, and calls the log density there its number of gradients.
STAYS = """
import json, sys
import jax
import numpy as np
given, options = np.load(sys.argv[1]), json.loads(sys.argv[3])
assert options == {"seconds": 2.0, "tune": 7, "adaptation": "low_rank"}
starts = given["starts"]
log_p, gradient = jax.export.deserialize(bytearray(given["density"])).call(starts[1])
assert gradient.shape == starts[1].shape
draws = np.repeat(starts[:, None].astype(float), DRAWS, axis=1)
np.savez(sys.argv[2], draws=draws, gradients=round(1000 * float(log_p)), seconds=2, compile=1)
"""


@pytest.mark.parametrize("draws", [5, 0])
def test_nutpie_has_the_density_and_its_draws_are_judged(draws, tmp_path, monkeypatch):
    (tmp_path / "peers").mkdir()
    (tmp_path / "peers/nutpie_peer.py").write_text(STAYS.replace("DRAWS", str(draws)))
    monkeypatch.setattr("benchmarks.harness.running._PACKAGE", tmp_path)
    problem = Problem("diabetes", "horseshoe")
    found = nutpie_nuts(problem, sys.executable, 2.0, warmup=7, low_rank=True)
    potential, start = problem.potential()
    z = [start(jax.random.key(chain)) for chain in range(CHAINS)]
    assert found["gradients"] == pytest.approx(-1000 * float(potential(z[1])), rel=1e-4)
    assert found["functions"].shape == (CHAINS, draws, 2 * len(problem.data.test))
    if draws:
        one = {name: np.asarray(a)[None, None] for name, a in z[3].items()}
        expected = problem.functions(problem.constrained(one))[0, 0]
        np.testing.assert_allclose(found["functions"][3, -1], expected, rtol=1e-4)
    else:  # the warm-up took the time
        assert np.isnan(judge(problem, found)["rhat_max"])
