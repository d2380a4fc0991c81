"""The Python of the README runs as it stands; `tests/docs/test_commands.py` types its commands."""

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_blocks_run(capsys):
    first, second, third, fourth, fifth, sixth, seventh = blocks("python")
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
