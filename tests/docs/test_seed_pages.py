"""The pages on the four seed documents: what they name exists, and what they quote was recorded."""

import functools
import inspect
import json
import re

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.experiments import load_recipe, recipe_names, study_names
from bayesnn_ppl.experiments.bnn_hmc_flags import FLAGS
from bayesnn_ppl.report.gallery import gallery_page
from benchmarks.harness.running import studies
from tests.docs.reading import ROOT, name

PAGES = sorted((ROOT / "docs" / "systems").glob("*.md"))
RESULTS = ROOT / "benchmarks" / "results"
NOTEBOOKS = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
JUDGED = "Here, at which size, with what result"
JUDGEMENTS = r"\*\*(Agrees|Differs|In part|Undecided|Here)[.:]?\*\*"
NUMBER = r"(?<![\w.\-])-?\d+\.\d+(?:e-?\d+)?(?!\w|\.\d)"
# A notebook, and what is said of it before another source is named.
QUOTE = (
    r"[Nn]otebooks? (\d\d(?: and \d\d)?)"
    r"(.*?)(?=[Nn]otebooks? \d\d|`bayesnn |`python -m|IMDB|CIFAR|UCI|$)"
)


def is_public(place, owner=bnn):
    """Whether a dotted name can be reached from an object."""
    for part in place.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


# What a page may name: a pattern, and whether what it found exists.
NAMES = {
    r"\bbnn\.([A-Za-z_][\w.]*\w)": is_public,
    r"\bposterior\.(\w+)": lambda word: is_public(word, bnn.Posterior),
    r"\bprediction\.(\w+)": lambda word: is_public(word, bnn.Prediction),
    r"\bbayesnn study (\S+?)(?=[ `\n])": lambda word: word in {*study_names(), "NAME"},
    r"\bbayesnn run (\S+?)(?=[ `\n])": lambda word: word in {*recipe_names(), "RECIPE"},
    r"\bpython -m benchmarks (\S+?)(?=[ `\n])": lambda word: word in studies(),
    r"\b[Nn]otebooks? (\d\d)": NOTEBOOKS.__contains__,
    r"\b[Nn]otebooks \d\d and (\d\d)": NOTEBOOKS.__contains__,
    r"`--(\w+_\w+)": FLAGS.__contains__,
}
# Names without `bnn.` in front, which nobody could look up.
BARE = (
    r"`(?:kernels|approximations|priors|likelihoods|diagnostics|metrics|plots|models|data)\."
    r"(?!csv)\w+"
)


def not_there(text):
    """What of a page's names does not exist."""
    found = [
        match[0]
        for pattern, exists in NAMES.items()
        for match in re.finditer(pattern, text)
        if not exists(match[1])
    ]
    return found + re.findall(BARE, text)


