"""The table of networks of which one layer is sampled."""

from statistics import mean, stdev
from typing import Any

from benchmarks.harness.tables import markdown


def partly_stochastic(content: dict[str, Any]) -> str:
    """A line for what is sampled: means over splits, with standard deviations, for each set.

    Args:
        content: the record of `python -m benchmarks partly_stochastic`.
    """
    rows = content["rows"]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    lines = []
    for sampled in dict.fromkeys(row["sampled"] for row in rows):
        line = [sampled]
        for name in sets:
            own = [row for row in rows if (row["data"], row["sampled"]) == (name, sampled)]
            nll, rhat = [row["nll"] for row in own], [row["function_rhat"] for row in own]
            spread = f" ± {stdev(nll):.2f}" if len(nll) > 1 else ""
            line += [
                str(own[0]["parameters"]),
                f"{mean(nll):.2f}{spread}",
                f"{mean(row['rmse'] for row in own):.3f}",
                "" if rhat[0] is None else f"{min(rhat):.2f} to {max(rhat):.2f}",
            ]
        lines.append(line)
    heads = ["sampled"]
    for name in sets:
        heads += [f"{name}: parameters", "NLL", "RMSE", "largest R-hat"]
    return markdown(heads, lines)
