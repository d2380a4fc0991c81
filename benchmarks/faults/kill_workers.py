"""What a process of the kill campaign does: sample or resume a run, and perhaps crash."""

import hashlib
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl import storage

__all__ = ["CASES", "Case", "Job", "committed", "source_hash", "work"]

_SEED = 5


@dataclass(frozen=True)
class Case:
    """A sampler, and how long it runs."""

    make: Callable[[Any], Any]
    warmup: int
    draws: int
    chains: int = 2


def _nuts(model: Any) -> Any:
    from numpyro.infer import NUTS

    return NUTS(model, max_tree_depth=5)


CASES = {
    # The command of the report: one run of 71 ended with other draws, and was not seen again.
    "hmc": Case(lambda model: bnn.kernels.HMC(model, num_leapfrogs=30), 150, 3000),
    "nuts": Case(_nuts, 100, 400),
    "sghmc": Case(lambda m: bnn.kernels.SGHMC(m, batch_size=32, step_size=1e-5), 100, 4000),
    "mclmc": Case(lambda model: bnn.kernels.MCLMC(model), 150, 3000),
    "chees": Case(lambda model: bnn.kernels.ChEES(model), 100, 1000, chains=4),
}


@dataclass(frozen=True)
class Job:
    """What a process is told: which run, and where it leaves what it has to say."""

    case: str
    path: str
    meeting: str
    cache: str | None  # folder of compiled programs; None compiles
    scale: float  # of the numbers of draws
    crashes: int = 0  # of its writes, each of which it survives
    seed: int = 0


def work(job: Job) -> None:
    """Make the run, or resume it."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    if job.cache is None:
        jax.config.update("jax_enable_compilation_cache", False)
    else:
        jax.config.update("jax_compilation_cache_dir", job.cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        _commit_often()
    if job.crashes:
        _crash(job)
    _make(job)


def _make(job: Job) -> None:
    """Sample, or resume where there is a run."""
    path, data, case = Path(job.path), bnn.data.load("diabetes"), CASES[job.case]
    kernel = case.make(bnn.models.mlp(hidden=(12,)))
    common: dict[str, Any] = {"progress": False, "callback": _Fingerprint(job)}
    if (path / "commit.json").exists():
        bnn.resume(path, kernel, *data.train, **common)
    else:
        bnn.sample(
            kernel,
            *data.train,
            warmup=max(int(case.warmup * job.scale), 2),
            draws=max(int(case.draws * job.scale), 2),
            chains=case.chains,
            seed=_SEED,
            keep=bnn.Keep(probe=tuple(data.test)),
            out=path,
            **common,
        )


class _Crash(BaseException):
    """The process would be dead."""


def _crash(job: Job) -> None:
    """Start the run, and let a random write of it and all that follow fail, again and again."""
    generator, synchronise, replace = random.Random(job.seed), os.fsync, os.replace
    writes_left = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def crashing(*arguments: Any, **options: Any) -> Any:
            nonlocal writes_left
            writes_left -= 1
            if writes_left < 0:
                raise _Crash
            return write(*arguments, **options)

        return crashing

    path, where = Path(job.path), []
    for _ in range(job.crashes):
        writes_left = generator.randrange(150)
        os.fsync, os.replace = counted(synchronise), counted(replace)
        try:
            _make(job)
            break  # it was finished before
        except _Crash:
            pass
        finally:
            os.fsync, os.replace = synchronise, replace
        where.append(committed(path, int(CASES[job.case].draws * job.scale)))
        if path.is_dir() and not (path / "commit.json").exists():
            shutil.rmtree(path)
    (Path(job.meeting) / "crashes").write_text(json.dumps(where))


def _commit_often() -> None:
    """Shorter blocks, commits and chunks: as many writes in a second as else in a minute."""
    from bayesnn_ppl.inference.runtime import block_loop, draw_writers
    from bayesnn_ppl.storage import folder

    block_loop.BLOCK_SECONDS, draw_writers._COMMIT_SECONDS = 0.05, 0.1
    folder._MOST_CHUNK_DRAWS = 100


class _Fingerprint:
    """Leaves a hash of the compiled program, once."""

    def __init__(self, job: Job) -> None:
        self._file: Path | None = Path(job.meeting) / "program"

    def __call__(self, progress: Any) -> None:
        if self._file is None:
            return
        from bayesnn_ppl.inference.sampling.compiled_program import programs

        advance: Any = next(reversed(programs.programs.values())).advance
        # Metadata say where in the source an operation comes from, which changes no number.
        text = re.sub(r", metadata=\{[^}]*\}", "", advance.as_text())
        self._file.write_text(_sha(text.encode()))
        self._file = None


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:10]


def source_hash() -> str:
    """Of the library's files: a run that is resumed with other code is not a trial of this one."""
    package = Path(bnn.__file__).parent
    files = sorted([*package.rglob("*.py"), *Path(bnn.models.__file__).parent.glob("*.py")])
    return _sha(b"".join(file.read_bytes() for file in files))


def committed(path: Path, draws: int) -> dict[str, Any]:
    """Where a killed run of so many draws stands."""
    if not (path / "commit.json").exists():
        return {"phase": "start", "done": 0, "share": 0.0, "committed": False}
    record = storage.read_commit(path)
    return {
        "phase": record["phase"],
        "done": record["done"],
        "share": round(record["draws"] / draws, 3),
        "committed": record["checkpoint"] is not None and not record["complete"],
    }


if __name__ == "__main__":
    work(Job(**json.loads(sys.argv[1])))
