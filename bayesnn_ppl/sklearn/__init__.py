"""Scikit-learn estimators: a model, a method and its diagnosis behind `fit` and `predict`."""

from bayesnn_ppl.sklearn.estimators import BayesianClassifier, BayesianRegressor
from bayesnn_ppl.sklearn.perceptrons import BayesianMLPClassifier, BayesianMLPRegressor

__all__ = [
    "BayesianClassifier",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "BayesianRegressor",
]
