"""The README: short, its Python runs, and what it counts is there."""

import re
import tomllib

import bayesnn_ppl as bnn
from bayesnn_ppl.settings.methods import approximations
from tests.docs.reading import README, ROOT, blocks

TEXT = re.sub(r"<!--.*?-->", "", README.read_text(), flags=re.DOTALL)


def test_it_is_short():
    assert len(TEXT.split()) <= 700


def test_its_example_converges_and_writes_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ((_, text),) = blocks(README, "python")
    assert len(text.strip().splitlines()) <= 12
    exec(compile(text, str(README), "exec"), {})
    assert "Diagnosis: converged" in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_it_counts_right():
    kernels, fits = map(int, re.search(r"(\d+) of our own and (\d+) approximations", TEXT).groups())
    classes = [name for name in bnn.kernels.__all__ if isinstance(getattr(bnn.kernels, name), type)]
    assert kernels == len(classes)
    assert fits == len(approximations.approximation_kinds())


def test_badges_and_citation_say_what_the_package_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    badges = {p.stem: p.read_text() for p in (ROOT / "docs" / "figures" / "badges").iterdir()}
    versions = [line.split()[-1] for line in project["classifiers"] if "Python :: 3." in line]
    assert f"python: {versions[0]} to {versions[-1]}" in badges["python"]
    assert f"licence: {project['license']}" in badges["licence"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {project['version']}\n" in citation
    assert f"\nlicense: {project['license']}\n" in citation
