"""The published rule for the train/test splits of the UCI regression benchmarks."""

from dataclasses import dataclass

import numpy as np

from bayesnn_ppl.data.common.standardisation import Units

SPLITS = 20
TEST_FRACTION = 0.1


def uci_split_indices(
    n: int, splits: int = SPLITS, *, test_fraction: float = TEST_FRACTION
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the standard splits: seeded permutations, the first 90 % of each for training.

    One NumPy legacy generator with seed 1 draws the permutations one after the other by
    `choice(range(n), n, replace=False)`, so split k does not depend on `splits`. This reproduces
    the index files of Hernandez-Lobato and Adams (2015, arXiv:1502.05336) and Gal and Ghahramani
    (2016, arXiv:1506.02142), order of rows included.

    Args:
        n: number of rows.
        splits: number of splits.
        test_fraction: share of the test rows; 0.1 is the published one. The training part has
            round((1 - test_fraction) n) rows. 0: all rows, and no test rows.

    Returns:
        `(train, test)`: integer arrays of shapes (splits, n_train) and (splits, n_test).

    Raises:
        ValueError: if an argument is out of range, or a part would be empty that is
            not meant to be.
    """
    if n < 2 or splits < 1:
        raise ValueError(
            f"A split needs at least 2 rows and there must be at least 1 split, but n is {n} and "
            f"splits is {splits}."
        )
    if not 0 <= test_fraction < 1:
        raise ValueError(
            f"`test_fraction` must be 0 or more and below 1, but is {test_fraction!r}. "
            "It is the share of the rows that are kept for testing."
        )
    n_train = round(n * (1 - test_fraction))
    if test_fraction and not 0 < n_train < n:
        raise ValueError(
            f"`test_fraction={test_fraction}` of {n} rows leaves {n_train} training and "
            f"{n - n_train} test rows. Both parts need at least one row: change `test_fraction`."
        )
    generator = np.random.RandomState(1)
    rows = np.stack([generator.choice(range(n), n, replace=False) for _ in range(splits)])
    return rows[:, :n_train], rows[:, n_train:]


@dataclass(frozen=True)
class Preparation:
    """How data without a split of their own are split and standardised, as `load` takes it.

    `test_fraction` None means `TEST_FRACTION`.
    """

    test_fraction: float | None
    split: int
    standardise: Units

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows of one split of `uci_split_indices`, of 0..19."""
        check_split_number(self.split, SPLITS)
        fraction = TEST_FRACTION if self.test_fraction is None else self.test_fraction
        train, test = uci_split_indices(n, self.split + 1, test_fraction=fraction)
        return train[self.split], test[self.split]

    def require_no_choice(self, subject: str, parts: str = "") -> None:
        """Refuse the choice of a split for data that have one of their own, in `parts`."""
        if self.test_fraction is not None or self.split != 0:
            raise ValueError(
                f"{subject} has a split of its own{parts}, so `split` and `test_fraction` cannot "
                "be chosen."
            )


def check_split_number(split: int, splits: int | None, subject: str = "The data") -> None:
    """Refuse a split that does not exist; `splits` None allows every non-negative integer."""
    whole = isinstance(split, int | np.integer) and not isinstance(split, bool)
    if whole and split >= 0 and (splits is None or split < splits):
        return
    allowed = "a non-negative integer" if splits is None else f"an integer from 0 to {splits - 1}"
    count = "" if splits is None else f" {subject} have {splits} standard splits."
    raise ValueError(f"`split` must be {allowed}, but is {split!r}.{count}")
