"""Kernels whose chains learn together: how the chains of one device run, and what devices share."""

import re

import numpy as np
import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.inference.sampling import compiled_program

MODEL = bnn.models.mlp(hidden=(4,), likelihood=bnn.likelihoods.gaussian())
KERNELS = {
    "ChEES": lambda: bnn.kernels.ChEES(MODEL, max_leapfrogs=8),
    "TemperedSMC": lambda: bnn.kernels.TemperedSMC(MODEL, runs=2, moves=2, max_leapfrogs=8),
}
COLLECTIVE = re.compile(r"(all-reduce|all-gather|all-to-all|collective-permute)\(")


def first_energies(kernel, regression, **settings):
    """Log densities of the warm-up's draws, (8 chains, 6)."""
    found = []
    bnn.sample(
        kernel,
        *regression,
        warmup=6,
        draws=2,
        chains=8,
        float64=True,
        progress=False,
        callback=lambda progress: found.append(progress.statistics["lp"]),
        **settings,
    )
    return np.concatenate(found, axis=1)[:, :6]


def where_devices_meet(program):
    """Names of the parts of a compiled program that exchange something, and of its branches."""
    text = program.as_text()
    parts = re.split(r"\n(?=(?:ENTRY )?%\S+ \()", text)
    meeting = {re.match(r"(ENTRY )?%(\S+)", p).group() for p in parts if COLLECTIVE.search(p)}
    branches = re.findall(
        r"(?:branch_computations=\{|true_computation=|false_computation=)[^}]*", text
    )
    return meeting, {name for found in branches for name in re.findall(r"%[\w.-]+", found)}


@pytest.mark.parametrize("name", KERNELS)
def test_chains_of_one_device_run_one_after_another(regression, monkeypatch, name):
    """As in one batch, and what chains of `ChEES` learn does not travel after the warm-up.

    The particles of a run of `TemperedSMC` are on all devices, which meet at every move.
    """
    compiling, programs = compiled_program.compiling, []

    def kept(*args, **settings):
        programs.append(compiling(*args, **settings))
        return programs[-1]

    monkeypatch.setattr(compiled_program, "compiling", kept)
    make = KERNELS[name]
    spread = first_energies(make(), regression, mesh=bnn.device_mesh(2))
    meeting, branches = where_devices_meet(programs[-1].result())
    inside = {part for part in meeting if not part.startswith("ENTRY")}
    assert inside and (inside <= branches) == (name == "ChEES")
    together = first_energies(make(), regression, chain_method="vectorized")
    np.testing.assert_allclose(spread, together, rtol=1e-6)
