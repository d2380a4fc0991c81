"""The page of the library by example: its Python runs as it stands, and does what it says."""

import pytest

from tests.docs.reading import PYTHON, blocks


@pytest.mark.check
def test_the_examples_do_what_the_page_says(capsys):
    first, second, third, fourth, fifth, sixth, seventh = (
        text for _, text in blocks(PYTHON, "python")
    )
    # The devices are set once for all tests.
    names = {}
    exec(first.replace('jax.config.update("jax_num_cpu_devices", 2)', ""), names)
    printed = capsys.readouterr().out
    assert "Diagnosis: converged" in printed and "nll_mixture" in printed
    exec(second, names)
    exec(third, names)
    assert names["posterior"].draws["noise_scale"].shape == (4, 300)
    exec(fourth, names)
    assert names["posterior"].draws == {} and "nll_mixture" in capsys.readouterr().out
    exec(fifth, names)
    assert names["posterior"].provenance["ended"]["by"] == "convergence"
    assert names["ensemble"].statistics["lp"].shape == (4, 100)
    capsys.readouterr()
    exec(sixth, names)
    assert names["posterior"].provenance["stopped_chains"] == []
    assert "emperature" in capsys.readouterr().out and names["cyclical"].steps_per_draw == (
        400,
        50,
        50,
    )
    exec(seventh, names)
    printed = capsys.readouterr().out
    assert "Laplace" in printed and "Diagnosis: fitted" in printed
    posterior = names["posterior"]  # of the model by hand
    assert posterior.draws["scale"].min() > 0
    assert posterior.predict(names["data"].test.x).mean.shape == names["data"].test.y.shape
