"""The options of models."""

from dataclasses import dataclass

from bayesnn_ppl.data.common.standardisation import Units
from bayesnn_ppl.settings.declaring import setting
from bayesnn_ppl.settings.models.prior_families import FAMILIES
from bayesnn_ppl.settings.value_kinds import choice, number, widths

__all__ = ["LIKELIHOODS", "ModelSettings", "ZooSettings"]

LIKELIHOODS = {
    "gaussian": "regression",
    "heteroscedastic": "regression",
    "laplace": "regression",
    "student_t": "regression",
    "log_normal": "regression",
    "mixture_density": "regression",
    "quantile": "regression",
    "poisson": "regression",
    "negative_binomial": "regression",
    "categorical": "classification",
    "bernoulli": "classification",
    "ordinal": "classification",
}

# How `data.load` standardises for a likelihood that takes targets of one kind only.
_STANDARDISED: dict[str, Units] = {
    "poisson": "inputs",
    "negative_binomial": "inputs",
    "log_normal": "positive",
}


@dataclass(frozen=True)
class ZooSettings:
    """The options of models of the zoo; one that does not apply to a model is refused."""

    hidden: tuple[int, ...] | None = setting(
        "widths of the hidden layers, or `none`",
        read=widths,
        metavar="W,W",
        unit="units",
        shown="50,50",
    )
    activation: str | None = setting(
        "activation of the hidden units",
        read=choice("relu", "tanh", "swish", "gelu", "sigmoid"),
        unit="word",
        shown="tanh",
    )
    likelihood: str | None = setting(
        "distribution of the target; mixture_density has three components, quantile the levels "
        "0.05, 0.5 and 0.95, poisson and negative_binomial take counts, which are not "
        "standardised, and log_normal positive numbers, which are divided by their geometric mean",
        read=choice(*LIKELIHOODS),
        unit="word",
        shown="gaussian for regression, categorical for classification",
    )
    noise_scale: float | None = setting(
        "fixed noise of the gaussian likelihood",
        read=number(),
        metavar="S",
        unit="standard deviations of the training targets",
        shown="learned, HalfNormal(1)",
    )
    prior: str | None = setting(
        "family of the prior on every weight and bias, of mean 0 and the variance that "
        "--prior-scale or --prior-variance says, 1 where neither is given; cauchy, which has none, "
        "has the quartiles of the normal",
        read=choice(*FAMILIES),
        unit="word",
        shown="normal where its scale is given, else the model's own prior",
    )
    prior_scale: float | None = setting(
        "prior N(0, S^2) on every weight and bias, or another --prior of that size",
        read=number(),
        metavar="S",
        unit="standard deviation",
        shown="the model's own prior",
    )
    prior_variance: float | None = setting(
        "the same prior, by its variance",
        read=number(),
        metavar="V",
        unit="variance",
        shown="the model's own prior",
    )
    temperature: float | None = setting(
        "temperature of the likelihood, p(D|w)^(1/T) p(w)",
        read=number(),
        metavar="T",
        unit="1 is Bayes",
        shown="1",
    )
    augmentation: str | None = setting(
        "dirty likelihood: inputs transformed at random in training, by minibatch kernels, `map` "
        "and `ensemble`; noise has a standard deviation of 0.1",
        read=choice("noise", "flip", "crop", "crop-reflect", "flip-crop"),
        unit="word",
        shown="none",
    )
    dropout: float | None = setting(
        "dirty likelihood: inputs of dense and convolutional layers dropped in training, and in no "
        "prediction",
        read=number(below=1.0),
        metavar="P",
        unit="share of them",
        shown="none",
    )

    @property
    def standardised(self) -> Units | None:
        """How its likelihood needs the data standardised; None where any way will do."""
        return _STANDARDISED.get(self.likelihood or "")


@dataclass(frozen=True)
class ModelSettings:
    """The options of any model."""

    posterior_temperature: float = setting(
        "temperature of the whole posterior, [p(D|w) p(w)]^(1/T)",
        default=1.0,
        read=number(),
        metavar="T",
        unit="1 is Bayes",
        shown="1",
    )
