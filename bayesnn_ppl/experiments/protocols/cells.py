"""What the cells of a study do with a method under a protocol: shift, active learning, bandit."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl as bnn
from bayesnn_ppl.data.ood import PAIRS
from bayesnn_ppl.experiments.protocols.acquiring import acquire
from bayesnn_ppl.experiments.protocols.bandits import Problem, labels_problem, play, wheel_problem
from bayesnn_ppl.experiments.protocols.in_memory_method import Method
from bayesnn_ppl.experiments.protocols.kinds import ActiveLearning, Bandit, Shift
from bayesnn_ppl.settings.datasets import load_data
from bayesnn_ppl.settings.declaring import given
from bayesnn_ppl.settings.jobs import Fit, Sample
from bayesnn_ppl.settings.models import zoo
from bayesnn_ppl.settings.saved.opening import open_posterior
from bayesnn_ppl.storage.files import write_json

__all__ = ["active_learning_rows", "bandit_rows", "check_images", "shift_rows"]

_RECORD = "rounds.json"
_PLACES = 10  # where the regret of a bandit is written down
_LEVELS = 16.0  # brightest pixel of the bundled digits
_SIDE = 8

type Rows = list[dict[str, Any]]


def check_images(protocol: Shift, job: Sample | Fit) -> None:
    """Refuse data that cannot be corrupted, or have no outliers, before anything is trained.

    Raises:
        ValueError: they are.
    """
    dataset, _ = load_data(job.data, needed=job.zoo.standardised)
    x = dataset.test.x
    if dataset.name != "digits" and (x.ndim != 4 or x.dtype.kind != "f"):
        raise ValueError(
            f"The test inputs of the data set `{dataset.name}` have shape {x.shape}, and a shift "
            "corrupts images, shape (n, height, width, channels), or the bundled `digits`."
        )
    if protocol.outliers == "pair" and dataset.name not in PAIRS:
        raise ValueError(
            f"The data set `{dataset.name}` has no other one for outliers, as {', '.join(PAIRS)} "
            'have. Set `outliers` to "shuffled" or "none".'
        )


def shift_rows(protocol: Shift, folder: Path, seed: int) -> Rows:
    """Scores of a run under each corruption, and how well outliers are told apart.

    Args:
        protocol: which corruptions and outliers.
        folder: of the run.
        seed: of the corruptions.

    Raises:
        ValueError: the run is not of images, see `check_images`.
    """
    run, posterior, _ = open_posterior(folder)
    dataset = run.load_data()

    def batches() -> Iterator[tuple[tuple[str, int], np.ndarray]]:
        yield ("clean", 0), dataset.test.x
        for kind in protocol.kinds:
            for severity in protocol.severities:
                yield (kind, severity), _corrupted(dataset, kind, severity, seed)

    scores = bnn.metrics.by_severity(posterior, batches(), dataset.test.y)
    rows = [{"x": row.pop("severity"), **row} for row in scores.to_dict("records")]
    if protocol.outliers != "none":
        outliers = _outliers(protocol.outliers, dataset, run)
        found = bnn.metrics.evaluate_ood(posterior, dataset.test.x, outliers)
        names = ("auroc", "aupr", "fpr_at_95_tpr")
        rows.append({"x": None, "kind": "outliers", **{name: found[name] for name in names}})
    return rows


def active_learning_rows(
    protocol: ActiveLearning, job: Sample | Fit, folder: Path, seed: int
) -> Rows:
    """Test scores of a method after each round, at the number of its labelled rows.

    Features, and the targets of a regression, are standardised by the whole pool.
    """
    method = Method(job)
    dataset, _ = load_data(job.data, needed=job.zoo.standardised)
    model, _, _ = zoo.chosen_model(job.model, job.zoo, job.any_model, dataset)
    rounds = acquire(
        lambda x, y, own: method.train(model, x, y, own),
        lambda posterior: _finite(bnn.metrics.evaluate(posterior, *dataset.test)),
        dataset.train.x,
        dataset.train.y,
        rule=protocol.acquisition,
        start=protocol.start,
        batch=protocol.batch,
        rounds=protocol.rounds,
        candidates=protocol.candidates,
        seed=seed,
        before=_recorded(folder),
        after=_recorder(folder),
    )
    return [{"x": len(one["labelled"]), **one["scores"]} for one in rounds]


def bandit_rows(protocol: Bandit, job: Sample | Fit, folder: Path, seed: int) -> Rows:
    """Cumulative regret of a policy, at some numbers of contexts.

    `relative_regret` is its share of what uniform choice has in expectation, and `reward` the mean
    of the rewards so far.
    """
    learner = None if protocol.policy == "uniform" else _learner(job)
    problem = _problem(protocol, job, seed)
    actions = play(
        problem,
        protocol.policy,
        learner,
        refits=protocol.refits,
        seed=seed,
        before=_recorded(folder),
        after=_recorder(folder),
    )
    regret = problem.regret(actions).cumsum()
    uniform = (problem.means.max(axis=1) - problem.means.mean(axis=1)).cumsum()
    rewards = problem.rewards[np.arange(len(actions)), actions].cumsum()
    places = np.linspace(0, protocol.length, _PLACES + 1)[1:].astype(int)
    return [
        {
            "x": int(n),
            "cumulative_regret": float(regret[n - 1]),
            "relative_regret": float(regret[n - 1] / uniform[n - 1]) if uniform[n - 1] else None,
            "reward": float(rewards[n - 1] / n),
        }
        for n in np.unique(places[places > 0])
    ]


def _learner(job: Sample | Fit) -> Any:
    """What learns rewards, as `bandits.play` takes it."""
    method, model = Method(job), _reward_model(job)

    def train(x: np.ndarray, y: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        posterior = method.train(model, x, y, seed)

        def mean(inputs: np.ndarray) -> np.ndarray:
            values = np.asarray(posterior.function_values(inputs)["mean"])
            return values.reshape(-1, len(inputs))

        return mean

    return train


def _problem(protocol: Bandit, job: Sample | Fit, seed: int) -> Problem:
    if protocol.problem == "wheel":
        return wheel_problem(protocol.delta, protocol.length, seed)
    dataset, _ = load_data(job.data, needed=job.zoo.standardised)
    if dataset.classes is None:
        raise ValueError(
            f"The data set `{dataset.name}` has numbers for targets, and a bandit needs labels to "
            'name. Choose another with `data`, or the problem "wheel".'
        )
    return labels_problem(
        dataset.train.x, np.asarray(dataset.train.y), dataset.classes, protocol.length, seed
    )


def _reward_model(job: Sample | Fit) -> Any:
    """The recipe's model of the zoo, for one number: the reward."""
    if zoo.is_file(job.model):
        raise ValueError(f"A bandit learns rewards with a model of the zoo, not `{job.model}`.")
    model = zoo.build(job.model, given(job.zoo), task="regression", classes=None)
    return zoo.tempered(model, job.any_model.posterior_temperature)


