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

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import files_of
from bayesnn_ppl.storage.derived import GROUPS
from bayesnn_ppl.storage.files import write_arrays, write_json, writing_to
from bayesnn_ppl.storage.opening import PARTS, OpenFolder
from bayesnn_ppl.storage.reading import read, read_values
from bayesnn_ppl.storage.tree import MOMENTS, PROBE, PROVENANCE, STARTS
from bayesnn_ppl.storage.zarr_store import (
    Block,
    create_store,
    kept_before,
    stored_groups,
    write_chunks,
)

_MOSTPARTS = 64  # arrays that a tail is held in


class RunFolder(OpenFolder):
    """A run folder that is open for draws; see `OpenFolder`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # Draws since the last whole chunk, by group; `_fresh` of them are not in the journal.
        self._tail: dict[str, dict[str, list[np.ndarray]]] = {}
        self._tail_draws = self._fresh = 0

    @classmethod
    def reopen(cls, path: Path) -> Self:
        folder = super().reopen(path)
        try:
            if folder.commit_record["draws"]:
                folder._load_tail()
        except BaseException:
            folder.release()
            raise
        return folder

    def _load_tail(self) -> None:
        """Bring the draws since the last whole chunk back into memory."""
        whole = self._whole()
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

    def _whole(self) -> int:
        """The committed draws that fill whole chunks."""
        chunk = self.config["storage"]["chunk_draws"]
        return self.commit_record["in_store"] // chunk * chunk

    def _full(self, *, complete: bool) -> tuple[int, int]:
        """How many draws of the tail the next commit brings to the store, and those to forget."""
        if not self._tail_draws:
            return 0, 0
        chunk = self.config["storage"]["chunk_draws"]
        whole = self._tail_draws // chunk * chunk
        return self._tail_draws if complete else whole, whole

    def append(self, groups: Mapping[str, Block], *, thinned: bool = False) -> None:
        """Add a block of draws, group -> variable -> (chain, block, ...).

        They are durable after the next `commit`. A group that keeps every k-th draw takes its
        own from the block; `thinned` where the block has no others of it.
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
                parts.append((array if thinned else array[:, first::every]).copy())
                if len(parts) > _MOSTPARTS:
                    parts[:] = [np.concatenate(parts, axis=1)]
                if every == 1:
                    count = array.shape[1]
        self._tail_draws += count
        self._fresh += count

    @property
    def holds_a_chunk(self) -> bool:
        """Whether the draws in memory fill a chunk, which a commit would write out."""
        return "storage" in self.config and self._full(complete=False)[0] > 0

    def _create_store(self, groups: Mapping[str, Block]) -> None:
        self.config["storage"] = create_store(self.path, self.config, groups)
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
            record = self.commit_record | {
                "phase": phase, "done": done, "complete": complete, "seconds": self.seconds
            }  # fmt: skip
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
                    # As where a training restarts: the last one is good until this one is.
                    name = f"checkpoint/{phase}-{done:09d}-again.npz"
                record["checkpoint"] = [self._entry(name, state)]
            if moments:
                name = f"checkpoint/moments-{record['draws']:09d}.npz"
                record["moments"] = [self._entry(name, moments)]
            write_json(self.path / "commit.json", record)
            self.commit_record, self._fresh = record, 0
            self._remove_stale()
        self._send(strict=complete)

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
        count, whole = self._full(complete=complete)
        if not count:
            return None
        begin = self.commit_record["draws"] + self._fresh - self._tail_draws
        write_chunks(self.path, self.config, self._tail, begin, count)
        for group, block in self._tail.items():
            gone = kept_before(whole, self._groups[group])
            for name, parts in block.items():
                # Copied: a view would keep the whole block in memory.
                block[name] = [np.concatenate(parts, axis=1)[:, gone:].copy()]
        self._tail_draws -= whole
        return begin + count

    def _remove_stale(self) -> None:
        kept = files_of(self.commit_record)
        for folder in PARTS:
            for file in (self.path / folder).iterdir():
                if f"{folder}/{file.name}" not in kept:
                    file.unlink()


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
        once: dict[str, dict[str, np.ndarray]] = {"starts": {}, "moments": {}}
        derived = {n: g.to_dataset() for n, g in tree.children.items() if n in GROUPS}
        for name, group in tree.children.items():
            arrays = {str(v): read_values(tree, name, str(v)) for v in group.data_vars}
            if name in STARTS or name in MOMENTS:
                kind = once["starts" if name in STARTS else "moments"]
                kind |= {f"{name}/{variable}": array for variable, array in arrays.items()}
            elif name != PROBE and name not in derived:
                groups[name] = arrays
        if once["starts"]:
            folder.keep_starts(once["starts"])
        folder._create_store(groups)
        # As it is: `append` would take every k-th draw of a group that holds only those.
        folder._tail = {g: {n: [a] for n, a in block.items()} for g, block in groups.items()}
        done = folder._tail_draws = folder._fresh = tree["sample_stats"].sizes["draw"]
        folder.commit(None, phase="sample", done=done, complete=True, moments=once["moments"])
        if derived:
            folder.keep_groups(derived)
    finally:
        folder.release()
    return path
