"""Calls that workers of a Dask cluster make, each on its own, with results as they come."""

import warnings
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

__all__ = ["calls_on_workers", "divided", "held_by_scheduler", "packed", "unpacked"]


def packed(value: Any) -> bytes:
    """A value with the functions in it that a worker could not import, as of a notebook.

    Packed by us, since a worker ends where Dask's own unpacking fails.
    """
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def unpacked(value: bytes) -> Any:
    """What was `packed`; RuntimeError where something in it cannot be imported here."""
    import cloudpickle

    try:
        return cloudpickle.loads(value)
    except (ImportError, AttributeError) as error:
        raise RuntimeError(
            "A worker cannot import what its task is made of, such as a model or a kernel: "
            f"{error}. Install it on all workers, or define it in the file or notebook that is run."
        ) from error


def calls_on_workers(
    client: Any, function: Callable[..., Any], shared: Any, arguments: Sequence[Any]
) -> Generator[tuple[int, Callable[[], Any]]]:
    """`function(shared, argument)` for each argument, on the workers of a cluster.

    A worker unpacks `shared` once for all its calls, so what that keeps of one is there for the
    next. A call whose worker is lost is made again by another.

    Args:
        client: of Dask.
        function: importable, or of the script or notebook that is run.
        shared: what all calls need.
        arguments: of each call.

    Yields:
        The index of an argument whose call has ended, and a function that returns what it
        returned, or raises its error, while the generator is open. Closing it gives up the rest.
    """
    from distributed import as_completed

    common = held_by_scheduler(client, (function, shared))
    futures = {
        client.submit(_call, common, packed(argument), pure=False): index
        for index, argument in enumerate(arguments)
    }
    try:
        for future in as_completed(futures):
            yield futures[future], partial(_result, future)
    finally:
        for future in futures:
            future.cancel()


def divided(count: int, workers: int) -> list[list[int]]:
    """[begin, end] of chains or members shared as evenly as they can be by so many workers."""
    shares = min(count, max(workers, 1))
    ends = [count * i // shares for i in range(shares + 1)]
    return [[begin, end] for begin, end in pairwise(ends)]


def held_by_scheduler(client: Any, value: Any) -> Any:
    """A task whose result is the value, `packed`, for others to share.

    A task and not scattered data, which would go with the worker that has them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        return client.submit(_same, packed(value), pure=False)


def _same(value: bytes) -> bytes:
    return value


@lru_cache(maxsize=2)
def _unpacked_once(value: bytes) -> Any:
    return unpacked(value)


def _call(common: bytes, argument: bytes) -> bytes:
    function, shared = _unpacked_once(common)
    return packed(function(shared, unpacked(argument)))


def _result(future: Any) -> Any:
    return unpacked(future.result())
