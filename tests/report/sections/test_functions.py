"""Where the chains of a run are judged."""

import bayesnn_ppl as bnn
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.sections.functions import functions_section
from tests.report.conftest import QUICK


def test_weights_of_few_draws_are_judged_by_the_functions_of_all():
    data = bnn.data.load("diabetes")
    posterior = bnn.sample(
        bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3),
        *data.train,
        keep=bnn.Keep(every=10, probe=(data.test.x[:12], data.test.y[:12])),
        **QUICK,
    )
    subject = Subject("run", "run0", posterior, x=data.test.x, y=data.test.y)
    assert subject.diagnosis.to_dict()["sampler"]["draws"] == 20
    assert subject.functions["mean"].shape == (2, 20, 12)
    assert "run0-rhat-functions" in functions_section(subject)
    assert subject.prediction.components.count == 4 and subject.scores.rows == 44
