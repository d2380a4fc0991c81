"""`bayesnn doctor` finds a right posterior right, and a wrong one wrong."""

import json

import numpy as np

from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.commands import doctor


def exact_draws(*, temperature=1.0, shift=0.0):
    x, _, mean, sd = doctor.known_posterior()
    covariance = np.linalg.inv(np.eye(x.shape[1]) + x.T @ x / 0.25)
    generator = np.random.default_rng(1)
    draws = generator.multivariate_normal(mean, temperature * covariance, size=(2, 1000))
    return draws + shift * sd, mean, sd


def test_exact_draws_are_right_and_others_are_not():
    assert doctor.verdict(*exact_draws())["sound"]
    assert not doctor.verdict(*exact_draws(temperature=1.3))["sound"]
    assert not doctor.verdict(*exact_draws(shift=0.2))["sound"]
    draws, mean, sd = exact_draws()
    assert not doctor.verdict(draws * np.nan, mean, sd)["sound"]
    assert not doctor.verdict(np.repeat(draws[:, :10], 100, axis=1), mean, sd)["sound"]


def test_the_doctor_samples_and_says_what_it_found(capsys, monkeypatch):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sound"] and found["self_check"]["effective_sample_size"] > 400
    assert found["precision"]["matmul_of_samplers"] == "highest"
    assert len(found["devices"]) == 4 and found["memory"]["total_bytes"] > 2**28

    known = doctor.known_posterior()
    monkeypatch.setattr(doctor, "known_posterior", lambda: (*known[:2], known[2] + 0.1, known[3]))
    assert main(["doctor"]) == 1
    said = capsys.readouterr()
    assert "WRONG" in said.out and "wrong posterior" in said.err
