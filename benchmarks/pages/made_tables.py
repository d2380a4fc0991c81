"""The tables of the documentation that are made from stored results."""

from collections.abc import Callable
from typing import Any

from benchmarks.harness.tables import markdown
from benchmarks.pages.compression_table import compression
from benchmarks.pages.conformal_table import conformal_coverage
from benchmarks.pages.efficiency_table import (
    POSTERIORS,
    earlier,
    effective_draws,
    efficiency,
    one_posterior,
)
from benchmarks.pages.minibatch_table import minibatch_images, minibatch_mclmc
from benchmarks.pages.partly_stochastic_table import partly_stochastic
from benchmarks.pages.published_table import published_table
from benchmarks.pages.speed_tables import leapfrog, rows_last
from benchmarks.pages.stored_numbers import ROOT, stored
from benchmarks.pages.table_ranks import table_benchmark

RESULTS = "benchmarks/results"
# Contenders as the records and as the pages call them.
HARD = {
    "mile": "`bnn.mile`",
    "bde": "bde",
    "BlackJAX MCLMC": "BlackJAX MCLMC",
    "BlackJAX NUTS": "BlackJAX NUTS",
    "NumPyro NUTS": "NumPyro NUTS",
}
MNIST = {"SGHMC": "SGHMC", "SGLD": "SGLD", "cyclical": "cyclical SGHMC"}
NETWORKS = {"lenet": "LeNet", "mlp_classification": "MLP"}


def result(name: str) -> Any:
    """A record of `benchmarks/results`, without how it was made."""
    content = stored(f"{RESULTS}/{name}.json")
    return content.get("rows", content)


def full_batch_ratios() -> dict[str, list[float]]:
    """Contender -> time of a leapfrog over that of a gradient, at 100 and 1 000 rows."""
    ours, runs = result("leapfrog"), result("overhead")

    def of_leapfrog(name: str) -> list[float]:
        cases = ("N = 100, 50 leapfrogs", "N = 1000, 50 leapfrogs")
        return [ours[case][name]["over raw gradient"] for case in cases]

    def of_overhead(name: str) -> list[float]:
        found = [runs[rows]["contenders"] for rows in ("100", "1000")]
        return [row[name]["microseconds"] / row["raw gradient"]["microseconds"] for row in found]

    return {
        "`kernels.HMC` under `bnn.sample`": of_leapfrog("HMC, sample"),
        "NumPyro's HMC under `bnn.sample`": of_overhead("bayesnn_ppl"),
        "NumPyro's HMC in a bare scan": of_leapfrog("NumPyro"),
        "BlackJAX HMC in a bare scan": of_overhead("BlackJAX"),
        "NumPyro `MCMC.run`, compilation included": of_overhead("numpyro MCMC"),
    }


def minibatch_ratios() -> dict[str, list[float]]:
    """Contender -> time of a step over that of a gradient in a scan, MLP and LeNet."""
    found = result("sgmcmc")
    names = {
        "SGHMC": "`kernels.SGHMC`",
        "SGLD": "`kernels.SGLD`",
        "BlackJAX SGHMC": "BlackJAX SGHMC",
        "BlackJAX SGLD": "BlackJAX SGLD",
        "host loop": "gradients called from Python",
        "posteriors SGLD": "posteriors (PyTorch) SGLD",
    }
    return {
        shown: [found[case][name]["over scan"] for case in ("mlp", "lenet")]
        for name, shown in names.items()
    }


def step_cost() -> str:
    """Full-batch and minibatch steps over the gradients they need."""
    full = [[name, *map(_ratio, values)] for name, values in full_batch_ratios().items()]
    mini = [[name, *map(_ratio, values)] for name, values in minibatch_ratios().items()]
    leapfrog = markdown(["a leapfrog over a gradient", "100 rows", "1 000 rows"], full)
    step = markdown(["a minibatch step over a gradient", "MLP, B = 64", "LeNet, B = 128"], mini)
    return f"{leapfrog}\n\n{step}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def hard_posteriors() -> dict[str, dict[str, Any]]:
    """Posterior -> contender -> row; `mile` with bde's heads where the net of 50 has them."""
    found = {}
    for name in ("yacht", "energy", "airfoil"):
        for network in ("16-16", "50"):
            rows = result("hard-posteriors")[f"{name}, {network}"]
            # Compared with bde, which has these heads at both sizes.
            own = rows.get("ours: mile, bde's heads", rows["ours: mile"])
            found[f"{name}, {network}"] = {"mile": own, **rows}
    return found


