"""Devices as a mesh of two axes: chains × data."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bayesnn_ppl.core.arguments import integer

__all__ = [
    "check_mesh",
    "default_mesh",
    "device_mesh",
    "replicate",
    "manual_axes",
    "own_chains",
    "own_part",
    "shard",
]


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
    chain = integer(chain, "The mesh's chain axis", at_least=1)
    data = integer(data, "The mesh's data axis", at_least=1)
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
    """As many devices as divide the chains evenly, all on the chain axis.

    Of several processes each has to have a device in it.
    """
    devices = jax.devices()
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
    _check_processes(mesh)


def _check_processes(mesh: Mesh) -> None:
    """Raise ValueError unless every process has a device of the mesh, and its chains in a row."""
    owners = [device.process_index for device in mesh.devices[:, 0]]
    present = {device.process_index for device in mesh.devices.flat}
    absent = sorted(set(range(jax.process_count())) - present)
    if absent:
        chain, data = mesh.devices.shape
        raise ValueError(
            f"The mesh of {chain} × {data} (chain × data) has no device of the processes {absent}. "
            f"All {len(jax.devices())} devices of the {jax.process_count()} processes must be in "
            "it: choose numbers of chains and devices that use them, such as "
            f"`device_mesh({len(jax.devices())})`."
        )
    if owners != sorted(owners) or owners[0] != 0:
        raise ValueError(
            "The devices of the mesh must be in the order of their processes along the chain "
            "axis, process 0 first, as `device_mesh(chain, data)` puts them."
        )


def manual_axes(mesh: Mesh) -> set[str]:
    """The axes of which a traced function sees its own part: chains, and rows if not split.

    The compiler splits the rows itself where the data axis has several devices. Where it has one,
    an axis left to it would only make JAX note a sharding for every value, which takes time.
    """
    return {"chain"} if mesh.shape["data"] > 1 else {"chain", "data"}


def own_chains(mesh: Mesh, chains: int) -> tuple[int, int]:
    """The chains (begin, end) that this process writes: those whose first device it has."""
    owners = [device.process_index for device in mesh.devices[:, 0]]
    each, mine = chains // len(owners), jax.process_index()
    before = sum(owner < mine for owner in owners)
    return before * each, (before + owners.count(mine)) * each


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Arrays that all processes have alike, on every device of the mesh; for one process as is."""
    if jax.process_count() == 1:
        return tree
    return jax.tree.map(lambda a: shard(a, NamedSharding(mesh, P())), tree)


def shard(array: Any, sharding: NamedSharding) -> jax.Array:
    """An array that every process holds, on the devices of all: each puts its own part there."""
    if jax.process_count() == 1:
        return jax.device_put(array, sharding)
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        words = shard(np.asarray(jax.random.key_data(array)), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(array))
    values = np.asarray(array)
    values = values.astype(jax.dtypes.canonicalize_dtype(values.dtype), copy=False)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def own_part(array: jax.Array, chains: tuple[int, int] | None) -> np.ndarray:
    """The chains (begin, end) of an array whose leading axis is spread over processes.

    Args:
        array: (chain, ...).
        chains: those wanted, which this process has; None for all, where it has all.
    """
    if chains is None or array.is_fully_addressable or array.is_fully_replicated:
        whole = np.asarray(array)  # of a fit some are single numbers
        return whole if chains is None else whole[slice(*chains)]
    parts = {shard.index[0].start or 0: shard.data for shard in array.addressable_shards}
    wanted = [np.asarray(parts[i]) for i in sorted(parts) if chains[0] <= i < chains[1]]
    return np.concatenate(wanted) if wanted else np.zeros((0, *array.shape[1:]), array.dtype)
