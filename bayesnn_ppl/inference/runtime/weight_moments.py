"""Mean and variance of every weight, draw by draw, without keeping a draw."""

from collections.abc import Mapping

import numpy as np

from bayesnn_ppl.storage import MOMENTS

__all__ = ["RunningMoments"]

_MEAN, _VARIANCE = MOMENTS


class RunningMoments:
    """Welford's recursion over the draws of each chain, in double precision.

    One draw at a time, so how draws fall into blocks does not change the last bit:
    d = θ - m, m ← m + d/n, v ← v + (d (θ - m) - v)/n.

    Attributes:
        count: draws seen.
    """

    def __init__(self) -> None:
        self.count = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._mean = self._variance = np.zeros((0, 0))

    def add(self, draws: Mapping[str, np.ndarray]) -> None:
        """Take a block, variable -> (chain, block, ...)."""
        # In the order of the first block, which may have been an earlier version's.
        ordered = [draws[name] for name in self._shapes or draws]
        flat = [array.reshape(*array.shape[:2], -1) for array in ordered]
        if not self.count:
            self._shapes = {n: (a.shape[0], *a.shape[2:]) for n, a in draws.items()}
            width = sum(array.shape[2] for array in flat)
            self._mean = np.zeros((flat[0].shape[0], width))
            self._variance = np.zeros_like(self._mean)
        for draw in range(flat[0].shape[1]):
            value = np.concatenate([array[:, draw] for array in flat], axis=1, dtype=np.float64)
            self.count += 1
            change = value - self._mean
            self._mean += change / self.count
            self._variance += (change * (value - self._mean) - self._variance) / self.count

    def arrays(self) -> dict[str, np.ndarray]:
        """`"posterior_mean/<variable>"` and `"posterior_variance/<variable>"` -> (chain, ...)."""
        found, begin = {}, 0
        for name, shape in self._shapes.items():
            end = begin + int(np.prod(shape[1:]))
            found[f"{_MEAN}/{name}"] = self._mean[:, begin:end].reshape(shape)
            found[f"{_VARIANCE}/{name}"] = self._variance[:, begin:end].reshape(shape)
            begin = end
        return found

    def restore(self, arrays: Mapping[str, np.ndarray], count: int) -> None:
        """Continue from what `arrays` gave after `count` draws."""
        self.count = count
        names = [n.partition("/")[2] for n in arrays if n.startswith(f"{_MEAN}/")]
        self._shapes = {name: arrays[f"{_MEAN}/{name}"].shape for name in names}
        self._mean, self._variance = (
            np.concatenate(
                [arrays[f"{kind}/{n}"].reshape(self._shapes[n][0], -1) for n in names], axis=1
            )
            for kind in MOMENTS
        )
