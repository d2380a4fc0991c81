"""The folder of a run: one writer, many readers, and nothing committed is ever lost.

    config.json       what the run is: provenance, hashes, requested draws
    posterior.zarr/   the DataTree; whole chunks of draws
    journal/          the draws since the last whole chunk
    checkpoint/       the sampler's state at the last commit
    commit.json       the one record of what counts: how many draws, in which files

A commit writes chunks that have become whole, then the journal, then the checkpoint, and last,
in one rename, `commit.json`. Readers trust `commit.json` alone: what a crash leaves behind beyond
it is written over by the next commit. A chunk is only ever replaced by one that begins with the
same draws.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.files import read_arrays, write_arrays, write_json
from bayesnn_ppl.storage.reading import FORMAT, GROUPS, STORE, chunk_file, read, read_commit
from bayesnn_ppl.storage.tree import PROVENANCE, dimension_names

__all__ = ["COMMAND", "RunFolder", "write"]

COMMAND = "run.json"  # the command line's own note of model and data, which may be there before
_CHUNK_BYTES = 2**24  # of all variables together, so that the journal stays small
_MOST_CHUNK_DRAWS = 4096

type Block = Mapping[str, np.ndarray]


class RunFolder:
    """A run folder, open for writing.

    Attributes:
        path: the folder.
        config: what `config.json` holds.
        commit_record: what `commit.json` holds.
    """

    def __init__(self, path: Path, config: dict[str, Any], record: dict[str, Any]) -> None:
        self.path, self.config, self.commit_record = path, config, record
        self._lock = _lock(path)
        # Draws since the last whole chunk, by group; `_fresh` of them are not in the journal.
        self._tail: dict[str, dict[str, list[np.ndarray]]] = {g: {} for g in GROUPS}
        self._tail_draws = self._fresh = 0

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> Self:
        """Start a new run in a folder that does not exist or is empty.

        Raises:
            FileExistsError: it holds something.
        """
        if path.exists() and (
            not path.is_dir() or any(file.name != COMMAND for file in path.iterdir())
        ):
            raise FileExistsError(
                f"`{path}` exists and is not empty. Choose another folder, or remove it first: "
                "a run is never written over. To go on with a run, `resume` it."
            )
        for part in (path, path / "journal", path / "checkpoint"):
            part.mkdir(parents=True, exist_ok=True)
        record = {
            "format": FORMAT,
            "phase": "warmup",
            "done": 0,
            "draws": 0,
            "in_store": 0,
            "journal": [],
            "checkpoint": None,
            "complete": False,
        }
        folder = cls(path, dict(config), record)
        folder._write_config()
        write_json(path / "commit.json", record)
        return folder

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Open a run to go on with it.

        Raises:
            FileNotFoundError: there is no run.
            ValueError: a committed file is missing or damaged.
            BlockingIOError: another process writes to it.
        """
        record = read_commit(path)
        folder = cls(path, json.loads((path / "config.json").read_text()), record)
        try:
            if record["draws"]:
                folder._load_tail()
        except BaseException:
            folder.release()
            raise
        return folder

    def _load_tail(self) -> None:
        """Bring the draws since the last whole chunk back into memory."""
        chunk = self.config["storage"]["chunk_draws"]
        whole = self.commit_record["in_store"] // chunk * chunk
        tail = read(self.path, first=whole)
        for group in GROUPS:
            self._tail[group] = {str(name): [a.values] for name, a in tail[group].data_vars.items()}
        self._tail_draws = self.commit_record["draws"] - whole

    def _write_config(self) -> None:
        write_json(self.path / "config.json", self.config)

    def append(self, draws: Block, statistics: Block) -> None:
        """Add a block of draws (chain, block, ...); durable after the next `commit`."""
        if "storage" not in self.config:
            self._create_store(draws, statistics)
        count = 0
        for group, block in zip(GROUPS, (draws, statistics), strict=True):
            for name, array in block.items():
                self._tail[group].setdefault(name, []).append(array)
                count = array.shape[1]
        self._tail_draws += count
        self._fresh += count

    @property
    def holds_a_chunk(self) -> bool:
        """Whether the draws in memory fill a chunk, which a commit would write out."""
        storage = self.config.get("storage")
        return storage is not None and self._tail_draws >= storage["chunk_draws"]

    def _create_store(self, draws: Block, statistics: Block) -> None:
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec

        arrays = [a for block in (draws, statistics) for a in block.values()]
        per_draw = sum(a[:, :1].nbytes for a in arrays)
        chunk = int(np.clip(_CHUNK_BYTES // max(per_draw, 1), 1, _MOST_CHUNK_DRAWS))
        root = zarr.open_group(self.path / STORE, mode="w", zarr_format=3)
        root.attrs[PROVENANCE] = json.dumps(self.config)
        for group_name, block in zip(GROUPS, (draws, statistics), strict=True):
            group = root.create_group(group_name)
            for name, array in block.items():
                group.create_array(
                    name,
                    shape=(array.shape[0], 0, *array.shape[2:]),
                    chunks=(array.shape[0], chunk, *(max(n, 1) for n in array.shape[2:])),
                    dtype=array.dtype,
                    dimension_names=dimension_names(name, array.ndim),
                    fill_value=np.nan if array.dtype.kind == "f" else 0,
                    # Without the checksum a torn chunk could decompress to other numbers.
                    compressors=[ZstdCodec(level=1), Crc32cCodec()],
                )
            chains = np.arange(arrays[0].shape[0])
            group.create_array("chain", data=chains, dimension_names=("chain",))
            group.create_array(
                "draw", shape=(0,), chunks=(2**16,), dtype="int64", dimension_names=("draw",)
            )
        self.config["storage"] = {"chunk_draws": chunk}
        self._write_config()

    def commit(self, state: Block | None, *, phase: str, done: int, complete: bool = False) -> None:
        """Make everything appended so far, and the sampler's state, durable in one step.

        Args:
            state: the sampler's state as named arrays; None keeps no checkpoint.
            phase: "warmup" or "sample".
            done: draws of the phase that are made.
            complete: also write a last chunk that is not whole, and leave no journal.
        """
        record = dict(self.commit_record, phase=phase, done=done, complete=complete)
        record["draws"] += self._fresh
        in_store = self._flush(complete=complete)
        if in_store is not None:
            record["in_store"], record["journal"] = in_store, []
        if record["draws"] > record["in_store"] and (self._fresh or in_store is not None):
            record["journal"] = [*record["journal"], self._write_journal(record)]
        if state is not None:
            name = f"checkpoint/{phase}-{done:09d}.npz"
            record["checkpoint"] = [name, write_arrays(self.path / name, state)]
        write_json(self.path / "commit.json", record)
        self.commit_record, self._fresh = record, 0
        self._remove_stale()

    def _write_journal(self, record: dict[str, Any]) -> list[Any]:
        """Write the draws that neither store nor journal holds; returns [name, first, crc]."""
        held = record["journal"][-1][1] if record["journal"] else record["in_store"]
        count = record["draws"] - held
        arrays = {
            f"{group}/{name}": np.concatenate(parts, axis=1)[:, -count:]
            for group, block in self._tail.items()
            for name, parts in block.items()
        }
        name = f"journal/{held:09d}-{record['draws']:09d}.npz"
        return [name, record["draws"], write_arrays(self.path / name, arrays)]

    def _flush(self, *, complete: bool) -> int | None:
        """Write whole chunks, or everything; returns how many draws the store holds then."""
        if not self._tail_draws:
            return None
        chunk = self.config["storage"]["chunk_draws"]
        count = self._tail_draws if complete else self._tail_draws // chunk * chunk
        if not count:
            return None
        import zarr

        begin = self.commit_record["draws"] + self._fresh - self._tail_draws
        # A chunk of nothing but zeros is written too: a missing file means damage.
        with zarr.config.set({"array.write_empty_chunks": True}):
            root: Any = zarr.open_group(self.path / STORE, mode="r+")
            for group, block in self._tail.items():
                for name, parts in block.items():
                    joined = np.concatenate(parts, axis=1)
                    array = root[f"{group}/{name}"]
                    array.resize((joined.shape[0], begin + count, *joined.shape[2:]))
                    array[:, begin : begin + count] = joined[:, :count]
                    # Copied: a view would keep the whole block in memory.
                    block[name] = [joined[:, count // chunk * chunk :].copy()]
                root[f"{group}/draw"].resize((begin + count,))
                root[f"{group}/draw"][begin : begin + count] = np.arange(begin, begin + count)
        self._synchronise(begin, count, chunk)
        self._tail_draws -= count // chunk * chunk
        return begin + count

    def _synchronise(self, begin: int, count: int, chunk: int) -> None:
        for group, block in self._tail.items():
            for name, parts in block.items():
                for index in range(begin // chunk, -(-(begin + count) // chunk)):
                    file = os.open(
                        chunk_file(self.path, group, name, index, parts[0].ndim), os.O_RDONLY
                    )
                    try:
                        os.fsync(file)
                    finally:
                        os.close(file)

    def _remove_stale(self) -> None:
        record = self.commit_record
        kept = {entry[0] for entry in record["journal"]}
        if record["checkpoint"]:
            kept.add(record["checkpoint"][0])
        for folder in ("journal", "checkpoint"):
            for file in (self.path / folder).iterdir():
                if f"{folder}/{file.name}" not in kept:
                    file.unlink()

    def load_state(self) -> dict[str, np.ndarray]:
        """The sampler's state at the last commit.

        Raises:
            ValueError: there is none, or it is damaged.
        """
        if self.commit_record["checkpoint"] is None:
            raise ValueError(f"The run `{self.path}` has no checkpoint to go on from.")
        name, checksum = self.commit_record["checkpoint"]
        return read_arrays(self.path / name, checksum)

    def update_config(self, **entries: Any) -> None:
        """Change entries of the configuration, such as wall times or the draws wanted."""
        self.config |= entries
        self._write_config()
        if (self.path / STORE).is_dir():
            import zarr

            zarr.open_group(self.path / STORE, mode="r+").attrs[PROVENANCE] = json.dumps(
                self.config
            )

    def release(self) -> None:
        """Let another process write to the folder."""
        os.close(self._lock)


def _lock(path: Path) -> int:
    """Take the folder for this process; the system gives it back when the process ends."""
    lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = (path / "lock").read_text().strip() or "unknown"
        os.close(lock)
        raise BlockingIOError(
            f"Another process (number {owner}) is writing to `{path}`. Wait for it, or choose "
            "another folder."
        ) from None
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return lock


def write(tree: xr.DataTree, path: Path) -> Path:
    """Write a posterior that is in memory as a finished run.

    Raises:
        FileExistsError: the folder exists and is not empty.
    """
    folder = RunFolder.create(path, json.loads(tree.attrs.get(PROVENANCE, "{}")))
    try:
        blocks = [
            {str(name): a.values for name, a in tree[group].data_vars.items()} for group in GROUPS
        ]
        folder.append(*blocks)
        done = folder._fresh
        folder.commit(None, phase="sample", done=done, complete=True)
    finally:
        folder.release()
    return path
