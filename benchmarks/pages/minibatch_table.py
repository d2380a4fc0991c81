"""The table of samplers on minibatches of MNIST."""

from typing import Any

from benchmarks.harness.tables import markdown, plus_minus


def minibatch_mclmc(rows: dict[str, Any]) -> str:
    """Temperatures and scores of SGHMC and SGMCLMC on MNIST at three steps."""
    lines = []
    for name, row in rows.items():
        if name != "MAP":
            kinetic = "{:.2f} to {:.2f}".format(*row["kinetic"])
            angle = f"{row['kick_angle']:.2f}" if "kick_angle" in row else ""
            configurational = plus_minus(*row["configurational"])
            scores = f"{row['nll']:.3f}", f"{100 * row['accuracy']:.1f} %"
            lines.append([name, kinetic, configurational, angle, *scores])
    heads = [
        "sampler, step size", "kinetic, by array", "configurational, first layer", "kick angle",
        "NLL", "accuracy",
    ]  # fmt: skip
    return markdown(heads, lines)
