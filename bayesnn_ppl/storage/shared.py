"""A run folder that several processes write to: each its own chains' draws, and one commits.

Every process writes a journal of its own chains, and its part of the sampler's state, and makes
them durable. When all have said so, process 0 cuts the journals into whole chunks and renames
`commit.json` into place. So there is one record, as where one process writes; a process that dies
at any moment leaves the last one as it was.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from bayesnn_ppl.distributed import Alone
from bayesnn_ppl.storage.commits import files_of, read_commit, read_config
from bayesnn_ppl.storage.files import write_arrays, write_json, writing_to
from bayesnn_ppl.storage.folder import RunFolder
from bayesnn_ppl.storage.reading import read_record
from bayesnn_ppl.storage.remote import mirror_of
from bayesnn_ppl.storage.zarr_store import Block, write_chunks


class SharedFolder(RunFolder):
    """This process's view of a run folder that a team writes to.

    Attributes:
        team: the processes.
        chains: (begin, end) of the chains that this one writes.
    """

    def __init__(
        self,
        path: Path,
        config: dict[str, Any],
        record: dict[str, Any],
        *,
        team: Alone,
        chains: tuple[int, int],
    ) -> None:
        self.team, self.chains = team, chains
        super().__init__(path, config, record, locked=team.leads)

    @classmethod
    def shared(cls, path: Path, team: Alone, chains: tuple[int, int], create: Any = None) -> Self:
        """Open a run for a team, process 0 first; an error of its own is told to the others.

        Args:
            path: the folder.
            team, chains: as for the class.
            create: for a new run, what process 0 calls to make the folder.
        """
        if team.leads and create is not None:
            create().release()
        team.agree("the folder is there")
        if not team.leads and (mirror := mirror_of(path)) is not None:
            mirror.fetch()
        folder = cls(path, read_config(path), read_commit(path), team=team, chains=chains)
        if team.leads or folder.mirror is not None:
            folder._remove_stale()
        if team.leads and folder.mirror is not None:
            folder.mirror.remove_uncommitted()
        if folder.commit_record["draws"]:
            folder._tail_draws = folder.commit_record["draws"] - folder._whole()
        team.agree("the folder is open")
        return folder

    def _write_config(self) -> None:
        if self.team.leads:
            super()._write_config()

    def _create_store(self, groups: Mapping[str, Block]) -> None:
        """Process 0 lays out the store, for the chains of all."""
        if self.team.leads:
            chains = self.config["chains"]
            whole = {
                group: {
                    name: np.broadcast_to(a[:1, :1], (chains, 1, *a.shape[2:]))
                    for name, a in block.items()
                }
                for group, block in groups.items()
            }
            super()._create_store(whole)
        self.config["storage"] = self.team.agree(self.config.get("storage"))[0]

    def commit(
        self,
        state: Block | None,
        *,
        phase: str,
        done: int,
        complete: bool = False,
        moments: Block | None = None,
    ) -> None:
        with writing_to(self.path, self.kept_so_far):
            record = self.commit_record | {
                "phase": phase, "done": done, "complete": complete, "seconds": self.seconds
            }  # fmt: skip
            record["draws"] += self._fresh
            mine: dict[str, Any] = {}
            draws = record["draws"]
            if self.chains[1] > self.chains[0]:
                if self._fresh:
                    mine["journal"] = self._write_own_journal(draws)
                if state is not None:
                    # A name that no commit had: the last one counts until this one does.
                    name = f"checkpoint/{phase}-{done:09d}-{draws:09d}"
                    mine["checkpoint"] = self._own(self._unused(name), state)
                if moments:
                    name = f"checkpoint/moments-{draws:09d}"
                    mine["moments"] = self._own(self._unused(name), moments)
            if self.mirror is not None:
                self.mirror.put(entry["file"] for entry in mine.values())
            said = self.team.agree(mine)
            parts = {
                what: [entry[what] for entry in said if what in entry]
                for what in ("journal", "checkpoint", "moments")
            }
            record["journal"] = [*record["journal"], *parts["journal"]]
            if state is not None:
                record["checkpoint"] = parts["checkpoint"]
            if moments:
                record["moments"] = parts["moments"]
            before = files_of(self.commit_record)
            if self.mirror is not None and self.team.leads:
                self.mirror.get(files_of(record))
            self._fold(record, complete=complete)
            if self.team.leads:
                write_json(self.path / "commit.json", record)
            self.commit_record, self._fresh, self._tail = record, 0, {}
            if self.team.leads or self.mirror is not None:
                # Only what the last record named: others may be writing for the next already.
                for file in before - files_of(record):
                    (self.path / file).unlink(missing_ok=True)
        self._send(strict=complete)

    def _send(self, *, strict: bool) -> None:
        if self.team.leads:
            super()._send(strict=strict)

    def _unused(self, name: str) -> str:
        taken = files_of(self.commit_record)
        again = ""
        while self._name(name + again) in taken:
            again += "-again"
        return name + again

    def _name(self, name: str) -> str:
        return f"{name}.chains-{self.chains[0]}-{self.chains[1]}.npz"

    def _own(self, name: str, arrays: Block) -> dict[str, Any]:
        """Write a file of this process's chains; returns what the record says of it."""
        name = self._name(name)
        checksum = write_arrays(self.path / name, arrays)
        return {"file": name, "crc32": checksum, "chains": list(self.chains)}

    def _write_own_journal(self, draws: int) -> dict[str, Any]:
        begin = draws - self._fresh
        arrays = {
            f"{group}/{name}": np.concatenate(parts, axis=1)
            for group, block in self._tail.items()
            for name, parts in block.items()
        }
        entry = self._own(f"journal/{begin:09d}-{draws:09d}", arrays)
        return entry | {"begin": begin, "end": draws}

    def _fold(self, record: dict[str, Any], *, complete: bool) -> None:
        """Bring the journals of all into the store, as far as they fill whole chunks."""
        count, whole = self._full(complete=complete)
        if not count:
            return
        begin = record["draws"] - self._tail_draws
        if self.team.leads:
            tree = read_record(self.path, record, first=begin)
            blocks = {
                group: {str(name): [a.values] for name, a in tree[group].data_vars.items()}
                for group in self._groups
            }
            write_chunks(self.path, self.config, blocks, begin, count)
        record["in_store"] = begin + count
        record["journal"] = [e for e in record["journal"] if e["end"] > record["in_store"]]
        self._tail_draws -= whole

    def own(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """This process's chains of arrays that hold all."""
        begin, end = self.chains
        return {name: array[begin:end] for name, array in arrays.items()}

    def load_moments(self) -> dict[str, np.ndarray] | None:
        found = super().load_moments()
        return None if found is None else self.own(found)

    def keep_starts(self, starts: Block) -> None:
        """Write down where all chains start; process 0 does, since each is given all starts."""
        if self.team.leads:
            super().keep_starts(starts)
        self.config["starts"] = self.team.agree(self.config.get("starts"))[0]

    def update_config(self, **entries: Any) -> None:
        if self.team.leads:
            super().update_config(**entries)
        self.config |= entries

    def settle(self) -> None:
        if self.mirror is not None and not self.team.leads:
            self.mirror.fetch()

    def release(self) -> None:
        if self.team.leads:
            super().release()
