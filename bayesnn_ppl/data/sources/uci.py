"""UCI data sets with their standard splits, read from the folder in BAYESNN_DATA.

Each is one file `uci/NAME.npz` with the arrays `X` (n, d) and `y` (n,) in the data's units and,
where splits are published, the 0-based rows `train_idx` and `test_idx`, shape (splits, rows).
"""

from dataclasses import dataclass

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble, content_hash
from bayesnn_ppl.data.common.splits import SPLITS, Preparation, check_split_number
from bayesnn_ppl.data.common.standardisation import Units
from bayesnn_ppl.data.common.stored_files import VARIABLE, locate, read_archive, require_shapes


@dataclass(frozen=True)
class _Table:
    rows: int
    features: str
    target: str
    title: str
    splits: int = SPLITS
    class_names: tuple[str, ...] | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.features.split(","))

    @property
    def description(self) -> str:
        return (
            f"{self.title}, {self.rows} rows, {len(self.feature_names)} features; UCI, "
            f"needs {VARIABLE}."
        )


def _numbered(stem: str, count: int, start: int = 0) -> str:
    return ", ".join(f"{stem}{index}" for index in range(start, start + count))


SETS = {
    "airfoil": _Table(
        1503,
        "frequency, angle of attack, chord length, velocity, displacement thickness",
        "sound pressure level (dB)",
        "Self-noise of airfoils",
    ),
    "bikesharing": _Table(
        17379,
        "season, yr, mnth, hr, holiday, weekday, workingday, weathersit, temp, atemp, hum, "
        "windspeed",
        "hourly rentals",
        "Bicycles rented per hour (Fanaee-T and Gama 2013)",
    ),
    "bostonHousing": _Table(
        506,
        "CRIM, ZN, INDUS, CHAS, NOX, RM, AGE, DIS, RAD, TAX, PTRATIO, B, LSTAT",
        "median value (1000 dollars)",
        "House prices in Boston (Harrison and Rubinfeld 1978), for comparison with published "
        "tables only: column B is derived from race",
    ),
    "concrete": _Table(
        1030,
        "cement, slag, fly ash, water, superplasticiser, coarse aggregate, fine aggregate, age",
        "compressive strength (MPa)",
        "Compressive strength of concrete (Yeh 1998)",
    ),
    "energy": _Table(
        768,
        "relative compactness, surface area, wall area, roof area, overall height, orientation, "
        "glazing area, glazing area distribution",
        "heating load",
        "Heating load of simulated buildings (Tsanas and Xifara 2012)",
    ),
    "ionosphere": _Table(
        351,
        _numbered("x", 33),
        "radar return",
        "Good and bad radar returns from the ionosphere (Sigillito et al. 1989)",
        class_names=("bad", "good"),
    ),
    "kin8nm": _Table(
        8192, _numbered("theta", 8, 1), "distance", "Forward kinematics of a robot arm (Delve)"
    ),
    "naval-propulsion-plant": _Table(
        11934,
        "lever position, ship speed, GTT, GTn, GGn, Ts, Tp, T48, T1, T2, P48, P1, P2, Pexh, TIC, "
        "mf",
        "compressor decay",
        "Compressor decay of a ship's gas turbine (Coraddu et al. 2016), two features constant",
    ),
    "power-plant": _Table(
        9568,
        "temperature, exhaust vacuum, ambient pressure, relative humidity",
        "electrical output (MW)",
        "Output of a combined-cycle power plant (Tufekci 2014)",
    ),
    "protein-tertiary-structure": _Table(
        45730,
        _numbered("F", 9, 1),
        "RMSD",
        "Deviation of protein structures from the native one",
        splits=5,
    ),
    "wine-quality-red": _Table(
        1599,
        "fixed acidity, volatile acidity, citric acid, residual sugar, chlorides, free sulphur "
        "dioxide, total sulphur dioxide, density, pH, sulphates, alcohol",
        "quality",
        "Quality of red wines as a number (Cortez et al. 2009)",
    ),
    "yacht": _Table(
        308,
        "buoyancy position, prismatic coefficient, length-displacement ratio, beam-draught ratio, "
        "length-beam ratio, Froude number",
        "residuary resistance",
        "Residuary resistance of sailing yachts (Delft)",
    ),
}


