"""Recipes, runs whose settings were published, and studies, which are tables of recipes."""

from bayesnn_ppl.experiments.protocols.acquiring import acquire
from bayesnn_ppl.experiments.protocols.bandits import Problem, labels_problem, play, wheel_problem
from bayesnn_ppl.experiments.protocols.kinds import ActiveLearning, Bandit, Shift
from bayesnn_ppl.experiments.recipe import (
    SCALES,
    Published,
    Recipe,
    Scale,
    load_recipe,
    recipe_names,
)
from bayesnn_ppl.experiments.recipe_runs import RecipeRun, run_recipe
from bayesnn_ppl.experiments.results import Results, read_results
from bayesnn_ppl.experiments.running import Outcome, run_study
from bayesnn_ppl.experiments.study import Arm, Cell, Study, load_study, study_names

__all__ = [
    "SCALES",
    "ActiveLearning",
    "Arm",
    "Bandit",
    "Cell",
    "Outcome",
    "Problem",
    "Published",
    "Recipe",
    "RecipeRun",
    "Results",
    "Scale",
    "Shift",
    "Study",
    "acquire",
    "labels_problem",
    "load_recipe",
    "load_study",
    "play",
    "read_results",
    "recipe_names",
    "run_recipe",
    "run_study",
    "study_names",
    "wheel_problem",
]
