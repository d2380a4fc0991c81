"""Devices as a mesh of two axes: chains × data."""

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from bayesnn_ppl.arguments import whole_number

__all__ = ["check_mesh", "default_mesh", "device_mesh"]


def device_mesh(chain: int, data: int = 1, *, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh that spreads chains over `chain` devices, and the rows of the data over `data`.

    Args:
        chain: devices along the chain axis; the number of chains must be a multiple of it.
        data: devices that share the likelihood of one chain; the number of rows must be a
            multiple of it.
        devices: the devices to use; by default the first chain × data of all.

    Raises:
        ValueError: fewer devices than chain × data.
    """
    chain = whole_number(chain, "The mesh's chain axis", at_least=1)
    data = whole_number(data, "The mesh's data axis", at_least=1)
    devices = jax.devices() if devices is None else list(devices)
    if len(devices) < chain * data:
        raise ValueError(
            f"A mesh of {chain} × {data} (chain × data) needs {chain * data} devices, but there "
            f"are {len(devices)}. " + more_cpu_devices(chain * data)
        )
    grid = np.asarray(devices[: chain * data], dtype=object).reshape(chain, data)
    return Mesh(grid, ("chain", "data"), axis_types=(AxisType.Auto, AxisType.Auto))


def more_cpu_devices(count: int) -> str:
    """The sentence that says how to have `count` CPU devices."""
    return (
        f'On a CPU, call `jax.config.update("jax_num_cpu_devices", {count})` right after '
        "importing jax, before anything is computed."
    )


def default_mesh(chains: int) -> Mesh:
    """As many devices as divide the chains evenly, all on the chain axis."""
    devices = jax.local_devices()
    chain = max(n for n in range(1, min(chains, len(devices)) + 1) if chains % n == 0)
    return device_mesh(chain, devices=devices)


def check_mesh(mesh: Mesh, *, chains: int, rows: int) -> None:
    """Raise ValueError unless the mesh has the two axes and divides chains and rows evenly."""
    if tuple(mesh.axis_names) != ("chain", "data"):
        raise ValueError(
            f"The mesh must have the axes ('chain', 'data'), not {tuple(mesh.axis_names)}: "
            "make it with `device_mesh(chain, data)`."
        )
    chain, data = mesh.devices.shape
    if chains % chain:
        raise ValueError(
            f"{chains} chains cannot be spread evenly over the {chain} devices of the mesh's "
            f"chain axis. Use a multiple of {chain} chains, or a mesh whose chain axis divides "
            f"{chains}."
        )
    if rows % data:
        raise ValueError(
            f"{rows} rows cannot be spread evenly over the {data} devices of the mesh's data "
            f"axis. Leave out {rows % data} rows, or use a data axis that divides {rows}."
        )
