"""`--reference`: published predictions of full-batch HMC, in the order of the run's test rows."""

from typing import Any

import bayesnn_ppl as bnn
from bayesnn_ppl.data.common.pixels import tfds_order
from bayesnn_ppl.settings.saved.run_file import Run

__all__ = ["check_reference", "reference_of"]


def check_reference(run: Run, *, weights: bool) -> None:
    """Refuse, before anything is drawn, a reference that the run cannot be compared with.

    Args:
        run: what is about to be made.
        weights: whether it keeps its weights, with which all test rows are predicted.

    Raises:
        ValueError: the data are others, their order is not known to the reference, or there are
            no weights.
        FileNotFoundError: the predictions are not at hand.
    """
    if run.reference is None:
        return
    if run.data["name"] != run.reference:
        raise ValueError(
            f"--reference {run.reference} has predictions at the test rows of that data set, and "
            f"the data are `{run.data['name']}`. Leave it out."
        )
    if not weights:
        raise ValueError(
            "--reference compares predictions at all test rows, which need the weights: leave "
            "--keep out."
        )
    reference_of(run)


def reference_of(run: Run) -> Any:
    """The reference of the run in the order of its test rows, or None where it has none.

    Raises:
        ValueError: the rows are in an order for which the reference is not known.
    """
    if run.reference is None:
        return None
    name: Any = run.reference
    order = run.data.get("order")
    if name == "cifar10":
        found = bnn.metrics.hmc_reference(name)
        return found.select(tfds_order("test", 10_000)) if order == "tfds" else found
    if order != "original":
        raise ValueError(
            "The published predictions on imdb are at the test rows in their original order: add "
            "`--order original`, which leaves every review in its part."
        )
    return bnn.metrics.hmc_reference(name)
