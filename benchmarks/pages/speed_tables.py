"""The tables of page speed: leapfrogs and gradients over those of plain JAX."""

from typing import Any

from benchmarks.harness.tables import markdown

# Contenders as the record and as the page call them.
LEAPFROGS = {
    "raw gradient": "raw gradient, pytree",
    "raw, two arrays": "the same with a second array",
    "raw, flat": "our gradient, flat vector",
    "HMC": "`bnn.kernels.HMC` in a bare scan",
    "HMC, jitter": "the same with jitter",
    "HMC, sample": "`bnn.kernels.HMC` under `bnn.sample`",
    "NumPyro": "NumPyro's HMC in a bare scan",
}


def leapfrog(cases: dict[str, Any]) -> str:
    """Times over the raw gradient's, of which the microseconds are given, by rows and leapfrogs."""
    lines = []
    for name, shown in LEAPFROGS.items():
        cells = [f"{row[name]['over raw gradient']:.2f}" for row in cases.values()]
        if name == "raw gradient":
            cells = [f"{row[name]['microseconds']:.1f} µs" for row in cases.values()]
        lines.append([shown, *cells])
    return markdown(["", *cases], lines)


def rows_last(cases: dict[str, Any]) -> str:
    """Microseconds of both gradients, and their ratio, by network and rows."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    for name, row in cases.items():
        network, count = name.rsplit(", ", 1)
        cell = f"{row['plain']:.1f}, {row['rows last']:.1f}: {row['ratio']:.2f}"
        found.setdefault(network, []).append(cell)
        rows += [] if count in rows else [count]
    return markdown(["network", *rows], [[name, *cells] for name, cells in found.items()])
