"""The table of effective draws a second over several posteriors."""

from typing import Any

from benchmarks.harness.tables import markdown

# Records, as their files are named -> what the table calls them.
POSTERIORS = {
    "bostonHousing": "boston",
    "concrete": "concrete",
    "small-yacht": "yacht",
    "horseshoe-bostonHousing": "horseshoe",
    "hierarchical-diabetes": "hierarchical",
}
SAMPLERS = {
    "NumPyro NUTS, parallel": "NumPyro's NUTS",
    "BlackJAX NUTS": "BlackJAX's NUTS",
    "BlackJAX NUTS, low rank": "the same, low-rank mass",
    "ours: NUTS": "NumPyro's NUTS under `sample`",
    "ours: WALNUTS": "`WALNUTS`",
    "ours: HMC": "`HMC`, 300 leapfrogs",
    "ours: adjusted MCLMC": "`AdjustedMCLMC`",
    "ours: ChEES": "`ChEES`",
    "ours: ChEES, Fisher mass": "`ChEES`, Fisher mass",
    "ours: ChEES, 16 chains": "`ChEES`, 16 chains",
    "ours: ChEES, 64 chains": "`ChEES`, 64 chains",
}
AGREE = 1.1  # R-hat, above which effective draws say nothing


def efficiency(records: dict[str, dict[str, Any]]) -> str:
    """Smallest effective sample size a second; R-hat in its place where chains disagree.

    Args:
        records: posterior -> sampler -> row, of `python -m benchmarks efficiency`.
    """
    lines = [
        [shown, *(_cell(rows.get(name)) for rows in records.values())]
        for name, shown in SAMPLERS.items()
    ]
    return markdown(["smallest ESS a second", *(POSTERIORS[name] for name in records)], lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    rhat, ess = row["rhat_max"], row["ess_min_per_second"]
    if rhat is None:
        return "no draws"
    if rhat > AGREE:
        return f"R-hat {rhat:.2f}"
    return f"{ess:.0f}" if ess >= 10 else f"{ess:.1f}" if ess >= 1 else f"{ess:.2f}"
