"""Matrix products are computed in full, unless the caller says otherwise; not at all in a fork."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import HMC

import bayesnn_ppl as bnn
from bayesnn_ppl.core.precision import arithmetic
from tests.marks import checked


def precision_of_a_product():
    return str(jax.make_jaxpr(lambda a: a @ a)(jnp.ones((2, 2))))


def test_products_are_full_by_default():
    with arithmetic(float64=False):
        assert "HIGHEST" in precision_of_a_product()
    assert "HIGHEST" not in precision_of_a_product()
    with arithmetic(float64=True):
        assert (jnp.ones(1) @ jnp.ones(1)).dtype == np.float64


def test_a_precision_of_the_caller_stays():
    with jax.default_matmul_precision("bfloat16"), arithmetic(float64=False):
        assert "HIGHEST" not in precision_of_a_product()


@pytest.mark.parametrize("chosen", checked([None, "tensorfloat32"]))
def test_a_run_says_which(regression, chosen):
    kernel = HMC(bnn.models.linear(), num_steps=2, trajectory_length=None)
    with jax.default_matmul_precision(chosen):
        run = bnn.sample(kernel, *regression, warmup=2, draws=2, chains=1, progress=False)
    assert run.provenance["matmul_precision"] == (chosen or "highest")


FORKING = """
import multiprocessing, warnings
import numpy as np
import bayesnn_ppl as bnn
warnings.simplefilter("ignore")  # JAX's own, in the parent
x = np.ones((4, 2), np.float32)
draws = {"w": np.ones((1, 2, 2), np.float32)}

def model(x, y=None, *, batch_size=None):
    import numpyro, numpyro.distributions as dist
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("data", x.shape[0], subsample_size=batch_size):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

run = {"latents": ["w"], "precision": "float32"}
posterior = bnn.Posterior.from_arrays(draws, {"lp": np.ones((1, 2))}, run, model=model)

def mean(_):
    return posterior.predict(x).mean.tolist()

fork = multiprocessing.get_context("fork")
with fork.Pool(1) as pool:
    print(pool.map(mean, [0]))
print(mean(0))
try:
    with fork.Pool(1) as pool:
        pool.map(mean, [0])
except RuntimeError as error:
    print(error)
"""


def test_a_fork_of_a_process_with_jax_says_so_before_it_hangs():
    """Forked before anything is computed it works; afterwards the child would wait for ever."""
    ended = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=300
    )
    before, alone, after = ended.stdout.splitlines()
    assert before == f"[{alone}]", ended.stderr
    assert "forked from one in which JAX had started" in after
    assert 'multiprocessing.get_context("spawn")' in after
