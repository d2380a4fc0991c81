"""How many parameters a model has, from shapes alone."""

from typing import Any

import numpy as np

__all__ = ["parameter_count"]


def parameter_count(model: Any, x: Any, *, network_only: bool) -> int:
    """The number of parameters of a model at inputs like `x`, from shapes alone.

    Args:
        model: the NumPyro model.
        x: inputs (N, ...), of which only shape and type count.
        network_only: leave out latent sites besides the network, such as a noise scale.
    """
    import jax
    from numpyro import handlers

    sizes: dict[str, int] = {}

    def run(key: Any, x: Any) -> None:
        trace = handlers.trace(handlers.seed(model, key)).get_trace(x)
        sizes.update(
            (name, int(np.prod(site["fn"].shape())))
            for name, site in trace.items()
            if site["type"] == "sample" and not site["is_observed"] and name != "y"
        )

    jax.eval_shape(run, jax.random.key(0), x)
    prefix = f"{getattr(model, 'name', '')}/" if network_only else ""
    return sum(size for name, size in sizes.items() if name.startswith(prefix))
