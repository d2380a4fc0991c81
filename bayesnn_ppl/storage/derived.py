"""Groups that are made from the draws and kept with them in the store, such as `log_likelihood`.

They are written when a run is complete, are of all its draws, and can be made again. So no commit
counts them: `config.json` names them and the number of draws that they are of, and where a run has
more draws by now, they are left unread. The next draw that is written removes them.
"""

import itertools
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import read_json
from bayesnn_ppl.storage.dimensions import labelled
from bayesnn_ppl.storage.hostile import check_chunk, check_store, packing_of

GROUPS = (
    "log_likelihood",
    "log_prior",
    "posterior_predictive",
    "observed_data",
    "constant_data",
    "functions",
)
_CHUNK_BYTES = 2**24
_MOST_CHUNKS = 1_000_000


def write_groups(store: Path, groups: Mapping[str, xr.Dataset]) -> None:
    """Write groups into the store, in place of those of the same names."""
    import zarr

    remove_groups(store, groups)
    # Chunks of zeros are written too: a missing file means damage.
    with zarr.config.set({"array.write_empty_chunks": True}):
        root: Any = zarr.open_group(store, mode="r+")
        for name, dataset in groups.items():
            group = root.create_group(name)
            group.attrs.update(dataset.attrs)
            for variable, array in {**dataset.coords, **dataset.data_vars}.items():
                _write_array(group, str(variable), array)


def _write_array(group: Any, name: str, array: xr.DataArray) -> None:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    values = np.asarray(array.values)
    chunk = [max(n, 1) for n in values.shape]
    if array.dims[:2] == ("chain", "draw"):
        one = max(values[:, :1].nbytes, 1)
        chunk[1] = int(np.clip(_CHUNK_BYTES // one, 1, chunk[1]))
    stored = group.create_array(
        name,
        shape=values.shape,
        chunks=tuple(chunk),
        dtype=values.dtype,
        dimension_names=array.dims,
        fill_value=np.nan if values.dtype.kind == "f" else 0,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
    )
    stored[...] = values


def remove_groups(store: Path, names: Sequence[str] | Mapping[str, Any]) -> None:
    """Remove groups from the store, if they are there."""
    for name in names:
        shutil.rmtree(store / name, ignore_errors=True)


def check_groups(store: Path, names: Sequence[str]) -> None:
    """Look at every chunk, without unpacking it."""
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise ValueError(f"`{store}` is damaged: it names a group {str(unknown[0])[:60]!r}.")
    check_store(store, dict.fromkeys(names, 1))
    for name in names:
        for array in sorted((store / name).iterdir()):
            if array.is_dir():
                packing = packing_of(array)
                for file in _chunk_files(array):
                    if not file.is_file():
                        raise ValueError(
                            f"A chunk of `{name}/{array.name}` in `{store}` is missing. The draws "
                            "are not touched; `bayesnn check --repair` removes the group."
                        )
                    check_chunk(file, packing)


def _chunk_files(array: Path) -> Iterator[Path]:
    metadata = read_json(array / "zarr.json")
    chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    counts = [-(-size // one) for size, one in zip(metadata["shape"], chunk, strict=True)]
    if math.prod(counts) > _MOST_CHUNKS:
        raise ValueError(f"`{array}` is damaged: it says that it has {math.prod(counts)} chunks.")
    for index in itertools.product(*map(range, counts)):
        yield array.joinpath("c", *map(str, index))


def read_groups(store: Path, names: Sequence[str]) -> dict[str, xr.Dataset]:
    """Open groups; values are read when they are used."""
    import zarr

    check_groups(store, names)
    # By then a file may be gone, and must not read as NaN.
    with zarr.config.set({"array.read_missing_chunks": False}):
        return {
            name: labelled(
                xr.open_dataset(store, group=name, engine="zarr", consolidated=False), name
            )
            for name in names
        }
