"""The table of effective draws a second over several posteriors."""

from typing import Any

from benchmarks.harness.tables import markdown

# Records, as their files are named -> what the table calls them.
POSTERIORS = {
    "bostonHousing": "boston",
    "concrete": "concrete",
    "small-yacht": "yacht",
    "small-energy": "energy",
    "horseshoe-bostonHousing": "horseshoe",
    "hierarchical-diabetes": "hierarchical",
}
SAMPLERS = {
    "ours: ChEES, Fisher mass": "`kernels.ChEES`, Fisher mass",
    "ours: ChEES": "`kernels.ChEES`",
    "ours: ChEES, 16 chains": "`kernels.ChEES`, 16 chains",
    "ours: ChEES, 64 chains": "`kernels.ChEES`, 64 chains",
    "ours: HMC": "`kernels.HMC`, 300 leapfrogs",
    "ours: adjusted MCLMC": "`kernels.AdjustedMCLMC`",
    "ours: WALNUTS": "`kernels.WALNUTS`",
    "ours: NUTS": "NumPyro's NUTS under `bnn.sample`",
    "ours: MCLMC": "`kernels.MCLMC`",
    "BlackJAX NUTS": "BlackJAX NUTS",
    "BlackJAX NUTS, low rank": "BlackJAX NUTS, low-rank mass",
    "BlackJAX MCLMC": "BlackJAX MCLMC",
    "nutpie NUTS": "nutpie NUTS",
    "nutpie NUTS, low rank": "nutpie NUTS, low-rank mass",
    "NumPyro NUTS, parallel": "NumPyro `MCMC.run`, NUTS",
    "NumPyro NUTS, vectorized": "the same, vectorized",
}
UNADJUSTED = ("ours: MCLMC", "BlackJAX MCLMC")  # no accept step
UNBIASED = 0.1  # squared bias over the variance, below which such a sampler counts
# Without these on the performance page and in its figure; nutpie has no draws on its posteriors.
_LEFT_OUT = ("chains", "WALNUTS", "low rank", "vectorized", "nutpie NUTS")
CHOSEN = [name for name in SAMPLERS if not name.endswith(_LEFT_OUT)]
AGREE = 1.1  # R-hat, above which effective draws say nothing


def efficiency(records: dict[str, dict[str, Any]]) -> str:
    """Smallest effective sample size a second; R-hat in its place where chains disagree.

    Args:
        records: posterior -> sampler -> row, of `python -m benchmarks efficiency`.
    """
    lines = [
        [_short(shown), *(_cell(rows.get(name)) for rows in records.values())]
        for name, shown in SAMPLERS.items()
        if name not in UNADJUSTED
    ]
    return markdown(["smallest ESS a second", *(POSTERIORS[name] for name in records)], lines)


def earlier(first: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> str:
    """The best smallest effective sample size a second, then and now, ours and others'.

    Args:
        first, now: posterior -> sampler -> row.
    """
    lines = [
        [f"{whose}, {when}", *(_best(records[name], ours=ours) for name in first)]
        for whose, ours in (("our best", True), ("best of another library", False))
        for when, records in (("then", first), ("now", now))
    ]
    return markdown(["smallest ESS a second", *(POSTERIORS[name] for name in first)], lines)


def _best(rows: dict[str, Any], *, ours: bool) -> str:
    """Of samplers with an accept step whose chains agree."""
    found = [
        (rows[name]["ess_min_per_second"], _short(shown))
        for name, shown in SAMPLERS.items()
        if name in rows and name not in UNADJUSTED and name.startswith("ours") is ours
        if (rows[name]["rhat_max"] or AGREE) < AGREE
    ]
    if not found:
        return "none"
    ess, shown = max(found)
    return f"{per_second(ess)} ({shown})"


def _short(name: str) -> str:
    """Without the module, so that a narrow column does not break it."""
    return name.replace("kernels.", "")


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    rhat, ess = row["rhat_max"], row["ess_min_per_second"]
    if rhat is None:
        return "no draws"
    return f"R-hat {rhat:.2f}" if rhat > AGREE else per_second(ess)


def one_posterior(rows: dict[str, Any]) -> str:
    """All that was measured on one posterior, sampler by sampler."""
    lines = []
    for name in [name for name in SAMPLERS if name in rows]:
        row = rows[name]
        rhat, each = row["rhat_max"], row["ess_median_per_1000_gradients"]
        lines.append([
            _short(SAMPLERS[name]),
            f"{row['seconds']:.0f}",
            per_second(row["ess_min_per_second"]),
            per_second(row["ess_median_per_second"]),
            "-" if each is None else f"{each:.2f}",
            "-" if rhat is None else f"{rhat:.3f}",
            _bias(row.get("bias_max")),
        ])  # fmt: skip
    heads = ["seconds", "smallest ESS/s", "median", "median per 1 000 gradients", "largest R-hat"]
    return markdown(["", *heads, "bias"], lines)


def effective_draws(sets: dict[str, dict[str, Any]]) -> str:
    """Smallest and median effective sample size a second.

    Args:
        sets: what the table calls a posterior -> sampler -> row.
    """
    lines = []
    for name in CHOSEN:
        cells = [SAMPLERS[name]]
        for rows in sets.values():
            row = rows[name]
            cells += [per_second(row[f"ess_{which}_per_second"]) for which in ("min", "median")]
            cells.append(_bias(row["bias_max"]))
        lines.append(cells)
    heads = [f"{name}: {what}" for name in sets for what in ("smallest", "median", "bias")]
    return markdown(["effective draws a second", *heads], lines)


def per_second(value: float | None) -> str:
    """Effective draws a second as tables and figures show them."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _bias(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
