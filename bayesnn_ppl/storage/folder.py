"""The folder of a run: one writer, many readers, and nothing committed is ever lost.

    config.json       what the run is: provenance, hashes, requested draws
    posterior.zarr/   the DataTree; whole chunks of draws
    journal/          the draws since the last whole chunk
    checkpoint/       the sampler's state at the last commit; means and variances of the weights
    probe.npz         the inputs, and perhaps targets, at which function values are kept
    starts.npz        where the chains started, and what their networks said there
    metrics.csv       how the run went, a line for each commit
    commit.json       the one record of what counts: how many draws, in which files

A commit writes chunks that have become whole, then the journal, then the checkpoint, and last,
in one rename, `commit.json`. Readers trust `commit.json` alone: what a crash leaves behind beyond
it is written over by the next commit. A chunk is only ever replaced by one that begins with the
same draws.
"""

import fcntl
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import empty_record, files_of, read_commit, read_config
from bayesnn_ppl.storage.derived import GROUPS, remove_groups, write_groups
from bayesnn_ppl.storage.dimensions import dimension_names
from bayesnn_ppl.storage.files import read_arrays, write_arrays, write_json, writing_to
from bayesnn_ppl.storage.reading import (
    STORE,
    chunk_file,
    kept_before,
    read,
    read_parts,
    stored_groups,
)
from bayesnn_ppl.storage.remote import Mirror
from bayesnn_ppl.storage.tree import (
    MOMENTS,
    PROBE,
    PROVENANCE,
    STARTS,
    draw_numbers,
)

__all__ = ["COMMAND", "RunFolder", "write"]

COMMAND = "run.json"  # the command line's own note of model and data, which may be there before
_READERS_SECONDS = 0.1  # more than a reader holds the lock
_CHUNK_BYTES = 2**24  # of all variables together, so that the journal stays small
_MOST_CHUNK_DRAWS = 4096
_PARTS = ("journal", "checkpoint")
_MOST_PARTS = 64  # arrays that a tail is held in

type Block = Mapping[str, np.ndarray]