def rows(text, head=None):
    """The cells of the rows of tables; of those whose head has a cell `head`, if it is given."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        first, _, *rest = [
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
        ]
        if head is None or head in [cell.strip("| ") for cell in first]:
            found += rest
    return found


@functools.cache
def numbers_of(numeral):
    """Words and outputs of a notebook as numbers, the text of pictures left out."""
    cells = json.loads(NOTEBOOKS[numeral].read_text())["cells"]
    text = []
    for cell in cells:
        text += cell["source"]
        for output in cell.get("outputs", []):
            text += output.get("text", []) + output.get("data", {}).get("text/plain", [])
    found = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", " ".join(text))
    return {sign * float(number) for number in found for sign in (1, -1)}


def not_quoted(row):
    """Decimal numbers that a row says a notebook shows, and that the notebook has not.

    What follows the name of a notebook is its own, up to the next source that is named.
    """
    found = []
    for sources, said in re.findall(QUOTE, " ".join(row)):
        known = set().union(*map(numbers_of, re.findall(r"\d\d", sources)))
        plain = re.sub(r"`[^`]*`", "", said)
        found += [number for number in re.findall(NUMBER, plain) if not is_among(number, known)]
    return found


def is_among(number, known):
    """Whether one of the numbers is this one, as it is rounded here."""
    if "e" in number:
        return any(abs(value / float(number) - 1) < 0.05 for value in known)
    places = len(number.partition(".")[2])
    # Half a unit of the last place, and a little for what was printed with one place more.
    return any(abs(value - float(number)) <= 0.5001 * 10**-places for value in known)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_what_a_seed_page_names_exists(path):
    text = path.read_text()
    assert len(PAGES) == 4 and "`bnn." in text and re.search(r"[Nn]otebook \d\d", text)
    assert not_there(text) == []


@pytest.mark.parametrize(
    "invented",
    [
        "`bnn.kernels.MagicHMC`",
        "`bnn.prior.normal`",
        "`posterior.oracle`",
        "`prediction.truth`",
        "`bayesnn study warm-posterior --scale cpu`",
        "`bayesnn run hmc-imagenet`",
        "`python -m benchmarks miracles`",
        "Notebook 99: all is well.",
        "`--warmup_epochs=3`",
        "`kernels.HMC`",
    ],
)
def test_an_invented_name_is_found(invented):
    (fault,) = not_there(f"| claim | **Here.** {invented} |\n")
    assert fault.strip("`") in invented


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_claim_is_judged(path):
    judged = rows(path.read_text(), JUDGED)
    assert path.stem == "bnn_hmc" or len(judged) > 20
    assert judged
    for row in judged:
        assert len(row) == 2, row
        assert re.match(JUDGEMENTS, row[1]), row


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_figures_of_notebooks_are_those_of_their_outputs(path):
    for row in rows(path.read_text()):
        assert not_quoted(row) == [], row
    made_up = ["Notebook 06: variance 1.3579. `bayesnn study width`: 2.4680.", "1.0428"]
    assert not_quoted(made_up) == ["1.3579"]


def test_the_gallery_has_what_its_table_names():
    given = inspect.signature(gallery_page).parameters
    known = {*given["targets"].default, *given["samplers"].default}
    text = (ROOT / "docs" / "systems" / "ambrogioni.md").read_text()
    first, second, *_ = rows(text, "In `bayesnn gallery`")
    for _, here in (first, second):
        named = set(re.findall(r"`([^`]+)`", here))
        assert named and named <= known


def recorded(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def test_figures_of_recipes_are_those_recorded():
    """Score, and the published one in parentheses, of every recipe that is in the record."""
    record, seen = recorded("recipes-cpu"), set()
    text = (ROOT / "docs" / "systems" / "bnn_hmc.md").read_text()
    for _, here in rows(text, "Recipe, size, result"):
        parts = re.split(r"`bayesnn run ([\w-]+)`", here)
        for recipe, said in zip(parts[1::2], parts[2::2], strict=True):
            if recipe not in record:
                continue
            run, published = record[recipe], load_recipe(recipe).published
            numbers = {float(n) for n in re.findall(r"(?<![\w(.])\d\.\d+", said)}
            quoted = {float(n) for n in re.findall(r"\((?:\w+: )?(\d\.\d+)\)", said)}
            known = {round(value, 3) for value in run["scores"].values()}
            assert not published or quoted <= {figure.value for figure in published}, recipe
            other = {0.499} if recipe == "sgd-cifar10" else set()  # a run of other settings
            assert {round(n, 3) for n in numbers - quoted} <= known | other, recipe
            minutes = re.search(r"(\d+) minutes", said)
            assert minutes is None or abs(int(minutes[1]) - run["seconds"] / 60) < 0.51, recipe
            seen.add(recipe)
    assert len(seen) >= 10


def synthetic(temperature):
    found = recorded("synthetic_temperature")["summary"][temperature]
    return found["difference"], found["standard_error"]


def study_point(study, arm, x):
    (point,) = [
        p for p in recorded("cold_posterior")[study]["points"] if p["arm"] == arm and p["x"] == x
    ]
    return abs(point["difference"]), point["difference_error"]


def family(data, prior):
    found = recorded("prior_families")["summary"][data][prior]
    return found["difference"], found["standard_error_rows"]


def kurtosis(width):
    (found,) = [w for w in recorded("nngp")["kurtosis"] if w["width"] == width]
    return found["from_variances"], found["from_variances_error"]


# Page, what it says (value ± error), and the record of it.
QUOTED = [
    ("cold_posteriors", "0.076 ± 0.011", synthetic("0.1")),
    ("cold_posteriors", "0.090 ± 0.015", synthetic("10")),
    ("cold_posteriors", "0.147 ± 0.019", study_point("cold-posterior", "whole posterior", 0.1)),
    ("cold_posteriors", "0.185 ± 0.016", study_point("cold-posterior", "likelihood", 0.3)),
    ("cold_posteriors", "0.732 ± 0.164", study_point("cold-posterior", "likelihood", 0.01)),
    ("cold_posteriors", "0.725 ± 0.204", study_point("cold-posterior-mnist160", "HMC", 0.1)),
    ("bnn_hmc", "-0.073 ± 0.027", family("bostonHousing", "mixture")),
    ("bnn_hmc", "-0.035 ± 0.010", family("bostonHousing", "logistic")),
    ("bnn_hmc", "-0.166 ± 0.033", family("concrete", "mixture")),
    ("bnn_hmc", "-0.145 ± 0.027", family("concrete", "logistic")),
    ("bnn_hmc", "-0.015 ± 0.012", family("mnist-160", "mixture")),
    ("bnn_hmc", "-0.020 ± 0.011", family("mnist-160", "logistic")),
    ("nalisnick", "1.498 ± 0.006", kurtosis(10)),
    ("nalisnick", "0.0498 ± 0.0001", kurtosis(300)),
]


@pytest.mark.parametrize(("page", "said", "record"), QUOTED, ids=[said for _, said, _ in QUOTED])
def test_figures_of_benchmarks_are_those_recorded(page, said, record):
    assert said in (ROOT / "docs" / "systems" / f"{page}.md").read_text()
    for words, value in zip(said.split(" ± "), record, strict=True):
        assert f"{value:.{len(words.partition('.')[2])}f}" == words
