"""What a verdict rests on, judged one by one: mixing, exploration, exactness and precision."""

from bayesnn_ppl.diagnostics.diagnosis.judgements.common import Judgement, Status, Thresholds
from bayesnn_ppl.diagnostics.diagnosis.judgements.exactness import judge_exactness
from bayesnn_ppl.diagnostics.diagnosis.judgements.exploration import judge_exploration
from bayesnn_ppl.diagnostics.diagnosis.judgements.mixing import judge_mixing
from bayesnn_ppl.diagnostics.diagnosis.judgements.overall import judge, remarks
from bayesnn_ppl.diagnostics.diagnosis.judgements.precision import judge_precision

__all__ = [
    "Judgement",
    "Status",
    "Thresholds",
    "judge",
    "judge_exactness",
    "judge_exploration",
    "judge_mixing",
    "judge_precision",
    "remarks",
]
