"""Studies: every file's cells translate at every scale, and bad ones are refused in a sentence."""

import pytest

from bayesnn_ppl.experiments import load_recipe, load_study, recipe_names, study_names
from bayesnn_ppl.experiments.study_cells import job_of
from bayesnn_ppl.settings.jobs import Sample
from tests.experiments.cells import STUDY

AT_SCALES = [(name, scale) for name in study_names() for scale in load_study(name).scales]


@pytest.mark.parametrize(("name", "scale"), AT_SCALES)
def test_every_cell_becomes_a_command(name, scale):
    cells = load_study(name).cells(scale)
    for cell in cells:
        job = job_of(cell)
        assert (job.run if isinstance(job, Sample) else job.fit).seed == cell.seed
        if scale == "tiny":
            assert job.data.data in ("digits", "diabetes", "wine")
    assert len(cells) <= 16 or scale != "tiny" or name == "every-recipe"


def test_the_study_of_every_recipe_has_every_recipe():
    assert [cell.recipe for cell in load_study("every-recipe").cells("cpu")] == recipe_names()


def test_both_temperatures_are_swept():
    cells = load_study("cold-posterior").cells("cpu")
    moved = {arm: set() for arm in ("whole posterior", "likelihood")}
    for cell in cells:
        settings = load_recipe(cell.recipe).at("cpu", cell.overrides)
        other = {"whole posterior": "temperature", "likelihood": "posterior_temperature"}[cell.arm]
        assert settings.get(other, 1.0) == 1.0, "Tempered twice."
        moved[cell.arm].add(cell.x)
    assert moved["whole posterior"] == moved["likelihood"] == {0.01, 0.03, 0.1, 0.3, 1.0}
    assert len(cells) == 30


@pytest.mark.parametrize(("name", "scale"), AT_SCALES)
def test_steps_of_minibatch_samplers_go_with_the_temperature(name, scale):
    # A step of ε T on U/T moves as one of ε on U; one of ε would be 1/T times too long.
    steps = {}
    for cell in load_study(name).cells(scale):
        settings = load_recipe(cell.recipe).at(scale, cell.overrides)
        if settings.get("kernel") not in ("sgld", "sghmc"):
            continue
        temperature = settings["posterior_temperature"] * settings.get("temperature", 1.0)
        steps.setdefault(cell.recipe, set()).add(round(settings["step_size"] / temperature, 12))
    assert all(len(unit) == 1 for unit in steps.values()), steps


def test_places_of_lists_and_tables():
    assert {c.x for c in load_study("depth").cells("full")} == {1.0, 2.0, 3.0, 4.0}
    assert {c.x for c in load_study("width").cells("full")} == {16, 32, 64, 128, 256, 512}
    (first, *_) = load_study("long-chain").cells("tiny")
    assert first.x == 1.0 and first.overrides["draws"] == 16


def test_an_arm_may_differ_at_a_scale():
    for scale, augmentation in (("tiny", "noise"), ("full", "flip-crop")):
        found = {c.arm: c.overrides for c in load_study("dirty-likelihood").cells(scale)}
        assert found["flips and crops"]["augmentation"] == augmentation
        assert "augmentation" not in found["clean"] and found["both"]["dropout"] == 0.1


