"""Numbers, chains, errors and this program's name as a sentence writes them, and JSON."""

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: lists for arrays, null for NaN and infinities."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any) -> str:
    """`value` as JSON text, in which NaN and infinities are null."""
    return json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)


def round_up(value: float) -> int:
    """Round to two significant digits, upwards: an extrapolation deserves no more."""
    unit = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def listed(chains: list[int]) -> str:
    """Chains by their numbers: "chain 3", "chains 1, 2 and 5"."""
    if len(chains) == 1:
        return f"chain {chains[0]}"
    return f"chains {', '.join(map(str, chains[:-1]))} and {chains[-1]}"


def in_chains(chains: list[int]) -> str:
    """The same after a blank and "in", or nothing."""
    return f" in {listed(chains)}" if chains else ""


def percent(share: float) -> str:
    """Round down, so that only a whole is 100 %, and something is never 0 %."""
    if 0 < share < 0.001:
        return f"{100 * share:.2g} %"
    return f"{math.floor(1000 * share + 1e-9) / 10:g} %"


def as_sentence(error: BaseException) -> str:
    """The message of an error as a sentence."""
    text = str(error).strip() or type(error).__name__
    return text if text.endswith((".", "?", "!")) else f"{text}."


def program_name() -> str:
    """What to type to run `bayesnn` again: its name, or its path where PATH has it not.

    After `make demo` it is in `.venv/bin`, which is on nobody's PATH yet.
    """
    if shutil.which("bayesnn"):
        return "bayesnn"
    beside = Path(sys.executable).with_name("bayesnn")
    return min(os.path.relpath(beside), str(beside), key=len) if beside.exists() else "bayesnn"