def _corrupted(dataset: Any, kind: str, severity: int, seed: int) -> np.ndarray:
    if dataset.name != "digits":
        return np.asarray(bnn.data.corrupt_dataset(dataset, kind, severity, seed=seed).test.x)
    # The bundled digits are a table of 64 pixels.
    units, x = dataset.standardisation, np.asarray(dataset.test.x)
    images = np.clip(units.undo_x(x) / _LEVELS, 0.0, 1.0).reshape(-1, _SIDE, _SIDE, 1)
    changed = bnn.data.corrupt(images, kind, severity, seed=seed) * _LEVELS
    return units.apply_x(changed.reshape(x.shape)).astype(np.float32)


def _outliers(which: str, dataset: Any, run: Any) -> np.ndarray:
    if which == "pair":
        given = {name: run.data[name] for name in ("order", "subset") if name in run.data}
        return bnn.data.ood_pair(run.data["name"], **given)[1]
    units, x = dataset.standardisation, np.asarray(dataset.test.x)
    raw = units.undo_x(x).reshape(len(x), -1, x.shape[-1] if x.ndim > 2 else 1)
    order = np.random.default_rng(0).permutation(raw.shape[1])
    return units.apply_x(raw[:, order].reshape(x.shape)).astype(np.float32)


def _finite(scores: Any) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in scores.items()}


def _recorded(folder: Path) -> list[Any]:
    """What an ended process left of the cell."""
    path = folder / _RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def _recorder(folder: Path) -> Callable[[Sequence[Any]], None]:
    folder.mkdir(parents=True, exist_ok=True)
    return lambda done: write_json(folder / _RECORD, list(done))
