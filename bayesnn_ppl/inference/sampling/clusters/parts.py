"""The parts of a run on a cluster: which chains each makes, where, and what they have come to.

    runs/one                        the run, in which the process that started it gathers draws
    runs/one.parts/chains-0-2       a part: a run folder of chains 0 and 1, written by a worker

A part commits by itself, and whoever continues it begins at its last commit. When all have their
draws, these and the sampler's states are gathered in the run's folder, and the parts are removed.
So a run whose folder holds a state of the sampler has no parts; what is left of them is stale.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayesnn_ppl import storage
from bayesnn_ppl.storage import RunFolder

__all__ = ["Part", "draws_of", "joined", "parts_of", "remove_parts", "split_run"]

_BLOCK = 500  # draws that are copied at a time

type Groups = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Part:
    """Some chains of a run.

    Attributes:
        chains: (begin, end) of them.
        place: folder or address of the part.
    """

    chains: tuple[int, int]
    place: str

    def record(self) -> Mapping[str, Any] | None:
        """What the part has committed; None before it has begun.

        Of a part at an address its working copy here is brought up to date.
        """
        try:
            return storage.read_commit(storage.fetched(self.place))
        except FileNotFoundError:
            return None

    def own(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Its chains of arrays that hold all."""
        return {name: array[slice(*self.chains)] for name, array in arrays.items()}


def parts_of(out: str, division: Sequence[Sequence[int]]) -> list[Part]:
    """The parts of the run in a folder or at an address."""
    return [Part((a, b), f"{_folder_of_parts(out)}/chains-{a}-{b}") for a, b in division]


def _folder_of_parts(out: str) -> str:
    return f"{out.rstrip('/')}.parts"


def remove_parts(out: str, parts: Sequence[Part]) -> None:
    """Remove the parts of a run that holds their draws."""
    for place in (*(part.place for part in parts), _folder_of_parts(out)):
        storage.remove_run(place)


def draws_of(parts: Sequence[Part], begin: int, end: int) -> Iterator[tuple[int, Groups]]:
    """Draws `begin` to `end` of all chains; yields how many there are then, and a block of them."""
    parted = [_blocks(storage.fetched(part.place), begin, end) for part in parts]
    for blocks in zip(*parted, strict=True):
        joint = {group: joined([block[group] for _, block in blocks]) for group in blocks[0][1]}
        yield blocks[0][0], joint


def _blocks(folder: Path, begin: int, end: int) -> Iterator[tuple[int, Groups]]:
    """Draws `begin` to `end` of one folder, as `draws_of`."""
    tree, config = storage.read(folder, first=begin), storage.read_config(folder)
    for first in range(begin, end, _BLOCK):
        last, block = min(first + _BLOCK, end), {}
        for group, every in storage.stored_groups(config).items():
            kept = slice(
                *(
                    storage.kept_before(n, every) - storage.kept_before(begin, every)
                    for n in (first, last)
                )
            )
            found = tree[group].isel(draw=kept)
            block[group] = {str(name): a.values for name, a in found.data_vars.items()}
        yield last, block


def joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of all chains, from those of each part; the leading axis is the chain."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def split_run(folder: RunFolder, parts: Sequence[Part]) -> None:
    """Make the parts of a run that one process has made so far, each with its draws and state.

    The run keeps no state of the sampler from then on: its parts do.
    """
    record, config = folder.commit_record, folder.config
    state, moments, probe = folder.load_state(), folder.load_moments(), folder.load_probe()
    starts = folder.load_starts()
    for part in parts:
        begin, end = part.chains
        place = storage.working_copy(part.place)
        one = RunFolder.create(
            place,
            {k: v for k, v in config.items() if k not in ("storage", "starts", "probe", "derived")}
            | {"chains": end - begin, "first_chain": begin},
            every=config.get("every"),
            probe=probe,
        )
        try:
            if starts:
                one.keep_starts(part.own(starts))
            draws = record["draws"]
            for _, block in _blocks(folder.path, 0, draws) if draws else ():
                own = {group: part.own(arrays) for group, arrays in block.items()}
                one.append(own, thinned=True)
            one.commit(
                part.own(state),
                phase=record["phase"],
                done=record["done"],
                moments=None if moments is None else part.own(moments),
            )
        finally:
            one.release()
    folder.commit_record["checkpoint"] = None
    folder.commit(None, phase=record["phase"], done=record["done"])
