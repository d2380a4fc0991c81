"""The kernels of `bayesnn sample` and their options, as tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesnn_ppl.cli.parser import choice, number, number_or_auto, numbers, share, whole

__all__ = ["KERNELS", "OPTIONS", "PRECONDITIONERS", "SCHEDULES", "SCHEDULE_OPTIONS"]

SCHEDULES = ("constant", "burn-in", "cyclical", "cyclical-step")
PRECONDITIONERS = ("none", "rmsprop", "rmsprop-plain")


@dataclass(frozen=True)
class Kernel:
    """A sampler of the command line.

    Attributes:
        name: of its class, in `bayesnn_ppl.kernels` or, for NUTS, in `numpyro.infer`.
        text: what it is, in a few words.
        takes: option -> argument of the class.
        needs: options that must be given.
    """

    name: str
    text: str
    takes: Mapping[str, str]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """An option that some kernels have; `add_kernel` says which.

    Attributes:
        text: what it is for.
        type, metavar, unit: as of `parser.option`.
        shown: the default in words.
    """

    text: str
    type: Callable[[str], Any]
    metavar: str
    unit: str
    shown: str


def _yes_or_no(text: str) -> bool:
    return choice("yes", "no")(text) == "yes"


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_STEP = _same("step_size", "target_accept")
_WHOLE_DATA = _same("rows_at_once")
# Options that make a schedule of the step size; `step_schedules.py` says which.
SCHEDULE_OPTIONS = ("final_step_size", "steps_per_cycle", "schedule")
_STOCHASTIC = {
    **_same("step_size", "batch_size", "steps_per_draw", "minibatches"),
    **_same("preconditioner", "sub_batches"),
    **dict.fromkeys(SCHEDULE_OPTIONS, "step_size"),
}
_STOCHASTIC_NEEDS = ("step_size", "batch_size")
KERNELS: dict[str, Kernel] = {
    "nuts": Kernel(
        "NUTS",
        "finds the length of each trajectory itself",
        {
            "step_size": "step_size",
            "target_accept": "target_accept_prob",
            "max_tree_depth": "max_tree_depth",
        },
    ),
    "hmc": Kernel(
        "HMC",
        "lean, with trajectories of one length",
        {
            **_STEP,
            **_WHOLE_DATA,
            **_same("trajectory_length", "jitter", "mass", "adapt_step_size"),
            "num_steps": "num_leapfrogs",
            "trajectory_prior_variance": "prior_variance",
        },
    ),
    "chees": Kernel(
        "ChEES",
        "the chains learn the length together",
        {**_STEP, **_WHOLE_DATA, **_same("trajectory_length", "jitter", "mass")},
    ),
    "mala": Kernel("MALA", "one gradient a draw", {**_STEP, **_WHOLE_DATA}),
    "random-walk": Kernel("RandomWalk", "no gradient, for teaching", _STEP),
    "parallel-tempering": Kernel(
        "ParallelTempering",
        "a ladder of temperatures in each chain",
        {**_STEP, "num_steps": "num_leapfrogs", "temperatures": "temperatures"},
    ),
    "mclmc": Kernel(
        "MCLMC",
        "microcanonical, fast and with a small bias",
        {
            **_same("step_size", "steps_per_draw", "preconditioning", "energy_variance_end"),
            "trajectory_length": "length",
            **_WHOLE_DATA,
        },
    ),
    "adjusted-mclmc": Kernel(
        "AdjustedMCLMC",
        "the same with an accept step, without bias",
        {
            **_STEP,
            **_WHOLE_DATA,
            "trajectory_length": "length",
            "preconditioning": "preconditioning",
        },
    ),
    "sgld": Kernel(
        "SGLD", "stochastic-gradient Langevin, by minibatches", _STOCHASTIC, _STOCHASTIC_NEEDS
    ),
    "sghmc": Kernel(
        "SGHMC",
        "the same with momentum",
        {**_STOCHASTIC, "momentum_decay": "momentum_decay"},
        _STOCHASTIC_NEEDS,
    ),
    "langevin": Kernel(
        "Langevin",
        "the same by BAOAB, exact on Gaussians but for the minibatches",
        {**_STOCHASTIC, **_same("momentum_decay", "integrator")},
        _STOCHASTIC_NEEDS,
    ),
    "sgnht": Kernel(
        "SGNHT",
        "a thermostat takes up the noise of the minibatches",
        {**_STOCHASTIC, "momentum_decay": "momentum_decay"},
        _STOCHASTIC_NEEDS,
    ),
}
_INTEGRATORS = (
    "BAOAB",
    "OBABO",
    "BBK",
    "symplectic_euler",
    "position_verlet",
    "leimkuhler_matthews",
)

# The defaults are those of the classes, which a test compares.
OPTIONS: dict[str, Option] = {
    "step_size": Option(
        "first step size, for mala eta of the drift eta grad U; warm-up adapts it. For sgld, "
        "sghmc, langevin and sgnht the squared time step on the summed loss, which stays; auto "
        "looks by pilot runs for the largest that keeps the temperature",
        number_or_auto,
        "H",
        "units of the unconstrained parameters",
        "nuts 1, hmc 0.01, chees 0.1, mala 0.0001, random-walk 0.1, parallel-tempering 0.1, "
        "mclmc 0.001, adjusted-mclmc 0.1, others none",
    ),
    "target_accept": Option(
        "acceptance that the step size is adapted to",
        number(below=1),
        "P",
        "probability",
        "nuts 0.8, hmc 0.8, chees 0.651, mala 0.574, random-walk 0.234, parallel-tempering 0.8, "
        "adjusted-mclmc 0.9",
    ),
    "adapt_step_size": Option(
        "whether the warm-up adapts the step size; `no` keeps the one given for all draws",
        _yes_or_no,
        "{yes,no}",
        "word",
        "yes",
    ),
    "max_tree_depth": Option(
        "at most 2^D - 1 leapfrog steps for each draw", whole(1), "D", "doublings", "10"
    ),
    "trajectory_length": Option(
        "integration time of each draw; where the warm-up begins for chees; the mean, which is "
        "else tuned, for adjusted-mclmc; for mclmc the way on which the velocity is forgotten",
        number(),
        "L",
        "step size times steps, with --mass diagonal posterior standard deviations",
        "hmc pi/2, others tuned",
    ),
    "num_steps": Option(
        "leapfrog steps of each draw, in place of --trajectory-length; the most of them for "
        "parallel-tempering",
        whole(1),
        "N",
        "steps",
        "hmc trajectory length over step size, parallel-tempering 20",
    ),
    "trajectory_prior_variance": Option(
        "in place of --trajectory-length, the rule of Izmailov et al. (2021) for weights with the "
        "prior N(0, V): the length (pi/2) sqrt(T V) at the posterior temperature T",
        number(),
        "V",
        "variance",
        "none",
    ),
    "rows_at_once": Option(
        "the most rows that a gradient of the whole data looks at together: it is added up over "
        "blocks, in the memory of one",
        whole(1),
        "N",
        "rows",
        "all",
    ),
    "jitter": Option(
        "the share by which the lengths of trajectories vary, so that none resonates",
        share,
        "J",
        "share of the length",
        "hmc 0, chees 1",
    ),
    "mass": Option(
        "diagonal learns the posterior's scales in the warm-up",
        choice("identity", "diagonal"),
        "{identity,diagonal}",
        "word",
        "diagonal; hmc with --trajectory-prior-variance: identity",
    ),
    "steps_per_draw": Option(
        "steps of each draw",
        whole(1),
        "N",
        "steps, of two gradients for mclmc and one for others",
        "mclmc 10, others 100",
    ),
    "energy_variance_end": Option(
        "what the step size is tuned to, the variance of a step's energy error over the number of "
        "weights: smaller is less biased and slower. 5e-4 keeps moments to a few per cent",
        number(),
        "V",
        "nats squared per weight",
        "0.1, or 0.01 for --method mile",
    ),
    "batch_size": Option("rows of each minibatch", whole(1), "B", "rows", "none"),
    "minibatches": Option(
        "drawn anew for each step, or one permutation of the rows an epoch",
        choice("random", "epoch"),
        "{random,epoch}",
        "word",
        "random",
    ),
    "final_step_size": Option(
        "where --schedule burn-in ends: the step size of the draws",
        number(),
        "H",
        "as --step-size",
        "--step-size",
    ),
    "steps_per_cycle": Option(
        "length of a cycle of --schedule cyclical, best that of a draw or several",
        whole(2),
        "N",
        "steps",
        "--steps-per-draw, one draw at the end of each cycle",
    ),
    "schedule": Option(
        "how the step size moves: along half a cosine to --final-step-size in the warm-up; or "
        "constant in the warm-up and then cycle by cycle to nearly 0 along half a cosine, of its "
        "square root (cyclical) or of itself (cyclical-step, as Zhang et al. and bnn_hmc do)",
        choice(*SCHEDULES),
        "{" + ",".join(SCHEDULES) + "}",
        "word",
        "constant",
    ),
    "preconditioner": Option(
        "a mass for each weight by the size of its gradients: rmsprop is learned in the warm-up "
        "and then fixed; rmsprop-plain moves at every step, which is biased, as in bnn_hmc",
        choice(*PRECONDITIONERS),
        "{" + ",".join(PRECONDITIONERS) + "}",
        "word",
        "none",
    ),
    "sub_batches": Option(
        "parts of a minibatch whose gradients are added up, in the memory of one",
        whole(1),
        "N",
        "parts",
        "1",
    ),
    "momentum_decay": Option(
        "the part of the momentum that is left after a step", share, "BETA", "share", "0.9"
    ),
    "integrator": Option(
        "how the dynamics is cut into steps",
        choice(*_INTEGRATORS),
        "NAME",
        "one of " + ", ".join(_INTEGRATORS),
        "BAOAB",
    ),
    "preconditioning": Option(
        "diagonal learns the posterior's scales in the warm-up",
        choice("identity", "diagonal"),
        "{identity,diagonal}",
        "word",
        "diagonal",
    ),
    "temperatures": Option(
        "rising temperatures of each chain's ladder, the first of them 1",
        numbers,
        "T,T",
        "1 is the posterior",
        "1,1.6,2.5,4,6.4,10",
    ),
}
