"""Langevin chains on a Gaussian by symplectic Euler, written out in NumPy, right and wrong."""

from types import SimpleNamespace

import numpy as np

NAMES = ["net.Dense_0.kernel", "net.Dense_0.bias", "noise", "net.Dense_1.kernel"]
SIZES = [24, 6, 1, 40]
CUTS = np.cumsum(SIZES)[:-1]
PRIOR = np.full(sum(SIZES), 2.0)
LIKELIHOOD = np.exp(np.random.default_rng(5).uniform(-1, 2.5, sum(SIZES)))
PRECISION = PRIOR + LIKELIHOOD
BIAS = slice(24, 30)  # of the first layer
LAST = slice(31, 71)  # the kernel of the second


def split(array):
    return dict(zip(NAMES, np.split(array, CUTS, axis=-1), strict=True))


def run(
    seed=0,
    *,
    chains=4,
    draws=300,
    steps=20,
    burn_in=60,
    step_size=0.02,
    decay=0.9,
    temperature=1.0,
    force=PRECISION,
    noise=1.0,
    gradient_noise=0.0,
    refreshed=True,
    old_momentum=False,
    frozen=None,
    spread=1.0,
):
    """Positions (chain, draw, d) and kinetic temperatures (chain, draw, arrays) of a run."""
    generator = np.random.default_rng(seed)
    shape = (chains, len(PRECISION))
    theta = spread * np.sqrt(temperature / PRECISION) * generator.normal(size=shape)
    p = np.sqrt(temperature) * generator.normal(size=shape)
    h, beta = np.sqrt(step_size), decay if refreshed else 1.0
    amplitude = noise * np.sqrt(2 * temperature * (1 - beta))
    positions, kinetic = [], []
    for index in range((burn_in + draws) * steps):
        gradient = force * theta
        if gradient_noise:
            gradient = gradient + gradient_noise * generator.normal(size=shape)
        new = beta * p - h * gradient + amplitude * generator.normal(size=shape)
        if frozen is not None:
            new[:, frozen] = 0.0
        theta = theta + h * (p if old_momentum else new)
        p = new
        if index >= burn_in * steps and index % steps == steps - 1:
            positions.append(theta)
            kinetic.append([(part**2).mean(axis=-1) for part in split(p).values()])
    return SimpleNamespace(
        positions=np.stack(positions, axis=1), kinetic=np.moveaxis(np.array(kinetic), 2, 0)
    )
