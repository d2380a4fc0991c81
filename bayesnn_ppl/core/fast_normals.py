"""Standard normal vectors for the inside of a loop: a hash of a counter, then the inverse cdf.

JAX's generator is built so that nobody tells its bits from random ones at any price, and next to
the gradient of a small network it is what a step pays for. A Langevin step needs less: normals
that are independent as far as the statistics of a chain can tell. The seeds of the steps do come
from JAX's generator, so that chains, draws and steps share nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["hashed_bits", "inverse_cdf", "mix", "standard_normal", "steps_at_once"]

# Minimax fits in Chebyshev points: log(1 + g)/g for 1 + g in [√½, √2), error 1.5e-6; and the
# normal quantile as a ratio of cubics in t = √(-2 log p), for p from 2^-33 to ½, error 1e-6.
_LOGARITHM = (1.0000128, -0.49985051, 0.33225872, -0.25472463, 0.22330073, -0.14319845)
_NUMERATOR = (-2.98260934, -3.50876272, 3.27985415, 1.57270409)
_DENOMINATOR = (1.0, 3.50146518, 1.56213541, 2.99793720e-4)
_ROOT_HALF = 0x3F3504F3  # the bits of √½ as a float
_STEPS, _NUMBERS = 16, 2**18  # of noise that is made at a time


def mix(word: Any) -> Any:
    """A bijection of words of 32 bits (uint32) that looks random; element by element.

    References:
        Wellons (2018), "Prospecting for hash functions": xor-shifts and multiplications found by
        search for the least bias of a flipped bit on another.
    """
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)


def hashed_bits(seed: Any, size: int, stream: int = 0) -> Any:
    """`size` random words of 32 bits, uint32: mix(mix(0, 1, ... + a) + b), with a, b of the seed.

    The seed is mixed first, or vectors of neighbouring seeds would be one another's shifts.

    Args:
        seed: two words, uint32, shape (2,).
        size: of the vector.
        stream: vectors of one seed differ by their stream, 0, 1, ...
    """
    number = jnp.uint32((stream + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    second = mix(seed[1] + mix(seed[0] + number))
    first = mix(seed[0] + mix(second + number))
    return mix(mix(jax.lax.iota(jnp.uint32, size) + first) + second)


def inverse_cdf(bits: Any) -> Any:
    """Standard normals (float32) from random words: a sign, and |z| by the quantile function.

    With p = (m + ½)/2³² of the lower 31 bits m, |z| = -Φ⁻¹(p) to 3e-6, between 0 and 6.4.
    """
    low = _as(bits & jnp.uint32(0x7FFFFFFF), jnp.int32).astype(jnp.float32) + 0.5
    pattern = _as(low, jnp.int32)
    exponent = (pattern - _ROOT_HALF) >> 23
    rest = _as(pattern - (exponent << 23), jnp.float32) - 1  # low = 2^exponent (1 + rest)
    log = _polynomial(_LOGARITHM, rest) * rest
    root = jnp.sqrt((32 - exponent).astype(jnp.float32) * np.float32(2 * np.log(2)) - 2 * log)
    size = _polynomial(_NUMERATOR, root) / _polynomial(_DENOMINATOR, root)
    return _as(_as(size, jnp.uint32) ^ (bits & jnp.uint32(0x80000000)), jnp.float32)


def standard_normal(seed: Any, size: int, dtype: Any, stream: int = 0) -> Any:
    """A vector of standard normals, shape (size,).

    Args:
        seed, size, stream: as in `hashed_bits`.
        dtype: of the result; float64 has the digits of float32.
    """
    return inverse_cdf(hashed_bits(seed, size, stream)).astype(dtype)


def steps_at_once(steps: int, numbers: int) -> int:
    """How many steps' noise to make at a time, at most `steps`, when a step takes so many numbers.

    On two cores the runtime hands small pieces of work to and fro, which costs more than they do;
    in larger pieces noise costs hardly anything. More than a megabyte would leave the cache.
    """
    return min(steps, _STEPS, max(1, _NUMBERS // numbers))


def _as(array: Any, dtype: Any) -> Any:
    return jax.lax.bitcast_convert_type(array, dtype)


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    value = jnp.float32(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + jnp.float32(coefficient)
    return value
