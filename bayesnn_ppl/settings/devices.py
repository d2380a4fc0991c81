"""The devices that chains run on; the library itself never sets them."""

import os
from collections.abc import Callable
from typing import Any

__all__ = ["chain_mesh", "devices_here", "prepare_devices"]


def cores() -> int:
    """The cores that this process may use."""
    count: Callable[[], int | None] = getattr(os, "process_cpu_count", os.cpu_count)
    return count() or 1


def devices_here(wanted: int | None, data: int, processes: int | None) -> int | None:
    """Devices that this process needs of a mesh of wanted × data, or None for any number.

    Args:
        wanted: devices of the mesh's chain axis, or None.
        data: of its data axis.
        processes: that make the mesh together; None where a cluster will say.

    Raises:
        ValueError: the processes cannot share them evenly.
    """
    if wanted is None and data == 1:
        return None if processes in (None, 1) else 1
    total, count = (wanted or 1) * data, processes or 1
    if total % count:
        raise ValueError(
            f"A mesh of {total} devices cannot be shared evenly by {count} processes. Choose "
            "--devices and --data-devices whose product is a multiple of --num-processes."
        )
    return total // count


def prepare_devices(chains: int, wanted: int | None) -> None:
    """Give a CPU as many JAX devices as the chains can use, before JAX starts.

    Nothing is changed where JAX has started already, or where the number of devices was set by
    the caller or in XLA_FLAGS. It has no effect on other platforms.

    Args:
        chains: number of chains.
        wanted: number of devices asked for, or None for as many as there are cores.
    """
    import jax

    if jax.config.jax_num_cpu_devices >= 0:
        return
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", wanted or min(chains, cores()))
    except RuntimeError:  # JAX has started: the devices are what they are
        return


def chain_mesh(chains: int, wanted: int | None, chain_method: str, data: int = 1) -> Any:
    """The mesh for the devices asked for, or None where none were.

    Args:
        chains: number of chains.
        wanted: devices that share the chains, or None for as many as there are.
        chain_method: as in `sample`.
        data: devices that share the rows of each chain.

    Raises:
        ValueError: the chains do not run in parallel, cannot be spread evenly over the devices,
            or there are fewer devices.
    """
    if wanted is None and data == 1:
        return None
    wanted = 1 if wanted is None else wanted
    if chain_method != "parallel":
        raise ValueError(
            f"The option --devices is for parallel chains; with --chain-method {chain_method} all "
            "chains run on one device. Leave it out."
        )
    if chains % wanted:
        raise ValueError(
            f"{chains} chains cannot be spread evenly over {wanted} devices. Choose a number of "
            f"devices that divides {chains}, or another number of --chains."
        )
    import jax

    import bayesnn_ppl as bnn

    if len(jax.devices()) < wanted * data:
        raise ValueError(
            f"{wanted * data} devices were asked for, but there are {len(jax.devices())} "
            f"({jax.devices()[0].platform}). Leave out --devices to use what there is."
        )
    return bnn.device_mesh(wanted, data)
