"""Curvature of small networks, against dense matrices made from jacobians by other means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen
from jax.flatten_util import ravel_pytree

import bayesnn_ppl as bnn
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.inference.approximations.curvature.gaussian import curvature_at, unit_of
from bayesnn_ppl.inference.approximations.curvature.kronecker import kronecker_curvature
from bayesnn_ppl.inference.approximations.curvature.local import Point, in_chunks
from bayesnn_ppl.inference.approximations.curvature.prior import prior_curvature
from bayesnn_ppl.inference.approximations.curvature.products import (
    curvature_diagonal,
    curvature_product,
)
from bayesnn_ppl.inference.approximations.curvature.selection import kronecker_layers, select
from tests.inference.approximations.linear_truth import problem_of

PRIOR = 0.6


class ConvNet(linen.Module):
    """Two convolutions of the two kinds, with strides, and a dense layer."""

    @linen.compact
    def __call__(self, x):
        x = jnp.tanh(bnn.nn.Conv(2, (3, 2), strides=2)(x))
        x = jnp.tanh(linen.Conv(2, (2, 2), padding="VALID")(x))
        return linen.Dense(3)(x.reshape(x.shape[0], -1))


NETWORKS = {"mlp": (bnn.nn.MLP((4,), outputs=3), (2,)), "conv": (ConvNet(), (5, 4, 2))}


class Case:
    """A network on random weights, with its curvature in the coordinates of its sites."""

    def __init__(self, name, rows):
        network, shape = NETWORKS[name]
        generator = np.random.default_rng(3)
        self.network = network
        self.x = generator.normal(size=(rows, *shape))
        y = np.arange(rows) % 3
        model = bnn.bayesian_network(
            network, bnn.priors.normal(PRIOR), bnn.likelihoods.categorical(3), temperature=0.5
        )
        self.problem = problem_of(model, self.x, y) if rows > 2 else None
        if self.problem is None:  # too few rows for all labels: those of three stand in
            self.problem = problem_of(model, np.repeat(self.x[:1], 3, 0), np.arange(3))
            object.__setattr__(self.problem, "x", self.x)
            object.__setattr__(self.problem, "y", y)
        self.selection = select(self.problem, None)
        self.local = self.selection.local
        self.centre = generator.normal(size=self.local.dimension) * 0.5
        prior = prior_curvature(self.local, self.centre, {}, self.x, self.problem.y, coupling=False)
        np.testing.assert_allclose(prior.precision, 1 / PRIOR**2)
        self.point = Point(self.centre, unit_of(self.selection, prior, "kfac"), {})

    def structure(self, name, rank=50):
        return curvature_at(self.problem, self.selection, self.point, name, rank)

    def dense(self):
        """Σ_n Jᵀ (diag p - p pᵀ) J / T of the logits' jacobian, times the prior's variance."""
        values = self.local.unravel(self.centre)
        tree = {}
        for site, value in values.items():
            layer, leaf = site.partition("/")[2].split(".")
            tree.setdefault(layer, {})[leaf] = jnp.asarray(value)
        flat, unravel = ravel_pytree(tree)

        def logits(vector):
            return self.network.apply({"params": unravel(vector)}, self.x)

        jacobian = np.asarray(jax.jacrev(logits)(flat))
        p = np.asarray(jax.nn.softmax(logits(flat)))
        fisher = np.einsum("nk,kl->nkl", p, np.eye(3)) - p[:, :, None] * p[:, None]
        matrix = np.einsum("nki,nkl,nlj->ij", jacobian, fisher, jacobian) / 0.5 * PRIOR**2
        # From Flax's order of the leaves to that of the local model.
        numbers = ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape), tree))[0]
        positions = unravel(jnp.arange(len(numbers), dtype=float))
        order = []
        for site in self.local.sites:
            layer, leaf = site.partition("/")[2].split(".")
            order.append(np.asarray(positions[layer][leaf]).ravel().astype(int))
        order = np.concatenate(order)
        return matrix[np.ix_(order, order)]


@pytest.fixture(scope="module", params=["mlp", "conv"])
def case(request):
    with arithmetic(float64=True):
        yield Case(request.param, 12)


def test_the_full_matrix_is_that_of_dense_jacobians(case):
    dense = case.dense()
    found = case.structure("full").matrices[0]
    np.testing.assert_allclose(found, dense, atol=1e-10 * np.abs(dense).max())


def test_the_diagonal_is_that_of_the_dense_matrix(case):
    np.testing.assert_allclose(
        case.structure("diagonal").values, np.diag(case.dense()), rtol=1e-8, atol=1e-12
    )


def test_products_and_all_eigenvalues_are_those_of_the_dense_matrix(case):
    dense = case.dense()
    vectors = np.random.default_rng(0).normal(size=(2, len(dense)))
    rows = in_chunks(case.x, 5)
    found = curvature_product(case.local, case.point, rows, vectors)
    np.testing.assert_allclose(found, vectors @ dense, atol=1e-9 * np.abs(dense).max())
    low = case.structure("low_rank", rank=5)
    exact = np.linalg.eigvalsh(dense)[::-1]
    np.testing.assert_allclose(low.values, exact[:5], rtol=1e-2)
    whole = case.structure("low_rank", rank=len(dense))
    factors = np.random.default_rng(1).uniform(0.5, 2, len(dense))
    np.testing.assert_allclose(
        whole.log_determinant(factors, 1.3),
        np.linalg.slogdet(1.3 * dense + np.diag(factors))[1],
        rtol=1e-8,
    )


def test_rows_count_once_however_they_are_cut_in_chunks(case):
    """A chunk that stood for all rows, or rows of the filling that counted, would differ."""
    whole = curvature_diagonal(case.local, case.point, in_chunks(case.x, 12))
    cut = curvature_diagonal(case.local, case.point, in_chunks(case.x, 5))
    np.testing.assert_allclose(cut, whole, rtol=1e-10)
    chunk = in_chunks(case.x[:5], 5)
    assert np.abs(curvature_diagonal(case.local, case.point, chunk) / whole - 1).max() > 0.1
    a, b = (
        kronecker_curvature(
            case.local, case.point, in_chunks(case.x, size), kronecker_layers(case.selection)
        )
        for size in (12, 5)
    )
    np.testing.assert_allclose(a.spectrum().values, b.spectrum().values, rtol=1e-8, atol=1e-12)


def test_blocks_are_those_of_the_dense_matrix(case):
    """Dense layers by their inputs and gradients, others by the Jacobians of their weights."""
    dense = case.dense()
    found = case.structure("block").matrices
    for layer, block in zip(case.local.layers, found, strict=True):
        expected = dense[layer.part, layer.part]
        np.testing.assert_allclose(block, expected, atol=1e-9 * np.abs(dense).max())


def test_every_structure_is_one_gaussian(case):
    """Log determinant, solution, draws and covariance belong to one matrix."""
    generator = np.random.default_rng(2)
    d = case.local.dimension
    vector = generator.normal(size=d)
    noise = 1.7
    for name in ("full", "block", "kfac", "diagonal", "low_rank"):
        curvature = case.structure(name, rank=4)
        factors = np.empty(d)
        for number, layer in enumerate(case.local.layers):
            factors[layer.part] = 0.5 + number
        covariance = np.asarray(curvature.covariance(factors, noise))
        assert curvature.log_determinant(factors, noise) == pytest.approx(
            -np.linalg.slogdet(covariance)[1], rel=1e-8
        )
        np.testing.assert_allclose(
            curvature.solve(factors, noise, vector), covariance @ vector, rtol=1e-6, atol=1e-9
        )
        root = np.asarray(curvature.sample(factors, noise, np.eye(d)))
        np.testing.assert_allclose(root.T @ root, covariance, rtol=1e-6, atol=1e-9)
        spectral = curvature.spectrum()
        if name in ("block", "kfac", "diagonal"):
            assert spectral.log_determinant(factors, noise) == pytest.approx(
                float(curvature.log_determinant(factors, noise)), rel=1e-8
            )


def factors_of(case):
    """Each layer's (Σ a aᵀ) ⊗ (Σ g gᵀ) / places by its definition, from plain functions."""
    values = case.local.unravel(case.centre)
    sites = {site.partition("/")[2]: np.asarray(v) for site, v in values.items()}
    paths = [layer.name.partition("/")[2] for layer in case.local.layers]

    def patches(x, size, strides, same):
        height, width = (
            (-(-x.shape[1] // strides), -(-x.shape[2] // strides))
            if same
            else ((x.shape[1] - size[0]) // strides + 1, (x.shape[2] - size[1]) // strides + 1)
        )
        if same:
            pads = [
                max((o - 1) * strides + k - n, 0)
                for o, k, n in zip((height, width), size, x.shape[1:3], strict=True)
            ]
            x = jnp.pad(x, ((0, 0), *((p // 2, p - p // 2) for p in pads), (0, 0)))
        rows = [
            x[:, i * strides : i * strides + size[0], j * strides : j * strides + size[1]]
            for i in range(height)
            for j in range(width)
        ]
        return jnp.stack([r.reshape(len(x), -1) for r in rows], 1), (height, width)

    def run(shifts):
        """Standardised logits and the inputs of each layer, as matrices."""
        inputs, x = {}, jnp.asarray(case.x)
        for path in paths:
            kernel, bias = sites[f"{path}.kernel"], sites[f"{path}.bias"]
            if kernel.ndim == 4:
                same = path == "Conv_0" and kernel.shape[0] == 3
                a, space = patches(x, kernel.shape[:2], 2 if same else 1, same)
                out = a @ kernel.reshape(-1, kernel.shape[-1]) + bias + shifts[path]
                x = jnp.tanh(out).reshape(len(x), *space, -1)
            else:
                a = x.reshape(len(x), 1, -1)
                out = a @ kernel + bias + shifts[path]
                last = path == paths[-1]
                x = out[:, 0] if last else jnp.tanh(out[:, 0])
            inputs[path] = jnp.concatenate([a, jnp.ones((*a.shape[:2], 1))], -1)
        return x, inputs

    zeros = {p: 0.0 for p in paths}
    logits, inputs = run(zeros)
    p = np.asarray(jax.nn.softmax(logits))
    root = np.stack(
        [np.linalg.cholesky(np.diag(q) - np.outer(q, q) + 1e-14 * np.eye(3)) for q in p]
    )
    found = []
    for path in paths:
        a = np.asarray(inputs[path])
        outs = sites[f"{path}.bias"].shape[0]

        def of(shift, path=path):
            return run(zeros | {path: shift})[0]

        j = np.asarray(jax.jacrev(of)(jnp.zeros((*a.shape[:2], outs))))  # (n, k, n, t, o)
        g = np.einsum("nkl,nknto->nlto", root, j) / np.sqrt(0.5)
        a2 = np.einsum("nti,ntj->ij", a, a)
        g2 = np.einsum("nlto,nltp->op", g, g)
        found.append(np.kron(a2, g2) / (a.shape[0] * a.shape[1]) * PRIOR**2)
    return found


def test_kronecker_factors_are_those_of_their_definition(case):
    found = case.structure("kfac")
    blocks = factors_of(case)
    ones = np.ones(case.local.dimension)
    covariance = np.asarray(found.covariance(ones, 1.0))
    dense = case.dense()
    for layer, block in zip(case.local.layers, blocks, strict=True):
        expected = np.linalg.inv(block + np.eye(len(block)))
        np.testing.assert_allclose(
            covariance[layer.part, layer.part], expected, rtol=1e-5, atol=1e-8
        )
        # It is an approximation to the block of the dense matrix, and no more than that.
        error = np.linalg.norm(block - dense[layer.part, layer.part])
        assert 1e-3 < error / np.linalg.norm(dense[layer.part, layer.part]) < 0.9


def test_of_one_row_the_kronecker_product_is_exact_for_dense_layers():
    with arithmetic(float64=True):
        one = Case("mlp", 1)
        dense, found = one.dense(), one.structure("kfac")
        covariance = np.asarray(found.covariance(np.ones(len(dense)), 1.0))
        for layer in one.local.layers:
            block = dense[layer.part, layer.part] + np.eye(layer.end - layer.begin)
            np.testing.assert_allclose(
                covariance[layer.part, layer.part], np.linalg.inv(block), rtol=1e-7, atol=1e-10
            )
        two = Case("mlp", 2)
        covariance = np.asarray(two.structure("kfac").covariance(np.ones(len(dense)), 1.0))
        layer = two.local.layers[0]
        block = two.dense()[layer.part, layer.part] + np.eye(layer.end - layer.begin)
        assert np.abs(covariance[layer.part, layer.part] @ block - np.eye(len(block))).max() > 1e-3
