"""Reference posteriors in the format of posteriordb, for its readers in R, Python and Julia."""

import inspect
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ADDED_BY = "bayesnn_ppl"


def export_posteriordb(
    folder: str | Path, names: Sequence[str] | None = None, *, added_date: str | None = None
) -> dict[str, bool]:
    """Write reference posteriors as a posterior database.

    `posteriors/`, `data/`, `models/` and `reference_posteriors/` (draws, and means with their
    Monte Carlo errors) as posteriordb lays them out. Parameters are function values at the test
    rows, `mean[i]` and `sd[i]` or `probability[i,k]`, in the units of standardised targets: weights
    of a network have symmetries and no reference. There are 1 000 draws, not posteriordb's
    10 000; `checks_made` says so.

    Args:
        folder: where the database goes; made if needed. Files of the same name are replaced.
        names: of the posteriors; None for all.
        added_date: "YYYY-MM-DD" that the files carry; None for the day the runs were made.

    Returns:
        Name -> whether its data were written too; those read from BAYESNN_DATA are written only
        where they are at hand.

    Raises:
        ValueError: there is no reference posterior of such a name.

    References:
        Magnusson et al. (2025), posteriordb: testing, benchmarking and developing Bayesian
        inference algorithms, AISTATS, arXiv:2407.04967.
    """
    from bayesnn_ppl.references.stored import load
    from bayesnn_ppl.references.stored import names as known

    chosen = [load(name) for name in (known() if names is None else names)]
    return {one.name: _write(Path(folder), one, added_date) for one in chosen}


def _write(folder: Path, reference: Any, date: str | None) -> bool:
    facts = reference.facts
    data, model = f"{facts['data']['name']}_split_0", f"bnn_{reference.name.replace('-', '_')}"
    name = f"{data}-{model}"
    draws, labels = _parameters(reference.draws)
    chains, count = draws.shape[:2]
    measures = {
        key: [
            float(v) for output in facts["outputs"] for v in np.ravel(facts["thinned"][output][key])
        ]
        for key in ("effective_sample_size_bulk", "effective_sample_size_tail", "r_hat")
    }
    agreement = facts["agreement"]
    described = {
        f"posteriors/{name}.json": {
            "name": name,
            "keywords": ["bayesian neural network", facts["family"]],
            "model_name": model,
            "reference_posterior_name": name,
            "data_name": data,
            "dimensions": {
                output: int(np.prod(values.shape[2:])) for output, values in reference.draws.items()
            },
        },
        f"models/info/{model}.info.json": {
            "name": model,
            "keywords": ["bayesian neural network"],
            "title": f"Bayesian neural network, {reference.name}",
            "description": facts["description"],
            "model_code": {"numpyro": f"models/numpyro/{model}.py"},
        },
        f"data/info/{data}.info.json": {
            "name": data,
            "keywords": [],
            "title": f"{facts['data']['name']}, standard split 0, standardised",
            "description": facts["data"]["description"],
            "data_file": f"data/data/{data}.json",
        },
        f"reference_posteriors/draws/info/{name}.info.json": {
            "name": name,
            "inference": {"method": "bayesnn_ppl", "method_arguments": facts["samplers"]},
            "diagnostics": {
                "diagnostic_information": {"names": labels},
                "ndraws": chains * count,
                "nchains": chains,
                **measures,
            },
            "checks_made": {
                "ndraws_is_10k": chains * count == 10_000,
                "nchains_is_gte_4": chains >= 4,
                "r_hat_below_1_01": facts["rhat_max"] < 1.01,
                "two_samplers_agree": agreement["largest"] <= agreement["allowed"],
            },
            "comments": "Function values at the test rows; thinned draws of two exact samplers, "
            "the first half of the chains of the first. R-hat of the checks is that of all draws.",
            "versions": facts["versions"],
        },
    }
    for path, content in described.items():
        stamp = {"added_by": _ADDED_BY, "added_date": date or facts["date"]}
        _json(folder / path, content | stamp)
    _text(folder / f"models/numpyro/{model}.py", _code(reference))
    moments = [reference.moments[output] for output in facts["outputs"]]
    _json(
        folder / f"reference_posteriors/summary_statistics/mean/mean/{name}.json",
        {
            "names": labels,
            "mean": [float(v) for m in moments for v in np.ravel(m.mean)],
            "mcse_mean": [float(v) for m in moments for v in np.ravel(m.mean_error)],
        },
    )
    _zipped(
        folder / f"reference_posteriors/draws/draws/{name}.json",
        [{label: draws[c, :, i].tolist() for i, label in enumerate(labels)} for c in range(chains)],
    )
    return _data(folder / f"data/data/{data}.json", reference)


def _parameters(draws: Any) -> tuple[np.ndarray, list[str]]:
    """All outputs as (chain, draw, parameter), with their names, counted from 1."""
    flat = np.concatenate([a.reshape(*a.shape[:2], -1) for a in draws.values()], axis=2)
    labels = [
        f"{output}[{','.join(str(i + 1) for i in index)}]"
        for output, values in draws.items()
        for index in np.ndindex(values.shape[2:])
    ]
    return flat, labels


def _code(reference: Any) -> str:
    """A module that makes the model."""
    source = inspect.getsource(reference.problem.make)
    body = source.split("\n", 1)[1].replace("    import bayesnn_ppl as bnn\n", "").strip("\n")
    return (
        f'"""{reference.facts["description"]}"""\n\nimport bayesnn_ppl as bnn\n\n\n'
        f"def make_model():\n{body}\n"
    )


def _data(path: Path, reference: Any) -> bool:
    try:
        data = reference.data()
    except FileNotFoundError:
        return False
    arrays = {"x": data.train.x, "y": data.train.y, "x_test": data.test.x}
    sizes = {"N": len(data.train.x), "D": data.train.x.shape[1], "M": len(data.test.x)}
    _zipped(path, sizes | {name: np.asarray(a).tolist() for name, a in arrays.items()})
    return True


def _json(path: Path, content: Any) -> None:
    _text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def _zipped(path: Path, content: Any) -> None:
    """`NAME.json.zip` that holds `NAME.json`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    member = zipfile.ZipInfo(path.name)  # of a fixed date: equal content gives an equal file
    with zipfile.ZipFile(f"{path}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, json.dumps(content), zipfile.ZIP_DEFLATED)
