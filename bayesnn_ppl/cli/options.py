"""The options of sampling, of what is kept, and of the model, with units and defaults."""

from typing import Any

from bayesnn_ppl.cli.kernel_tables import KERNELS
from bayesnn_ppl.cli.methods import add_method, shown
from bayesnn_ppl.cli.parser import Parser, choice, choices, number, option, switch, whole, widths
from bayesnn_ppl.cli.prior_families import FAMILIES

__all__ = [
    "AUGMENTATIONS",
    "COUNTS",
    "GROUPS",
    "LIKELIHOODS",
    "MODEL_OPTIONS",
    "add_folder",
    "add_keep",
    "add_model",
    "add_sampling",
    "add_seed",
]

LIKELIHOODS = {
    "gaussian": "regression",
    "heteroscedastic": "regression",
    "laplace": "regression",
    "student_t": "regression",
    "mixture_density": "regression",
    "quantile": "regression",
    "poisson": "regression",
    "negative_binomial": "regression",
    "categorical": "classification",
    "bernoulli": "classification",
    "ordinal": "classification",
}
COUNTS = ("poisson", "negative_binomial")

# Words of `bayesnn_ppl.storage` and `bayesnn_ppl.augmentations`, which are not imported to read a
# command line.
GROUPS = (
    "log_likelihood",
    "log_prior",
    "posterior_predictive",
    "observed_data",
    "constant_data",
    "functions",
)
AUGMENTATIONS = ("noise", "flip", "crop", "crop-reflect", "flip-crop")

# Attributes of the parsed arguments that belong to some models. They are None where they were not
# given, so that a command can refuse what does not apply.
MODEL_OPTIONS = (
    "hidden",
    "activation",
    "likelihood",
    "noise_scale",
    "prior",
    "prior_scale",
    "prior_variance",
    "temperature",
    "augmentation",
    "dropout",
)


def add_sampling(parser: Parser) -> None:
    """How to draw."""
    group = parser.add_argument_group("sampling")
    add_method(group)
    option(
        group,
        "--kernel",
        "sampler",
        shown=shown("kernel"),
        type=choice(*KERNELS),
        metavar="{" + ",".join(KERNELS) + "}",
        unit="word",
    )
    option(
        group,
        "--warmup",
        "draws that adapt the kernel and are thrown away",
        shown=shown("warmup"),
        type=whole(0),
        metavar="N",
        unit="draws per chain",
    )
    option(
        group,
        "--draws",
        "draws that are kept; where --until-rhat or --until-ess ends the run, the most of them",
        shown=shown("draws"),
        type=whole(1),
        metavar="N",
        unit="draws per chain",
    )
    option(
        group,
        "--chains",
        "chains; two or more show whether they agree",
        shown=shown("chains"),
        type=whole(1),
        metavar="N",
        unit="chains",
    )
    add_seed(group)
    option(
        group,
        "--thinning",
        "transitions for each kept draw",
        default=1,
        type=whole(1),
        metavar="N",
        unit="transitions per draw",
    )
    option(
        group,
        "--chain-method",
        "how chains share the devices",
        default="parallel",
        type=choice("parallel", "vectorized", "sequential"),
        metavar="{parallel,vectorized,sequential}",
        unit="word",
    )
    option(
        group,
        "--devices",
        "devices that share the chains, for parallel chains",
        type=whole(1),
        metavar="N",
        unit="devices",
        shown="the cores, or as many as divide the chains",
    )
    option(
        group,
        "--data-devices",
        "devices that share the rows of each chain, for parallel chains",
        default=1,
        type=whole(1),
        metavar="N",
        unit="devices",
    )
    option(
        group,
        "--init",
        "where chains start: at draws from the prior, where the network's own initialisers put its "
        "weights, or at networks trained apart, one for each chain, which spares the warm-up the "
        "way there",
        shown=shown("init"),
        type=choice("prior", "network", "ensemble"),
        metavar="{prior,network,ensemble}",
        unit="word",
    )
    switch(group, "--float64", "double precision")


def add_seed(group: Any) -> None:
    """The seed of a command that draws."""
    option(
        group,
        "--seed",
        "seed of all randomness",
        default=0,
        type=whole(0),
        metavar="N",
        unit="integer",
    )