def equal_time() -> str:
    """NLL on six posteriors at equal time, and when `mile` is at bde's."""
    lines = []
    for name, rows in hard_posteriors().items():
        share = rows["mile"]["seconds_to_bde"] / rows["bde"]["seconds"]
        cells = [f"{rows[contender]['nll']:.3f}" for contender in HARD]
        lines.append([name, f"{rows['bde']['seconds']:.0f}", *cells, f"{100 * share:.0f} %"])
    heads = ["posterior", "s", *HARD.values(), "`mile` at bde's NLL after"]
    return markdown(heads, lines)


def mnist() -> str:
    """Two networks on MNIST by three stochastic-gradient samplers."""
    lines = []
    for network, shown in NETWORKS.items():
        for kernel, name in MNIST.items():
            row = result("mnist")[f"{network}, {kernel}"]
            cells = [
                f"{shown}, {name}",
                f"{row['minutes']:.1f}",
                f"{row['draws']} in {row['epochs']}",
            ]
            cells += [f"{100 * row['accuracy']:.2f} %", f"{row['nll']:.3f}"]
            lines.append([*cells, f"{row['ece_bnn_hmc']:.3f}"])
    heads = ["network, sampler", "minutes", "draws in epochs", "accuracy", "NLL", "ECE"]
    return markdown(heads, lines)


def devices() -> list[tuple[int, float, float, float | None]]:
    """(devices, ms a leapfrog with rows shared, arithmetic alone, all-reduce alone)."""
    cases = stored(f"{RESULTS}/scaling.json")["cases"]
    found: list[tuple[int, float, float, float | None]] = []
    for n in (1, 2, 4, 8):
        shared = cases[f"data-{n}"]["ms_a_leapfrog_and_chain"]
        if n == 1:
            found.append((n, shared, shared, None))
            continue
        # Each of n chains on its own device: the time of one is n times that a chain.
        alone = n * cases[f"shares-{n}"]["ms_a_leapfrog_and_chain"]
        found.append((n, shared, alone, cases[f"all-reduce-{n}"]["ms_a_sum"]))
    return found


def data_axis() -> str:
    """A leapfrog whose rows are shared by devices, and what it consists of."""
    lines = []
    for n, shared, alone, reduce in devices():
        rest = "" if reduce is None else f"{shared - alone - reduce:.1f}"
        part = "" if reduce is None else f"{reduce:.2g}"
        lines.append([n, f"{shared:.1f}", f"{alone:.1f}", part, rest])
    heads = [
        "devices",
        "a leapfrog [ms]",
        "arithmetic alone",
        "all-reduce alone",
        "the rest: waiting",
    ]
    return markdown(heads, lines)


def agreement() -> dict[int, float]:
    """Processes -> milliseconds of an agreement among them."""
    return {int(n): ms for n, ms in result("agreement")["milliseconds_an_agreement"].items()}


def agreements() -> str:
    """What an agreement costs among processes."""
    found = agreement()
    return markdown(
        ["processes", *map(str, found)],
        [["an agreement [ms]", *(f"{ms:.1f}" for ms in found.values())]],
    )


def scale() -> str:
    """Devices and processes."""
    return f"{data_axis()}\n\n{agreements()}"


