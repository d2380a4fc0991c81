"""UCI data sets with their standard splits, read from the folder in BAYESNN_DATA.

Each is one file `uci/NAME.npz` with the arrays `X` (n, d) and `y` (n,) in the data's units and,
where splits are published, the 0-based rows `train_idx` and `test_idx`, shape (splits, rows).
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesnn_ppl.data.dataset import Dataset, assemble
from bayesnn_ppl.data.splits import SPLITS, check_split_number, split_rows

VARIABLE = "BAYESNN_DATA"


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
        8192,
        _numbered("theta", 8, 1),
        "distance",
        "Forward kinematics of a robot arm (Delve)",
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


def load_uci(name: str, *, split: int, standardise: bool) -> Dataset:
    """One of `SETS`, with its stored split, or by the rule of `uci_split_indices` without one.

    Raises:
        FileNotFoundError: if BAYESNN_DATA is not set or the file is not there.
        ValueError: if the split does not exist, or the file does not hold what it should.
    """
    table = SETS[name]
    check_split_number(split, table.splits, f"The data `{name}`")
    path = _path(name)
    arrays = _arrays(path, table)
    x, y = arrays["X"], arrays["y"]
    if "train_idx" in arrays:
        train_rows, test_rows = arrays["train_idx"][split], arrays["test_idx"][split]
    else:
        train_rows, test_rows = split_rows(len(x), split)
    return assemble(
        name,
        x,
        y,
        task="regression" if table.class_names is None else "classification",
        train_rows=train_rows,
        test_rows=test_rows,
        standardise=standardise,
        feature_names=table.feature_names,
        target_name=table.target,
        class_names=table.class_names,
        description=table.description,
    )


def _path(name: str) -> Path:
    folder, table = os.environ.get(VARIABLE), SETS[name]
    place = f"<folder>/uci/{name}.npz" if not folder else str(Path(folder) / "uci" / f"{name}.npz")
    if folder and Path(place).is_file():
        return Path(place)
    splits = ", `train_idx` and `test_idx` (splits, rows)" if table.class_names is None else ""
    state = (
        f"{VARIABLE} is set to `{folder}`, but `{place}` does not exist. Lay the file there"
        if folder
        else f"the environment variable {VARIABLE} is not set. Lay the file at `{place}` and set "
        f"{VARIABLE} to <folder>"
    )
    raise FileNotFoundError(
        f"The data set `{name}` is read from a file, and {state}. It is a NumPy archive with the "
        f"arrays `X` ({table.rows}, {len(table.feature_names)}), `y` ({table.rows},){splits}. "
        "Data sets that need no file are listed by `names()`, for example `diabetes`."
    )


def _arrays(path: Path, table: _Table) -> dict[str, np.ndarray]:
    try:
        # Opened here: NumPy leaves its own handle open when the content is no archive.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"The file `{path}` is not a readable NumPy archive ({error}). Lay out a fresh copy."
        ) from error
    expected = {"X": (table.rows, len(table.feature_names)), "y": (table.rows,)}
    if table.class_names is None:
        tested = table.rows - round(0.9 * table.rows)
        expected["train_idx"] = (table.splits, table.rows - tested)
        expected["test_idx"] = (table.splits, tested)
    for key, shape in expected.items():
        found = arrays[key].shape if key in arrays else "no such array"
        if found != shape:
            raise ValueError(
                f"The file `{path}` must hold the array `{key}` of shape {shape}, but has "
                f"{found}. Lay out the file of the standard data set."
            )
    for key in ("train_idx", "test_idx"):
        if key in expected and (arrays[key].min() < 0 or arrays[key].max() >= table.rows):
            raise ValueError(
                f"The array `{key}` of the file `{path}` has rows outside 0..{table.rows - 1}. "
                "Lay out the file of the standard data set."
            )
    return arrays
