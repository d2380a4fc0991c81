"""`python docs/figures/gap.py` makes the figure of the home page and the README.

A network of 16 units is sampled where the middle of the inputs has no data: its band widens there.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from numpyro.infer import NUTS

import bayesnn_ppl as bnn

FOLDER = Path(__file__).parent
LIGHT = {"ink": "#1a1a1a", "grey": "#666666", "band": "#0072B2", "truth": "#C05000"}
DARK = {"ink": "#f0f0f0", "grey": "#a8a8a8", "band": "#56B4E9", "truth": "#F0A060"}


def sampled():
    """The data set `gap`, and a posterior of four chains of NUTS: 15 seconds on two cores."""
    data = bnn.data.load("gap")
    # Steep units, so that functions of this prior vary as fast as the data do.
    prior = {"Dense_0.*": dist.Normal(0, 4), "Dense_1.*": bnn.priors.fan_in_normal(1.5)}
    model = bnn.models.mlp(hidden=(16,), prior=prior)
    posterior = bnn.sample(
        NUTS(model), *data.train, warmup=500, draws=500, chains=4, seed=0, progress=False
    )
    return data, posterior


def drawn(data, posterior, ink, grey, band, truth):
    """The figure, in colours for a light or a dark page."""
    x = np.linspace(-3, 3, 241)
    prediction = posterior.predict(x[:, None], raw=True)
    low, high = prediction.quantile([0.05, 0.95])
    units = data.standardisation
    points = units.undo_x(np.asarray(data.train.x))[:, 0], units.undo_y(np.asarray(data.train.y))

    style = {"font.size": 13, "text.color": ink, "axes.labelcolor": ink}
    style |= {"axes.edgecolor": grey, "xtick.color": grey, "ytick.color": grey}
    style |= {"axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(style):
        figure, axis = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
        axis.fill_between(x, low, high, color=band, alpha=0.3, linewidth=0)
        axis.plot(x, np.sin(2 * x) + x / 3, "--", color=truth, linewidth=1.8)
        axis.plot(x, prediction.mean, color=band, linewidth=2.4)
        axis.plot(*points, "o", color=ink, markersize=3.5, alpha=0.8, markeredgewidth=0)
        axis.set(xlabel="input x", ylabel="output y", xlim=(-3, 3), ylim=(-2, 2))
        axis.text(0, 1.72, "no data here", ha="center", color=grey)
        axis.annotate("", (-1, 1.6), (1, 1.6), arrowprops={"arrowstyle": "<->", "color": grey})
        axis.text(0.38, -1.0, "90 % band\nof the network", color=band, va="center")
        axis.text(-0.32, 0.4, "truth", color=truth, ha="right")
    return figure


def main():
    """Sample once, and write the figure twice."""
    data, posterior = sampled()
    print(posterior.diagnose(data.test.x))
    for name, colours in (("gap.png", LIGHT), ("gap_dark.png", DARK)):
        drawn(data, posterior, **colours).savefig(
            FOLDER / name, dpi=150, transparent=colours is DARK
        )


if __name__ == "__main__":
    main()
