"""The tables of samplers on minibatches of images."""

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


def minibatch_images(rows: dict[str, Any]) -> str:
    """What SGHMC and SGMCLMC reach in equal time, and how near HMC where there is a reference."""
    lines = []
    for name, row in rows.items():
        cells = [name]
        if "kinetic" in row:
            kinetic = "{:.2f} to {:.2f}".format(*row["kinetic"])
            cells += [f"{row['ms']:.2f}", kinetic, plus_minus(*row["configurational"])]
        else:
            cells += ["", "stopped" if row.get("stopped") else "", ""]
        cells += [_number(row, "nll"), _number(row, "accuracy")]
        cells += [_number(row, "agreement"), _number(row, "total_variation")]
        lines.append(cells)
    heads = [
        "images: sampler, step size", "ms a step", "kinetic, by array",
        "configurational, largest array", "NLL", "accuracy", "agreement with HMC",
        "total variation",
    ]  # fmt: skip
    return markdown(heads, lines)


def _number(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.3f}" if name in row else ""