class RunFolder:
    """A run folder, open for writing.

    Attributes:
        path: the folder.
        config: what `config.json` holds.
        commit_record: what `commit.json` holds.
        mirror: what sends its commits to an address; None of a run that is only here.
    """

    def __init__(
        self, path: Path, config: dict[str, Any], record: dict[str, Any], *, locked: bool = True
    ) -> None:
        self.path, self.config, self.commit_record = path, config, record
        self._lock = _lock(path) if locked else -1
        for part in _PARTS:  # object stores, and copies made with them, have no empty folders
            (path / part).mkdir(exist_ok=True)
        self.mirror = Mirror.of(path)
        # Draws since the last whole chunk, by group; `_fresh` of them are not in the journal.
        self._tail: dict[str, dict[str, list[np.ndarray]]] = {}
        self._tail_draws = self._fresh = 0

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, Any],
        *,
        every: Mapping[str, int] | None = None,
        probe: Block | None = None,
    ) -> Self:
        """Start a new run in a folder that does not exist or is empty.

        Args:
            path: the folder.
            config: provenance, JSON-ready.
            every: group of variables -> k, to keep the last of every k of its draws only.
            probe: the inputs `x`, and perhaps targets `y`, at which function values are kept.

        Raises:
            FileExistsError: it holds something.
            ValueError: it is an address that has become a path, which has lost a slash.
        """
        scheme = path.parts[0] if path.parts else ""
        if scheme.endswith(":") and len(scheme) > 2 and not path.exists():
            raise ValueError(
                f"`{path}` was an address before it was made a path. Give the address as a text."
            )
        mirror = Mirror.of(path)
        if mirror is not None:
            mirror.require_nothing_there()
        if path.exists() and (
            not path.is_dir() or any(file.name != COMMAND for file in path.iterdir())
        ):
            raise FileExistsError(
                f"`{path}` exists and is not empty. Choose another folder, or remove it first: "
                "a run is never written over. To go on with a run, `resume` it."
            )
        record = empty_record()
        with writing_to(path, lambda: "Choose a folder for `out` that is not read-only."):
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path, dict(config) | {"every": dict(every or {})}, record)
            try:
                if probe is not None:
                    folder.config["probe"] = ["probe.npz", write_arrays(path / "probe.npz", probe)]
                folder._write_config()
                write_json(path / "commit.json", record)
                folder._send(strict=True)
            except BaseException:
                folder.release()
                raise
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
        folder = cls(path, read_config(path), record)
        try:
            # Again, now that nobody else writes: one that has just ended may have committed since.
            folder.config, folder.commit_record = read_config(path), read_commit(path)
            if folder.mirror is not None:
                folder.mirror.remove_uncommitted()
            if folder.commit_record["draws"]:
                folder._load_tail()
        except BaseException:
            folder.release()
            raise
        return folder

    def _load_tail(self) -> None:
        """Bring the draws since the last whole chunk back into memory."""
        chunk = self.config["storage"]["chunk_draws"]
        whole = self.commit_record["in_store"] // chunk * chunk
        if self.commit_record["draws"] == whole:  # there are none
            return
        tail = read(self.path, first=whole)
        for group in self._groups:
            self._tail[group] = {str(name): [a.values] for name, a in tail[group].data_vars.items()}
        self._tail_draws = self.commit_record["draws"] - whole

    @property
    def _groups(self) -> dict[str, int]:
        """Group -> how many draws one that it keeps stands for."""
        return stored_groups(self.config)

    def _write_config(self) -> None:
        write_json(self.path / "config.json", self.config)

    def append(self, groups: Mapping[str, Block]) -> None:
        """Add a block of draws, group -> variable -> (chain, block, ...).

        They are durable after the next `commit`. A group that keeps every k-th draw takes its
        own from the block.
        """
        if self.config.get("derived"):
            self._remove_groups()
        if "storage" not in self.config:
            with writing_to(self.path, self.kept_so_far):
                self._create_store(groups)
        begin = self.commit_record["draws"] + self._fresh
        for group, every in self._groups.items():
            first, tail = -(begin + 1) % every, self._tail.setdefault(group, {})
            for name, array in groups[group].items():
                parts = tail.setdefault(name, [])
                # Copied: a short block is a view of a buffer for the longest one.
                parts.append(array[:, first::every].copy())
                if len(parts) > _MOST_PARTS:
                    parts[:] = [np.concatenate(parts, axis=1)]
                count = array.shape[1]
        self._tail_draws += count
        self._fresh += count

    def kept_so_far(self) -> str:
        """What a failed write leaves, and what to do."""
        draws = self.commit_record["draws"]
        return (
            f"The {draws} draws per chain that were committed before are kept. Make it writable or "
            "make room, and go on with `resume`."
        )

    @property
    def holds_a_chunk(self) -> bool:
        """Whether the draws in memory fill a chunk, which a commit would write out."""
        storage = self.config.get("storage")
        return storage is not None and self._tail_draws >= storage["chunk_draws"]

    def _create_store(self, groups: Mapping[str, Block]) -> None:
        import zarr
        from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

        every = {group: self.config.get("every", {}).get(group, 1) for group in groups}
        arrays = [a for block in groups.values() for a in block.values()]
        per_draw = sum(
            a[:, :1].nbytes // every[group] for group in groups for a in groups[group].values()
        )
        chunk = int(np.clip(_CHUNK_BYTES // max(per_draw, 1), 1, _MOST_CHUNK_DRAWS))
        most = math.lcm(*every.values())
        chunk = max(chunk // most, 1) * most
        root = zarr.open_group(self.path / STORE, mode="w", zarr_format=3)
        root.attrs[PROVENANCE] = json.dumps(self.config)
        # Numbers rounded to bfloat16 have two bytes of zeros each, which shuffling brings together.
        rounded = self.config.get("keep", {}).get("bfloat16", False)
        squeeze = (
            BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=4)
            if rounded
            else ZstdCodec(level=1)
        )
        for group_name, block in groups.items():
            group = root.create_group(group_name)
            chunk_of_group = chunk // every[group_name]
            for name, array in block.items():
                group.create_array(
                    name,
                    shape=(array.shape[0], 0, *array.shape[2:]),
                    chunks=(array.shape[0], chunk_of_group, *(max(n, 1) for n in array.shape[2:])),
                    dtype=array.dtype,
                    dimension_names=dimension_names(name, array.ndim, group_name),
                    fill_value=np.nan if array.dtype.kind == "f" else 0,
                    # Without the checksum a torn chunk could decompress to other numbers.
                    compressors=[
                        squeeze if group_name == "posterior" else ZstdCodec(level=1),
                        Crc32cCodec(),
                    ],
                )
            sizes = {"chain": arrays[0].shape[0]}
            for name, array in block.items():
                axes = dimension_names(name, array.ndim, group_name)
                sizes |= dict(zip(axes[2:], array.shape[2:], strict=True))
            for axis, size in sizes.items():
                group.create_array(axis, data=np.arange(size), dimension_names=(axis,))
            group.create_array(
                "draw", shape=(0,), chunks=(2**16,), dtype="int64", dimension_names=("draw",)
            )
        self.config["storage"] = {"chunk_draws": chunk, "groups": every}
        self._write_config()

    def commit(
        self,
        state: Block | None,
        *,
        phase: str,
        done: int,
        complete: bool = False,
        moments: Block | None = None,
    ) -> None:
        """Make everything appended so far, and the sampler's state, durable in one step.

        Args:
            state: the sampler's state as named arrays; None keeps no checkpoint.
            moments: `"<group>/<variable>"` -> array, of all draws so far; the groups are
                "posterior_mean" and "posterior_variance".
            phase: "warmup" or "sample", or the stage of a fit.
            done: draws of the phase that are made.
            complete: also write a last chunk that is not whole, and leave no journal.
        """
        with writing_to(self.path, self.kept_so_far):
            record = dict(self.commit_record, phase=phase, done=done, complete=complete)
            record["draws"] += self._fresh
            in_store = self._flush(complete=complete)
            if in_store is not None:
                record["in_store"], record["journal"] = in_store, []
            if record["draws"] > record["in_store"] and (self._fresh or in_store is not None):
                entry = self._write_journal(record)
                record["journal"] = [*record["journal"], entry]
            if state is not None:
                name = f"checkpoint/{phase}-{done:09d}.npz"
                if record["checkpoint"] and record["checkpoint"][0]["file"] == name:
                    # As where a training is begun again: the last one is good until this one is.
                    name = f"checkpoint/{phase}-{done:09d}-again.npz"
                record["checkpoint"] = [self._entry(name, state)]
            if moments:
                name = f"checkpoint/moments-{record['draws']:09d}.npz"
                record["moments"] = [self._entry(name, moments)]
            write_json(self.path / "commit.json", record)
            self.commit_record, self._fresh = record, 0
            self._remove_stale()
        self._send(strict=complete)

    def _send(self, *, strict: bool) -> None:
        if self.mirror is not None:
            self.mirror.send(strict=strict)

    def _entry(self, name: str, arrays: Block) -> dict[str, Any]:
        """Write a file of all chains; returns what the record says of it."""
        return {"file": name, "crc32": write_arrays(self.path / name, arrays), "chains": None}

    def _write_journal(self, record: dict[str, Any]) -> dict[str, Any]:
        """Write the draws that neither store nor journal holds; returns their entry."""
        held = record["journal"][-1]["end"] if record["journal"] else record["in_store"]
        arrays = {}
        for group, block in self._tail.items():
            every = self._groups[group]
            count = kept_before(record["draws"], every) - kept_before(held, every)
            for name, parts in block.items():
                joined = np.concatenate(parts, axis=1)
                arrays[f"{group}/{name}"] = joined[:, joined.shape[1] - count :]
        name = f"journal/{held:09d}-{record['draws']:09d}.npz"
        return self._entry(name, arrays) | {"begin": held, "end": record["draws"]}

    def _flush(self, *, complete: bool) -> int | None:
        """Write whole chunks, or everything; returns how many draws the store holds then."""
        if not self._tail_draws:
            return None
        chunk = self.config["storage"]["chunk_draws"]
        count = self._tail_draws if complete else self._tail_draws // chunk * chunk
        if not count:
            return None
        begin = self.commit_record["draws"] + self._fresh - self._tail_draws
        self._write_chunks(self._tail, begin, count)
        for group, block in self._tail.items():
            whole = count // chunk * chunk // self._groups[group]
            for name, parts in block.items():
                # Copied: a view would keep the whole block in memory.
                block[name] = [np.concatenate(parts, axis=1)[:, whole:].copy()]
        self._tail_draws -= count // chunk * chunk
        return begin + count

    def _write_chunks(
        self, tail: Mapping[str, dict[str, list[np.ndarray]]], begin: int, count: int
    ) -> None:
        """Write the first `count` draws of the tail, which begins with a whole chunk, durably."""
        import zarr

        # A chunk of nothing but zeros is written too: a missing file means damage.
        with zarr.config.set({"array.write_empty_chunks": True}):
            root: Any = zarr.open_group(self.path / STORE, mode="r+")
            for group, block in tail.items():
                every = self._groups[group]
                first, last = kept_before(begin, every), kept_before(begin + count, every)
                for name, parts in block.items():
                    joined = np.concatenate(parts, axis=1)
                    array = root[f"{group}/{name}"]
                    array.resize((joined.shape[0], last, *joined.shape[2:]))
                    array[:, first:last] = joined[:, : last - first]
                root[f"{group}/draw"].resize((last,))
                root[f"{group}/draw"][first:last] = draw_numbers(begin, begin + count, every)
        self._synchronise(tail, begin, count)

    def _synchronise(
        self, tail: Mapping[str, dict[str, list[np.ndarray]]], begin: int, count: int
    ) -> None:
        chunk = self.config["storage"]["chunk_draws"]
        for group, block in tail.items():
            every = self._groups[group]
            chunks = -(-kept_before(begin + count, every) // (chunk // every))
            for name, parts in block.items():
                for index in range(begin // chunk, chunks):
                    file = os.open(
                        chunk_file(self.path, group, name, index, parts[0].ndim), os.O_RDONLY
                    )
                    try:
                        os.fsync(file)
                    finally:
                        os.close(file)

    def _remove_stale(self) -> None:
        record = self.commit_record
        kept = files_of(record)
        for folder in _PARTS:
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
        return read_parts(self.path, self.commit_record["checkpoint"])

    def keep_starts(self, starts: Block) -> None:
        """Write down where the chains start, `"<group>/<variable>"` -> (chain, ...)."""
        with writing_to(self.path, self.kept_so_far):
            checksum = write_arrays(self.path / "starts.npz", starts)
        self.update_config(starts=["starts.npz", checksum])

    def load_moments(self) -> dict[str, np.ndarray] | None:
        """The moments at the last commit; None where none are kept."""
        moments = self.commit_record["moments"]
        return read_parts(self.path, moments) if moments else None

    def load_probe(self) -> dict[str, np.ndarray] | None:
        """The probe given to `create`; None where there is none."""
        probe = self.config.get("probe")
        return read_arrays(self.path / probe[0], probe[1]) if probe else None

    def update_config(self, **entries: Any) -> None:
        """Change entries of the configuration, such as wall times or the draws wanted."""
        with writing_to(self.path, self.kept_so_far):
            self.config |= entries
            self._write_config()
            if (self.path / STORE).is_dir():
                import zarr

                zarr.open_group(self.path / STORE, mode="r+").attrs[PROVENANCE] = json.dumps(
                    self.config
                )
        self._send(strict=True)

    def keep_groups(self, groups: Mapping[str, xr.Dataset]) -> None:
        """Keep groups that are made from all draws of the run, see `storage.derived`."""
        self._remove_groups()
        with writing_to(self.path, self.kept_so_far):
            write_groups(self.path / STORE, groups)
        derived = {"groups": list(groups), "draws": self.commit_record["draws"]}
        self.update_config(derived=derived)

    def _remove_groups(self) -> None:
        derived = self.config.get("derived")
        if derived:
            self.update_config(derived=None)  # first: what is not named is not read
            remove_groups(self.path / STORE, [g for g in derived["groups"] if g in GROUPS])

    def settle(self) -> None:
        """See to it that this process can read the run, when all have written it."""

    def release(self) -> None:
        """Let another process write to the folder."""
        os.close(self._lock)


def _lock(path: Path) -> int:
    """Take the folder for this process; the system gives it back when the process ends."""
    with writing_to(
        path, lambda: "Only reading works without: load it, or copy it elsewhere first."
    ):
        lock = os.open(path / "lock", os.O_CREAT | os.O_RDWR)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps of a reader, `is_written_to`, who is gone at once
            time.sleep(_READERS_SECONDS)
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
    config = json.loads(tree.attrs.get(PROVENANCE, "{}"))
    config.pop("derived", None)
    probe = None
    if PROBE in tree.children:
        probe = {str(name): a.values for name, a in tree[PROBE].data_vars.items()}
    folder = RunFolder.create(path, config, every=config.get("every"), probe=probe)
    try:
        groups: dict[str, Block] = {}
        moments: dict[str, np.ndarray] = {}
        starts: dict[str, np.ndarray] = {}
        derived = {n: g.to_dataset() for n, g in tree.children.items() if n in GROUPS}
        for name, group in tree.children.items():
            if name in derived:
                continue
            arrays = {str(variable): a.values for variable, a in group.data_vars.items()}
            if name in STARTS:
                starts |= {f"{name}/{variable}": array for variable, array in arrays.items()}
            elif name in MOMENTS:
                moments |= {f"{name}/{variable}": array for variable, array in arrays.items()}
            elif name != PROBE:
                groups[name] = arrays
        if starts:
            folder.keep_starts(starts)
        folder._create_store(groups)
        # As it is: `append` would take every k-th draw of a group that holds only those.
        folder._tail = {g: {n: [a] for n, a in block.items()} for g, block in groups.items()}
        done = folder._tail_draws = folder._fresh = tree["sample_stats"].sizes["draw"]
        folder.commit(None, phase="sample", done=done, complete=True, moments=moments)
        if derived:
            folder.keep_groups(derived)
    finally:
        folder.release()
    return path
