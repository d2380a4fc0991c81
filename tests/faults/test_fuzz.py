"""The short form of the fuzzing; 10 000 examples are recorded in benchmarks/results/fuzz.json."""

import pytest

from tests.faults import fuzz


@pytest.mark.check
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("target", "examples"), [("run", 50), ("npz", 150), ("csv", 175), ("recipe", 125)]
)
def test_hostile_files_are_refused_in_a_sentence(target, examples):
    strategy, trial, _ = fuzz.targets()[target]
    ends = fuzz.Counter()
    crashes = fuzz._try(strategy, trial, examples, 1, ends)
    assert crashes == []
    assert sum(ends.values()) == examples and ends["refused"] > examples // 5
    assert ends["read"] or target == "npz", "examples that are sound are among them"


def test_a_crash_would_be_seen(tmp_path):
    """The negative control, for each thing that a reader must not do."""
    import pickle

    def crash():
        raise KeyError("x")

    def wordless():
        raise ValueError("bad")

    def executing():
        pickle.loads(b"cos\ngetcwd\n.")

    def elsewhere():
        (tmp_path / "elsewhere").write_text("mine")

    for reader, words in (
        (crash, "KeyError"),
        (wordless, "no sentence"),
        (executing, "pickle.find_class"),
        (elsewhere, "open for writing"),
    ):
        with pytest.raises(fuzz.Crash, match=words):
            fuzz.read_safely(reader, tmp_path / "scratch")