def reference_posteriors() -> str:
    """How each reference posterior was drawn and checked."""
    order = "bostonHousing concrete yacht energy-100 breast_cancer diabetes-ard wine-cold".split()
    folder = "bayesnn_ppl/references"
    found = {path.stem: stored(f"{folder}/{path.name}") for path in (ROOT / folder).glob("*.json")}
    lines = []
    for name in sorted(found, key=lambda n: order.index(n) if n in order else len(order)):
        one = found[name]
        agreed, control = one["agreement"], one["control"]
        runs = [
            f"{run['chains']} × {_thousands(run['draws'])}; {_rhat(run['rhat_max'])}; "
            f"{_thousands(run['ess_min'])}"
            for run in one["samplers"]
        ]
        lines.append([
            f"`{name}`",
            f"{one['data']['rows']}, {agreed['comparisons'] // 2}",
            *runs,
            f"{one['mcse_over_sd_max']:.3f} sd",
            f"{agreed['largest']:.1f} (of {agreed['allowed']:.1f} in {agreed['comparisons']})",
            f"{control['largest']:.0f} at {_factor(control['factor'])} T",
        ])  # fmt: skip
    heads = ["name", "test rows, outputs", "HMC: draws; R-hat; ESS", "NUTS: draws; R-hat; ESS"]
    return markdown([*heads, "error of means", "samplers differ by", "wrong temperature"], lines)


def _thousands(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def _rhat(value: float) -> str:
    # A run ends below 1.01, to which rounding must not lift it.
    return f"{value:.4f}" if f"{value:.4f}" != "1.0100" else f"{min(value, 1.00999):.5f}"


def _factor(value: float) -> str:
    return "2/3" if abs(value - 2 / 3) < 1e-3 else f"{value:g}"


def necks() -> str:
    """Divergences and effective draws of NUTS and WALNUTS where the posterior has a neck."""
    lines = []
    for name, row in result("necks").items():
        cells = [name.replace(":", ","), f"{100 * row['divergences']:.2f} %"]
        for part in ("functions", "scales"):
            ess = row.get(f"ess_{part}")
            cells.append("" if ess is None else f"{ess:.0f}")
            cells.append("" if ess is None else f"{row[f'ess_{part}_per_1000_gradients']:.2f}")
        lines.append([*cells, f"{row['rhat_scales']:.3f}"])
    heads = [
        "posterior, sampler", "divergences", "ESS of functions", "for 1 000 gradients",
        "ESS of scales", "for 1 000 gradients", "R-hat of scales",
    ]  # fmt: skip
    return markdown(heads, lines)


def _efficiency(name: str) -> Any:
    return result(f"efficiency-{name}")


# Name, as a page's comment has it -> the function that makes the table.
TABLES: dict[str, Callable[[], str]] = {
    "step_cost": step_cost,
    "effective_draws": lambda: effective_draws(
        {"boston": _efficiency("bostonHousing"), "concrete": _efficiency("concrete")}
    ),
    "efficiency": lambda: efficiency({name: _efficiency(name) for name in POSTERIORS}),
    "efficiency_earlier": lambda: earlier(
        _efficiency("earlier"), {name: _efficiency(name) for name in _efficiency("earlier")}
    ),
    "efficiency_boston": lambda: one_posterior(_efficiency("bostonHousing")),
    "efficiency_concrete": lambda: one_posterior(_efficiency("concrete")),
    "equal_time": equal_time,
    "mnist": mnist,
    "data_axis": data_axis,
    "agreements": agreements,
    "scale": scale,
    "reference_posteriors": reference_posteriors,
    "necks": necks,
    "leapfrog": lambda: leapfrog(result("leapfrog")),
    "rows_last": lambda: rows_last(result("rows_last")),
    "conformal_coverage": lambda: conformal_coverage(stored(f"{RESULTS}/conformal_coverage.json")),
    "minibatch_mclmc": lambda: minibatch_mclmc(result("minibatch_mclmc")),
    "minibatch_images": lambda: minibatch_images(result("minibatch_images")),
    "partly_stochastic": lambda: partly_stochastic(stored(f"{RESULTS}/partly_stochastic.json")),
    **table_benchmark(f"{RESULTS}/table_benchmark.json"),
    "compression": lambda: compression(stored(f"{RESULTS}/compression.json")),
    "published_tables": lambda: published_table(stored(f"{RESULTS}/published-tables.json")),
}