def test_a_cell_is_its_settings(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    before = [cell.key for cell in load_study(str(path)).cells("tiny")]
    assert len(set(before)) == 8
    path.write_text(STUDY.replace("draws = [5, 10, 20]", "draws = [5, 11, 20]"))
    after = [cell.key for cell in load_study(str(path)).cells("tiny")]
    assert len(set(before) & set(after)) == 6


PROTOCOL = """
protocol = { name = "active-learning", start = 5 }
"""


def test_settings_of_a_protocol_come_last_from_the_arm_and_make_another_cell(tmp_path):
    path = tmp_path / "mine.toml"
    text = STUDY.replace('question = "', f'{PROTOCOL}question = "')
    text = text.replace('name = "plain"', 'name = "plain"\nprotocol = { batch = 2, rounds = 3 }')
    path.write_text(text.replace('note = "made up"', 'note = "n"\nprotocol = { batch = 7 }'))
    cells = load_study(str(path)).cells("tiny")
    found = {(cell.arm, cell.protocol.start, cell.protocol.batch) for cell in cells}
    assert found == {("cold", 5, 7), ("plain", 5, 2)}
    path.write_text(STUDY)
    assert {c.key for c in cells}.isdisjoint(c.key for c in load_study(str(path)).cells("tiny"))


def test_settings_of_an_arm_at_a_scale_come_over_those_of_the_arm(tmp_path):
    path = tmp_path / "mine.toml"
    settings = "settings = { warmup = 3, chains = 2 }\ncpu = { warmup = 4 }"
    path.write_text(STUDY.replace('name = "plain"', f'name = "plain"\n{settings}'))
    for scale, warmup in (("tiny", 3), ("cpu", 4), ("full", 3)):
        *_, cell = load_study(str(path)).cells(scale)
        assert cell.overrides["warmup"] == warmup and cell.overrides["chains"] == 2


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("{ start = 3 }", "lacks `name`"),
        ('{ name = "shifft" }', "no protocol `shifft` .* Did you mean `shift`"),
        ('{ name = "shift", kind = ["contrast"] }', "Did you mean `kinds`"),
        ('{ name = "shift", kinds = "contrast" }', "`kinds` in .* must be a list"),
        ('{ name = "shift", kinds = ["fog"] }', "`kinds` must hold one or more of gaussian_noise"),
        ('{ name = "shift", severities = [0] }', "`severities` must hold one or more of 1, 2"),
        ('{ name = "shift", outliers = "pairs" }', "Did you mean `pair`"),
        ('{ name = "active-learning", acquisition = "bald" }', "`acquisition` is `bald`"),
        ('{ name = "active-learning", rounds = 0 }', "`rounds` must be at least 1"),
        ('{ name = "active-learning", candidates = 3 }', "10 of them are to be labelled"),
        ('{ name = "bandit", policy = "gredy" }', "Did you mean `greedy`"),
        ('{ name = "bandit", refits = [20, 10] }', "must be rising"),
        ('{ name = "bandit", refits = [300] }', "Each of `refits` must be"),
        ('{ name = "bandit", delta = 1 }', "a radius inside"),
    ],
)
def test_bad_protocols_are_refused_in_a_sentence(protocol, sentence, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"protocol = {protocol}\n{STUDY}")
    with pytest.raises(ValueError, match=sentence):
        load_study(str(path)).cells("tiny")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("question", "qestion"), "Did you mean `question`"),
        (('"hmc-imdb"', '"hmc-imbd"'), "There is no recipe `hmc-imbd`"),
        (('sweep = "draws"', 'sweeps = "draws"'), "Did you mean `sweep`"),
        (('sweep = "draws"', 'sweep = "draw"'), "`draws` in the values .* Did you mean `draw`"),
        (('sweep = "draws"', 'sweep = "draws"\nposition = "last"'), "must be one of value, length"),
        (('"plain"', '"cold"'), "each of its own name"),
        (("seeds = [0, 1]", "seeds = []"), "nothing to run"),
        (("seeds = [0, 1]", "seeds = [0, 0]"), "same settings"),
        (("seeds = [0, 1]", "seeds = [0.5]"), "Each seed .* must be an integer"),
        (("draws = [5, 10, 20]", ""), r"\[tiny.values\] has none of it"),
        (("draws = [5, 10, 20]", "draws = [[5]]"), "must be a number, not"),
        (("draws = [5, 10, 20]", "draws = [{ warmup = 3 }]"), "does not have it"),
        (("[tiny]", "[tiny]\nseed = 3"), "Did you mean `seeds`"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(change, sentence, tmp_path):
    path = tmp_path / "mine.toml"
    assert change[0] in STUDY
    path.write_text(STUDY.replace(*change))
    with pytest.raises(ValueError, match=sentence):
        load_study(str(path)).cells("tiny")
