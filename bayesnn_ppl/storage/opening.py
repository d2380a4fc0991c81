"""A run folder that is open for writing: its lock, its settings, and what is written only once."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl.storage.commits import empty_record, read_commit, read_config
from bayesnn_ppl.storage.derived import GROUPS, remove_groups, write_groups
from bayesnn_ppl.storage.files import lock_folder, read_arrays, write_arrays, write_json, writing_to
from bayesnn_ppl.storage.reading import read_parts
from bayesnn_ppl.storage.remote import mirror_of
from bayesnn_ppl.storage.tree import PROVENANCE
from bayesnn_ppl.storage.zarr_store import STORE, Block

COMMAND = "run.json"  # the command line's own note of model and data, which may be there before
PARTS = ("journal", "checkpoint")


class OpenFolder:
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
        self._seconds_before = record["seconds"]
        self._opened = time.perf_counter()
        self._lock = lock_folder(path) if locked else -1
        for part in PARTS:  # object stores, and copies made with them, have no empty folders
            (path / part).mkdir(exist_ok=True)
        self.mirror = mirror_of(path)

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
        mirror = mirror_of(path)
        if mirror is not None:
            mirror.require_nothing_there()
        if path.exists() and (
            not path.is_dir() or any(file.name != COMMAND for file in path.iterdir())
        ):
            raise FileExistsError(
                f"`{path}` exists and is not empty. Choose another folder, or remove it first: "
                "a run is never written over. To continue a run, `resume` it."
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
        """Open a run to resume it.

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
            folder._seconds_before = folder.commit_record["seconds"]
            if folder.mirror is not None:
                folder.mirror.remove_uncommitted()
        except BaseException:
            folder.release()
            raise
        return folder

    @property
    def seconds(self) -> float:
        """What the run has taken so far: this process's time and that of those before it."""
        return self._seconds_before + time.perf_counter() - self._opened

    def _write_config(self) -> None:
        write_json(self.path / "config.json", self.config)

    def kept_so_far(self) -> str:
        """What a failed write leaves, and what to do."""
        draws = self.commit_record["draws"]
        return (
            f"The {draws} draws per chain that were committed before are kept. Make it writable or "
            "make room, and continue with `resume`."
        )

    def _send(self, *, strict: bool) -> None:
        if self.mirror is not None:
            self.mirror.send(strict=strict)

    def load_state(self) -> dict[str, np.ndarray]:
        """The sampler's state at the last commit.

        Raises:
            ValueError: there is none, or it is damaged.
        """
        if self.commit_record["checkpoint"] is None:
            raise ValueError(f"The run `{self.path}` has no checkpoint to continue from.")
        return read_parts(self.path, self.commit_record["checkpoint"])

    def keep_starts(self, starts: Block) -> None:
        """Write down where the chains start, `"<group>/<variable>"` -> (chain, ...)."""
        with writing_to(self.path, self.kept_so_far):
            checksum = write_arrays(self.path / "starts.npz", starts)
        self.update_config(starts=["starts.npz", checksum])

    def load_starts(self) -> dict[str, np.ndarray] | None:
        """What `keep_starts` wrote down; None where nothing was."""
        starts = self.config.get("starts")
        return read_arrays(self.path / starts[0], starts[1]) if starts else None

    def load_moments(self) -> dict[str, np.ndarray] | None:
        """The moments at the last commit; None where none are kept."""
        moments = self.commit_record["moments"]
        return read_parts(self.path, moments) if moments else None

    def load_probe(self) -> dict[str, np.ndarray] | None:
        """The probe inputs given to `create`; None where there is none."""
        probe = self.config.get("probe")
        return read_arrays(self.path / probe[0], probe[1]) if probe else None

    def update_config(self, **entries: Any) -> None:
        """Change entries of the configuration, such as wall times or the draws wanted."""
        with writing_to(self.path, self.kept_so_far):
            self.config |= entries
            self._write_config()
            if (self.path / STORE).is_dir():
                import zarr

                store = zarr.open_group(self.path / STORE, mode="r+")
                store.attrs[PROVENANCE] = json.dumps(self.config)
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
