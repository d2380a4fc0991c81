"""Rows that are images: those whose classes are surest, and least sure."""

import numpy as np

from bayesnn_ppl.report.parts import effects, markup
from bayesnn_ppl.report.parts.effects import NotShownError
from bayesnn_ppl.report.parts.function_figures import draw_images
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.report.parts.svg_figures import figure

_IMAGES = 6


def images_part(subject: Subject) -> str:
    """The images whose classes are surest and least sure."""
    prediction = subject.prediction
    entropy = np.asarray(prediction.entropy, np.float64)
    if entropy.ndim != 1 or not np.isfinite(entropy).all():
        raise NotShownError("There are several labels a row, so no image is shown.")
    order = np.argsort(entropy, kind="stable")
    p = np.asarray(prediction.probabilities)
    truth = None if subject.targets is None else np.asarray(subject.targets)
    parts = []
    for words, rows in (
        ("least certain", order[::-1][:_IMAGES]),
        ("most certain", order[:_IMAGES]),
    ):
        titles = []
        for i in rows:
            best = int(p[i].argmax())
            said = f"{subject.class_name(best)} {markup.share(float(p[i, best]))}"
            is_so = "" if truth is None else f"\nis {subject.class_name(int(truth[i]))}"
            titles.append(said + is_so)
        images = effects.in_data_units(subject, np.asarray(subject.inputs)[rows])
        alternative = f"The {len(rows)} held-out images whose class is {words}: " + "; ".join(
            title.replace("\n", ", ") for title in titles
        )
        name = f"{subject.key}-images-{words.split()[0]}"
        caption = f"The {words} held-out images: the predicted class, and what it is."
        parts.append(figure(draw_images(images, titles), name, f"{alternative}.", caption))
    return f'<div class="figures">{"".join(parts)}</div>'
