"""Did an approximation find what it looked for? Not whether that is the posterior."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bayesnn_ppl.core.arguments import html_table, readable
from bayesnn_ppl.core.wording import plain
from bayesnn_ppl.diagnostics.presentation import paragraph, value_lines

__all__ = ["FitDiagnosis", "diagnose_fit"]

type FitStatus = Literal["fitted", "doubtful", "not converged"]

# What a reader wants of the record, in this order; other entries are for `to_dict`.
_SHOWN = {
    "best_epochs": "best epochs",
    "best_losses": "losses there",
    "elbo": "ELBO",
    "pareto_k": "Pareto k of the importance ratios",
    "log_evidence": "log evidence",
    "learned": "learned",
    "dropout_rates": "dropout rates",
    "learning_rates": "rates of SGD",
    "stability": "rate times curvature",
    "attempts": "attempts",
    "seconds": "seconds",
}


@readable
@dataclass(frozen=True)
class FitDiagnosis:
    """The result of a fit, in the words of its method.

    Attributes:
        status: "fitted": the method found what it looked for; "doubtful": there is a
            doubt; "not converged": it did not.
        verdict: the reasons and what to do, in sentences.
        method: name of the approximation.
        chains, draws: independent fits, and draws of each.
        record: how it was found, from the provenance.
    """

    status: FitStatus
    verdict: str
    method: str
    chains: int
    draws: int
    record: Mapping[str, Any]

    @property
    def converged(self) -> bool:
        """False: only a sampler converges to the posterior."""
        return False

    def __str__(self) -> str:
        lines = [f"Diagnosis: {self.status}", "", *paragraph(self.verdict), ""]
        return "\n".join([*lines, *value_lines(self._pairs())])

    def _repr_html_(self) -> str:
        rows = [("status", self.status), *self._pairs(), ("verdict", self.verdict)]
        return html_table("FitDiagnosis", rows)

    def _figures(self) -> dict[str, Any]:
        names = ("status", "method", "chains", "draws")
        return {name: getattr(self, name) for name in names}

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = [("method", self.method), ("fits x draws", f"{self.chains} x {self.draws}")]
        for entry, name in _SHOWN.items():
            if self.record.get(entry) is not None:
                pairs.append((name, _words(self.record[entry])))
        return pairs

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists and numbers."""
        return {"converged": self.converged, **asdict(self)}

    def to_json(self) -> str:
        """`to_dict` as JSON; NaN and infinities become null."""
        return json.dumps(plain(self.to_dict()), indent=2, allow_nan=False)


def diagnose_fit(run: Mapping[str, Any]) -> FitDiagnosis:
    """Judge a fit by its own findings.

    R-hat has nothing to say here: draws of an approximation are independent by construction, and
    members of an ensemble are meant to differ. How far the approximation is from the posterior is
    seen by comparison with a run of `sample` (`metrics.total_variation`, `metrics.agreement`).

    Args:
        run: the provenance of a posterior that `fit` returned.
    """
    record = run["approximation"]
    kinds: dict[str, list[str]] = {kind: [] for kind in ("failure", "doubt", "remark")}
    for finding in record["findings"]:
        kinds[finding["kind"]].append(finding["sentence"])
    status: FitStatus = "fitted"
    if kinds["failure"]:
        status = "not converged"
    elif kinds["doubt"]:
        status = "doubtful"
    sentences = [sentence for group in kinds.values() for sentence in group]
    if status == "fitted":
        sentences.insert(0, "The fit succeeded.")
    sentences.append(
        "An approximation is not checked against the posterior here: compare its predictions with "
        "those of `sample`."
    )
    return FitDiagnosis(
        status=status,
        verdict=" ".join(sentences),
        method=str(run["kernel"]),
        chains=run["chains"],
        draws=run["draws"],
        record=record,
    )


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        shown = ", ".join(_words(part) for part in value[:8])
        return shown + (f" and {len(value) - 8} more" if len(value) > 8 else "")
    return f"{value:.5g}" if isinstance(value, float) else str(value)