def add_keep(parser: Parser, *, tensorboard: bool = True) -> None:
    """What a run keeps of its draws."""
    group = parser.add_argument_group("what is kept")
    option(
        group,
        "--keep",
        "weights of the draws, their moments alone, or function values alone; function values at "
        "the probe are kept with each of them",
        default="weights",
        type=choice("weights", "moments", "functions"),
        metavar="{weights,moments,functions}",
        unit="word",
    )
    option(
        group,
        "--keep-every",
        "keep the weights of every K-th draw only",
        default=1,
        type=whole(1),
        metavar="K",
        unit="draws",
    )
    option(
        group,
        "--keep-groups",
        f"groups that ArviZ's functions look for, stored when the run is complete: "
        f"{', '.join(GROUPS)}",
        type=choices(*GROUPS),
        metavar="NAME,NAME",
        unit="words",
        shown="none",
    )
    switch(group, "--bfloat16", "round kept weights to bfloat16: half the space on disk")
    option(
        group,
        "--probe-rows",
        "test rows at which function values are kept; 0 keeps none",
        type=whole(0),
        metavar="N",
        unit="rows",
        shown="as many as give 2000 function values a draw",
    )
    if tensorboard:
        switch(group, "--tensorboard", "write metrics as TensorBoard events, to RUN/tensorboard")


def add_folder(parser: Parser) -> None:
    """Where a run goes, and what is said of it."""
    group = parser.add_argument_group("where the run goes")
    option(
        group,
        "--out",
        "folder of the run, new or empty",
        metavar="FOLDER",
        unit="path",
        shown="runs/DATA-MODEL, with -2, -3, ... if it is taken",
    )
    option(
        group,
        "--reference",
        "compare predictions at the test rows with the published ones of full-batch HMC",
        type=choice("cifar10", "imdb"),
        metavar="{cifar10,imdb}",
        unit="word",
        shown="no comparison",
    )
    switch(group, "--no-diagnose", "do not judge convergence afterwards")
    switch(group, "--quiet", "no progress bar and no hints, only the results")


def add_model(parser: Parser) -> None:
    """What the zoo's models can be told; one that does not apply to a model is refused."""
    group = parser.add_argument_group("model (zoo models only, as far as they have the setting)")
    option(
        group,
        "--hidden",
        "widths of the hidden layers, or `none`",
        type=widths,
        metavar="W,W",
        unit="units",
        shown="50,50",
    )
    option(
        group,
        "--activation",
        "activation of the hidden units",
        type=choice("relu", "tanh", "swish", "gelu", "sigmoid"),
        metavar="{relu,tanh,swish,gelu,sigmoid}",
        unit="word",
        shown="tanh",
    )
    option(
        group,
        "--likelihood",
        "distribution of the target; mixture_density has three components, quantile the levels "
        "0.05, 0.5 and 0.95, and poisson and negative_binomial take counts, which are not "
        "standardised",
        type=choice(*LIKELIHOODS),
        metavar="{" + ",".join(LIKELIHOODS) + "}",
        unit="word",
        shown="gaussian for regression, categorical for classification",
    )
    option(
        group,
        "--noise-scale",
        "fixed noise of the gaussian likelihood",
        type=number(),
        metavar="S",
        unit="standard deviations of the training targets",
        shown="learned, HalfNormal(1)",
    )
    option(
        group,
        "--prior",
        "family of the prior on every weight and bias, of mean 0 and the variance that "
        "--prior-scale or --prior-variance says, 1 where neither is given; cauchy, which has none, "
        "has the quartiles of the normal",
        type=choice(*FAMILIES),
        metavar="{" + ",".join(FAMILIES) + "}",
        unit="word",
        shown="normal where its scale is given, else the model's own prior",
    )
    option(
        group,
        "--prior-scale",
        "prior N(0, S^2) on every weight and bias, or another --prior of that size",
        type=number(),
        metavar="S",
        unit="standard deviation",
        shown="the model's own prior",
    )
    option(
        group,
        "--prior-variance",
        "the same prior, by its variance",
        type=number(),
        metavar="V",
        unit="variance",
        shown="the model's own prior",
    )
    option(
        group,
        "--temperature",
        "temperature of the likelihood, p(D|w)^(1/T) p(w)",
        type=number(),
        metavar="T",
        unit="1 is Bayes",
        shown="1",
    )
    option(
        group,
        "--augmentation",
        "dirty likelihood: inputs transformed at random in training, by minibatch kernels, `map` "
        "and `ensemble`; noise has a standard deviation of 0.1",
        type=choice(*AUGMENTATIONS),
        metavar="{" + ",".join(AUGMENTATIONS) + "}",
        unit="word",
        shown="none",
    )
    option(
        group,
        "--dropout",
        "dirty likelihood: inputs of dense and convolutional layers dropped in training, and in no "
        "prediction",
        type=number(below=1.0),
        metavar="P",
        unit="share of them",
        shown="none",
    )
    group = parser.add_argument_group("any model")
    option(
        group,
        "--posterior-temperature",
        "temperature of the whole posterior, [p(D|w) p(w)]^(1/T)",
        default=1.0,
        type=number(),
        metavar="T",
        unit="1 is Bayes",
        shown="1",
    )
