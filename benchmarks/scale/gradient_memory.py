"""What does a gradient of the whole data take, of networks that do not fit at once?

    BAYESNN_DATA=... python -m benchmarks gradient_memory [--cases cifar10 imdb] [--rows 64]

One draw of one leapfrog by `HMC(model, rows_at_once=...)`, so two gradients of all rows: CIFAR-10
(40 960 images, ResNet-20-FRN) and IMDB (20 000 reviews, CNN-LSTM), each in a process of its own.
Printed: the peak of its resident memory (1 GiB = 1 024³ bytes), data and compilation included, and
seconds a gradient.
"""

import resource
from typing import Literal

from benchmarks.harness.running import in_own_process

CASES = {"cifar10": ("resnet20_frn", 40_960, 64), "imdb": ("cnn_lstm", 20_000, 1_000)}


def measure(case: str, rows_at_once: int) -> tuple[float, float]:
    """Make the draw; the peak in MiB and the seconds of a gradient."""
    import jax

    import bayesnn_ppl as bnn

    model, rows, _ = CASES[case]
    data = bnn.data.load(case, order="tfds" if case == "cifar10" else "original", subset=rows)
    assert data.train.x.shape[0] == rows
    kernel = bnn.kernels.HMC(
        getattr(bnn.models, model)(),
        step_size=1e-5,
        num_leapfrogs=1,
        adapt_step_size=False,
        rows_at_once=rows_at_once,
    )
    kept = bnn.Keep(weights="none", probe=data.test.x[:10])
    posterior = bnn.sample(
        kernel, *data.train, warmup=0, draws=1, chains=1, keep=kept, progress=False
    )
    assert jax.numpy.isfinite(posterior.tree["sample_stats"]["lp"].values).all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return peak, posterior.provenance["seconds"]["total"] / 2


def main(*, cases: tuple[Literal[*CASES], ...] = tuple(CASES), rows: int | None = None) -> None:
    """Print one line for each case.

    Args:
        rows: rows at once; 64 and 1000 without.
    """
    for case in cases:
        at_once = rows or CASES[case][2]
        peak, seconds = in_own_process(measure, case, at_once)
        print(
            f"{case}, {at_once} rows at once: peak {peak / 1024:.2f} GiB, "
            f"{seconds:.0f} s a gradient",
            flush=True,
        )