# SHA-256 of types, shapes and values of X and y in the original order of the rows: what the
# published splits number.
_ROWS = {
    "bostonHousing": "b9746838d8fd163dbaea661392b151f7fa8139919d21febca985a5536143dc22",
    "concrete": "de83b4338f7a6983d233dcbeaed14f0a918483b0509a51574db3c14d6a7c0a15",
    "energy": "97a16174c51a2d286707768cfac6021055c955af58b0d39fad52f2fa3f29a6cd",
    "kin8nm": "7d7b847c709aaea3edd73e1b11231b38a0d77904bfa380feef530b82c5856787",
    "naval-propulsion-plant": "07a92fe604c0f3d793374c0a3e2c01d313399f9a83643f1edd926b82315fb1e1",
    "power-plant": "5b286106cfa01e0b96d4781ca0a8dabd02e258a8bcd576a16af6368d9f60767a",
    "protein-tertiary-structure": (
        "a53a5698136c4833a04bf05f3841106e66bbb7d7829853ae92de7f0e8e16a2ad"
    ),
    "wine-quality-red": "bcd4d6bf9d4b0a01e6bb7600b94d1d294ec69d3a44aba5653b4d9d5bdf48c620",
    "yacht": "fe696c8791a9a98f7fa4043bef26da553b456a7bb6bd0d68c5620063ca376d01",
}


def load_uci(name: str, *, split: int, standardise: Units) -> Dataset:
    """One of `SETS`, with its stored split, or by the rule of `uci_split_indices` without one.

    The splits of nine sets are published. A split is called standard only where a checksum proves
    that the rows it numbers are the published ones, in their order.
    """
    table = SETS[name]
    check_split_number(split, table.splits, f"The data `{name}`")
    shapes = {"X": (table.rows, len(table.feature_names)), "y": (table.rows,)}
    stored = table.class_names is None
    if stored:
        train = round(0.9 * table.rows)
        shapes |= {
            "train_idx": (table.splits, train),
            "test_idx": (table.splits, table.rows - train),
        }
    path = locate(
        f"uci/{name}.npz",
        name,
        f"a NumPy archive with the arrays `X` {shapes['X']}, `y` ({table.rows},),"
        + (" `train_idx` and `test_idx` (splits, rows)" if stored else ""),
    )
    arrays = read_archive(path, tuple(shapes))
    require_shapes(arrays, shapes, path, "Lay out the file of the standard data set.")
    x, y = arrays["X"], arrays["y"]
    rows = Preparation(None, split, standardise).rows(len(x))
    if stored:
        for key in ("train_idx", "test_idx"):
            if arrays[key].min() < 0 or arrays[key].max() >= table.rows:
                raise ValueError(
                    f"The array `{key}` of the file `{path}` has rows outside "
                    f"0..{table.rows - 1}. Lay out the file of the standard data set."
                )
        published, rows = rows, (arrays["train_idx"][split], arrays["test_idx"][split])
    origin = f"Split {split} by the rule of the standard ones; none is published for this set."
    if name in _ROWS:
        if content_hash(x, y) != _ROWS[name]:
            raise ValueError(
                f"The rows of the file `{path}` are not those of the published data set `{name}`, "
                f"in value, type or order, so split {split} of them is not the standard one. Lay "
                "out the published rows in their original order as float64; a table of your own is "
                "loaded by its path."
            )
        if not all(map(np.array_equal, rows, published)):
            raise ValueError(
                f"Split {split} in the file `{path}` is not the published split of the data set "
                f"`{name}`: `train_idx` or `test_idx` differ. Lay out the published indices."
            )
        origin = f"Standard split {split}, proved by a checksum of the rows."
    return assemble(
        x,
        y,
        *rows,
        standardise=standardise,
        name=name,
        feature_names=table.feature_names,
        target_name=table.target,
        class_names=table.class_names,
        description=f"{table.description} {origin}",
    )
