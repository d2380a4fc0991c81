"""Recipes, runs whose settings were published, and studies, which are tables of recipes."""

from bayesnn_ppl.experiments.recipe import (
    SCALES,
    Published,
    Recipe,
    Scale,
    load_recipe,
    recipe_names,
)
from bayesnn_ppl.experiments.results import Results, read_results
from bayesnn_ppl.experiments.running import Outcome, run_study
from bayesnn_ppl.experiments.study import Arm, Cell, Study, load_study, study_names

__all__ = [
    "SCALES",
    "Arm",
    "Cell",
    "Outcome",
    "Published",
    "Recipe",
    "Results",
    "Scale",
    "Study",
    "load_recipe",
    "load_study",
    "read_results",
    "recipe_names",
    "run_study",
    "study_names",
]
