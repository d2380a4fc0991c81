"""The flags of bnn_hmc's scripts: what each is here, or what replaces it.

`bayesnn run` takes them as they are in that README, so its commands can be copied.
"""

from dataclasses import dataclass

__all__ = ["FLAGS", "Flag"]

_SURFACE = (
    "it belongs to make_posterior_surface_plot.py: see `diagnostics.posterior_surface` and "
    "`plots.plot_surface` in Python, with draws of a run in place of checkpoints"
)


@dataclass(frozen=True)
class Flag:
    """A flag of bnn_hmc.

    Attributes:
        text: what it is here.
        setting: of the recipe, that it sets by the same value; "" where more is to be done.
        answer: for a flag that changes no result: what is there instead.
        refusal: for one that would change it: what to do instead.
        switch: whether it has no value.
    """

    text: str
    setting: str = ""
    answer: str = ""
    refusal: str = ""
    switch: bool = False


def _answered(what: str) -> Flag:
    return Flag(f"changes no result: {what}", answer=what)


def _refused(what: str) -> Flag:
    return Flag(f"is refused: {what}", refusal=what)


_TAKES_ITS_TIME = "the progress bar and `metrics.csv` show how a run goes, at every commit"
FLAGS: dict[str, Flag] = {
    "seed": Flag("seed of all randomness", "seed"),
    "dir": Flag("as --out"),
    "dataset_name": Flag("as --set data=NAME; `yacht_2` is --set data=yacht --set split=2"),
    "subset_train_to": Flag("as --set subset=N", "subset"),
    "model_name": Flag("as --set model=NAME; resnet20_frn_swish is resnet20_frn"),
    "weight_decay": Flag("as --set prior_variance=1/V"),
    "temperature": Flag(
        "that of the whole posterior: as --set posterior_temperature=T", "posterior_temperature"
    ),
    "init_checkpoint": Flag(
        "as --set init=RUN, the folder of a run in which chains start; `bayesnn resume` and "
        "`bayesnn extend` continue one"
    ),
    "tabulate_freq": _answered(_TAKES_ITS_TIME),
    "use_float64": Flag("as --set float64=true", switch=True),
    "step_size": Flag("as --set step_size=H, and without adaptation", "step_size"),
    "trajectory_len": Flag("as --set trajectory_length=L", "trajectory_length"),
    "num_iterations": Flag("warm-up and draws together: as --set draws=N minus the warm-up"),
    "max_num_leapfrog_steps": Flag("a run whose trajectories would be longer is refused"),
    "num_burn_in_iterations": Flag("as --set warmup=N", "warmup"),
    "init_step_size": Flag(
        "as --set step_size=H; for gradient descent --set learning_rate=H*N, on the mean loss of N "
        "rows, and for Adam learning_rate=H"
    ),
    "num_epochs": Flag("as --set epochs=N; for SGLD and SGHMC warm-up and draws together"),
    "batch_size": Flag("as --set batch_size=B", "batch_size"),
    "eval_freq": _answered(f"{_TAKES_ITS_TIME}; --set tensorboard=true writes events"),
    "save_freq": _answered("a run on disk is saved every two seconds or so"),
    "momentum_decay": Flag("as --set momentum=M; for SGHMC momentum_decay=M"),
    "momentum": Flag("as --set momentum_decay=M; for gradient descent momentum=M"),
    "preconditioner": Flag("as --set preconditioner=none, or rmsprop-plain for RMSprop"),
    "step_size_schedule": Flag("constant is --set schedule=burn-in, cyclical is cyclical-step"),
    "num_burnin_epochs": Flag("as --set warmup=N, which counts draws"),
    "final_step_size": Flag("as --set final_step_size=H", "final_step_size"),
    "step_size_cycle_length_epochs": Flag("as --set steps_per_cycle=N, which counts steps"),
    "save_all_ensembled": Flag("as --set keep=weights, the default", switch=True),
    "ensemble_freq": Flag("as --set steps_per_draw=N, which counts steps"),
    "optimizer": Flag("SGD is --set optimiser=sgd; Adam is adamw, the default"),
    "vi_sigma_init": Flag("as --set sigma_init=S", "sigma_init"),
    "vi_ensemble_size": Flag("as --set draws=N of the approximation", "draws"),
    "mean_init_checkpoint": Flag(
        "as --set mode=RUN, the folder of a run; `--set mode=map` trains a network in the same run"
    ),
    **{f"limit_{side}": _refused(_SURFACE) for side in ("bottom", "top", "left", "right")},
    "grid_size": _refused(_SURFACE),
    **{f"checkpoint{number}": _refused(_SURFACE) for number in (1, 2, 3)},
}
