"""LeNet on a file of 4 GB: how much memory does a streamed run take, and how fast is it?

    python -m benchmarks streaming write /tmp/rows          # the file, 4 GB
    python -m benchmarks streaming memory /tmp/rows
    python -m benchmarks streaming rate /tmp/rows [--rounds 2]

The file holds float32 images of 32 x 32 x 3. `memory` runs SGHMC with B = 128 on it by epochs, and
prints the anonymous memory (RssAnon of /proc/self/status, every 20 ms) before `sample` and at its
peak, compilation included; pages of the file that the system keeps are not anonymous. `rate` lets
this run and one on the first 2 048 rows, held on the device, take turns, and compares seconds per
step of the sampling phase.
"""

import statistics
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.harness.timing import in_turns

ROWS, SHAPE, CLASSES, BATCH = 350_000, (32, 32, 3), 10, 128  # 4.0 GiB
HELD_ROWS = 2_048  # 24 MB; more would only make the start longer, which is not timed
STEPS = 20


def write(folder: Path) -> None:
    """Images of normal pixels and random labels, written piece by piece."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    images: Any = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(ROWS, *SHAPE)
    )
    for begin in range(0, ROWS, 5_000):
        piece = images[begin : begin + 5_000]
        generator.standard_normal(dtype=np.float32, out=piece)
    images.flush()
    np.save(folder / "y.npy", generator.integers(CLASSES, size=ROWS).astype(np.int32))
    print(f"{(folder / 'x.npy').stat().st_size / 2**30:.2f} GiB")


def anonymous() -> float:
    """Anonymous resident memory of this process, MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no RssAnon: this benchmark needs Linux.")


class Peak:
    """The largest anonymous memory while the context is open."""

    def __enter__(self) -> "Peak":
        self.value, self._open = anonymous(), True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._open:
            self.value = max(self.value, anonymous())
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()


def run(data: Any, *, warmup: int, draws: int) -> float:
    """Seconds per step of a run of one chain, its warm-up left out."""
    import bayesnn_ppl as bnn
    from bayesnn_ppl.inference.kernels.stochastic_gradient.sghmc import SGHMC

    kernel = SGHMC(
        bnn.models.lenet(),
        step_size=1e-9,
        momentum_decay=0.9,
        batch_size=BATCH,
        steps_per_draw=STEPS,
        minibatches="epoch",
    )
    posterior = bnn.sample(
        kernel,
        *data,
        warmup=warmup,
        draws=draws,
        chains=1,
        progress=False,
        keep=bnn.Keep(weights="moments"),
    )
    return posterior.provenance["seconds"]["sample"] / (draws * STEPS)


def streamed(folder: Path) -> Any:
    """The file as a stream."""
    import bayesnn_ppl as bnn

    return bnn.data.stream(folder / "x.npy", folder / "y.npy")


def memory(folder: Path) -> None:
    """Print anonymous memory before a streamed run, and at its peak."""
    import jax

    jax.numpy.zeros(3).block_until_ready()
    data = streamed(folder)
    base = anonymous()
    with Peak() as peak:
        run(data, warmup=1, draws=8)
    print(
        f"anonymous memory: base {base:.0f} MB, peak {peak.value:.0f} MB, "
        f"{peak.value - base:.0f} MB above it"
    )


def rate(folder: Path, rounds: int) -> None:
    """Print seconds per step, streamed and held on the device."""
    held = (
        np.load(folder / "x.npy", mmap_mode="r")[:HELD_ROWS],
        np.load(folder / "y.npy")[:HELD_ROWS],
    )
    contenders = {"held": held, "streamed": streamed(folder)}

    def told(name: str) -> float:
        seconds = run(contenders[name], warmup=1, draws=10)
        print(f"{name:9} {1e3 * seconds:6.1f} ms a step", flush=True)
        return seconds

    seconds = in_turns({name: partial(told, name) for name in contenders}, rounds)
    ratio = statistics.median(seconds["held"]) / statistics.median(seconds["streamed"])
    print(f"step rate of the streamed run over that of the other: {ratio:.3f}")


def main(what: Literal["write", "memory", "rate"], folder: Path, /, *, rounds: int = 2) -> None:
    """Write the file, or print its memory or its rate."""
    if what == "rate":
        rate(folder, rounds)
    else:
        {"write": write, "memory": memory}[what](folder)
