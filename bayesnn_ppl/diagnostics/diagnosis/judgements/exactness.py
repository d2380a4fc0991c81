"""Exactness: does the sampler leave the posterior unchanged, or something else?"""

from bayesnn_ppl.diagnostics.diagnosis.judgements.common import Judgement
from bayesnn_ppl.diagnostics.temperature.readings import Thermometry

__all__ = ["judge_exactness"]

# A temperature is a variance: between 0.64 T and 1.44 T the spread is right to 20 %.
_LOW, _HIGH = 0.64, 1.44
_HOW = (
    "`posterior.diagnose(x, data=(x_train, y_train))` computes temperatures at the draws, which "
    "show it."
)


def judge_exactness(
    accept_step: bool | None,
    temperatures: Thermometry | None,
    *,
    kernel: str = "the sampler",
    missing: str | None = None,
) -> Judgement:
    """Is there an accept step, or do temperatures say that the spread is right to 20 %?

    R-hat and ESS cannot see that chains agree on a wrong distribution, as those of too long steps
    and noisy gradients do. A kernel with an accept step passes. Any other needs temperatures of the
    function outputs whose intervals lie within 0.64 T to 1.44 T, and configurational temperatures
    of every parameter array that are not off; momenta alone do not show where the positions are. A
    reading outside T/2 to 2 T fails, however wide its interval.

    Args:
        accept_step: whether the kernel has one; None where that is not known.
        temperatures: what was read.
        kernel: its name, for the words.
        missing: why there are no temperatures, in a sentence, where there is more to say.
    """
    if accept_step:
        return Judgement("exactness", "passed", f"{kernel} has an accept step")
    without = (
        f"{kernel} has no accept step"
        if accept_step is False
        else f"it is not known whether {kernel} has an accept step"
    )
    without_at_start = without[0].upper() + without[1:]
    if temperatures is None:
        sentence = (
            f"{without_at_start}, so its draws may have another distribution, even if all chains "
            f"agree. {missing or _HOW}"
        )
        return Judgement("exactness", "not judged", f"{without}; no temperatures read", (sentence,))
    scale = temperatures.temperature
    figure = f"{without}; temperatures {temperatures.brief()}"
    said = f"Temperatures: {temperatures.verdict}"
    if temperatures.beyond or temperatures.status not in ("right", "not known"):
        failed = temperatures.beyond or temperatures.broken
        return Judgement(
            "exactness",
            "failed" if failed else "doubtful",
            figure,
            (said,),
        )
    wide = [
        array.name
        for array in temperatures.functions
        if (r := array.configurational) is not None
        and not _LOW * scale <= r.lower <= r.upper <= _HIGH * scale
    ]
    if not (temperatures.positions_read and temperatures.functions):
        looked = "momenta" if not temperatures.positions_read else "parameter arrays"
        sentence = (
            f"{without_at_start}, and the {looked} alone do not show whether the spread of the "
            f"function outputs is right. {missing or _HOW}"
        )
    elif wide:
        sentence = (
            f"{without_at_start}, and temperatures are not known well enough to say that spreads "
            f"are right to 20 %, in {len(wide)} of {len(temperatures.functions)} directions of the "
            "function outputs. Keep more draws, or read more gradients: "
            "`posterior.diagnose(x, gradients=4000)`."
        )
    else:
        return Judgement("exactness", "passed", figure, (said,))
    return Judgement("exactness", "not judged", figure, (sentence, said))
