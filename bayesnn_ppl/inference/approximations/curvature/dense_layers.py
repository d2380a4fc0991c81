r"""Dense blocks of the Gauss-Newton matrix of dense layers, without Jacobians of their weights.

A dense layer multiplies a row's inputs a, with a one appended if it has a bias, by a matrix
W. With g_r the derivatives of u_r in its output ∂u_r/∂W = a g_rᵀ, so the block of M is

    M = Σ_n (a aᵀ) ⊗ F,    F = Σ_r g_r g_rᵀ

exactly. For K outputs and D inputs that takes N D² K²/2 multiplications; products of R Jacobians
of D K numbers take N R D² K².
"""

from functools import partial
from typing import Any

import jax
import numpy as np

from bayesnn_ppl.inference.approximations.curvature.kronecker import KroneckerLayer, layer_vectors
from bayesnn_ppl.inference.approximations.curvature.local import LocalModel, Point, Rows

__all__ = ["dense_layer_blocks"]


def dense_layer_blocks(
    local: LocalModel, point: Point, rows: Rows, layers: tuple[KroneckerLayer, ...]
) -> list[np.ndarray] | None:
    """The block of M of each layer, float64, or None where one is not a plain dense layer.

    One whose inputs have axes between rows and features is none: it is used many times in a row.
    """
    if any(layer.call.kind != "dense" for layer in layers):
        return None
    shapes = jax.eval_shape(partial(_chunk, local, layers=layers), point, rows.x[0], rows.weight[0])
    if any(a.shape[0] != len(rows.x[0]) for a, _ in shapes):
        return None
    totals = [np.zeros((*layer.shape[::-1], *layer.shape[::-1])) for layer in layers]
    for chunk in zip(*rows, strict=True):
        for total, (inputs, gradients) in zip(
            totals, _chunk(local, point, *chunk, layers=layers), strict=True
        ):
            _add(total, np.asarray(inputs, np.float64), np.asarray(gradients, np.float64))
    blocks = []
    for layer, total in zip(layers, totals, strict=True):
        unit = np.asarray(point.unit[layer.begin : layer.end], np.float64)
        # From (out, in) pairs to the order of the vector, a kernel row by row.
        block = total.transpose(1, 0, 3, 2).reshape(len(unit), len(unit))
        blocks.append(unit[:, None] * block * unit)
    return blocks


@partial(jax.jit, static_argnames=("local", "layers"))
def _chunk(
    local: LocalModel, point: Point, x: Any, weight: Any, *, layers: tuple[KroneckerLayer, ...]
) -> Any:
    """Inputs (B, in) and gradients (R, B, out) of each layer."""
    found = []
    for layer, (a, g) in zip(layers, layer_vectors(local, point, x, weight, layers), strict=True):
        found.append((a, g.reshape(-1, len(a), layer.outputs)))
    return found


def _add(total: np.ndarray, inputs: np.ndarray, gradients: np.ndarray) -> None:
    """Add the rows of a chunk to the sums (out, in, out, in)."""
    fisher = np.einsum("rno,rnp->nop", gradients, gradients)
    for o in range(fisher.shape[1]):
        weighted = fisher[:, o, o:, None] * inputs[:, None, :]
        sums = inputs.T @ weighted.reshape(len(inputs), -1)
        sums = sums.reshape(inputs.shape[1], -1, inputs.shape[1])
        total[o, :, o:] += sums
        total[o + 1 :, :, o] += sums[:, 1:].transpose(1, 2, 0)
