"""A fit on the workers of a cluster: members shared among them, or all of it as one task."""

from contextlib import closing
from dataclasses import replace
from typing import Any

from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.distributed.clusters import say_dashboard
from bayesnn_ppl.distributed.tasks import calls_on_workers, divided
from bayesnn_ppl.inference.fitting.approximation import Approximation, Fitted
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.inference.training.problem import Problem
from bayesnn_ppl.inference.training.result import Trained, joined

__all__ = ["check_fit_on_workers", "members_of", "solve_on_workers"]


def check_fit_on_workers(mesh: Any, callback: Any) -> None:
    """Raise ValueError for what a fit on workers cannot take."""
    for name, given in (("mesh", mesh), ("callback", callback)):
        if given is not None:
            raise ValueError(
                f"`{name}` is of this process, and with `cluster` others make the fit. Leave one "
                "of the two out."
            )


def members_of(approximation: Any) -> int:
    """How many members workers can train apart from each other; 1 where all is one task."""
    return int(getattr(approximation, "member_count", 1))


def solve_on_workers(approximation: Approximation, problem: Problem, client: Any) -> Fitted:
    """What `approximation.solve(problem)` returns, found by the workers of a cluster.

    Args:
        approximation: one with a `member_count` also has `train_members` and `as_fitted`, and each
            worker trains some members; any other is solved by one worker.
        problem: of the fit.
        client: of Dask.
    """
    members = members_of(approximation)
    bare = replace(problem, progress=False, record=None)
    parts = divided(members, len(client.nthreads()))
    with ProgressBar(shown=problem.progress, chains=members) as bar:
        say_dashboard(client, bar.say)
        shared = approximation, bare
        if members == 1:
            with closing(calls_on_workers(client, _solve, shared, [None])) as calls:
                _, result = next(calls)
                return result()
        bar.phase("train", members)
        trained: dict[int, Trained] = {}
        with closing(calls_on_workers(client, _train, shared, parts)) as calls:
            for index, result in calls:
                trained[index] = result()
                bar.tell(sum(len(part.losses) for part in trained.values()), "members")
    whole: Any = approximation
    return whole.as_fitted(joined([trained[index] for index in range(len(parts))]))


def _solve(shared: tuple[Approximation, Problem], _: None) -> Fitted:
    approximation, problem = shared
    with arithmetic(float64=problem.float64):
        return approximation.solve(problem)


def _train(shared: tuple[Any, Problem], part: list[int]) -> Trained:
    approximation, problem = shared
    begin, end = part
    return approximation.train_members(replace(problem, first_member=begin), end - begin)
