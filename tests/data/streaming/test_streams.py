"""Rows read from where they lie: the right ones, in the right order, as often as they should."""

import h5py
import numpy as np
import pytest
import tensorflow_datasets as tfds
import zarr
from scipy import stats

from bayesnn_ppl.data import stream
from bayesnn_ppl.data.streaming.row_order import RowOrder

ROWS = 1000
X = np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3)
Y = np.arange(ROWS, dtype=np.int64) % 7


class Records:
    """A source of dictionaries, as TFDS has them, that notes what it is asked for."""

    def __init__(self):
        self.asked = []

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return {"image": X[index], "label": Y[index]}

    def __getitems__(self, indices):
        self.asked.append(list(indices))
        return [self[i] for i in indices]


def files(folder):
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    return stream(folder / "x.npy", str(folder / "y.npy"))


def zarrs(folder):
    for name, array in {"x": X, "y": Y}.items():
        stored = zarr.create_array(
            folder / f"{name}.zarr",
            shape=array.shape,
            chunks=(64, *array.shape[1:]),
            dtype=array.dtype,
        )
        stored[:] = array
    return stream(folder / "x.zarr", zarr.open_array(folder / "y.zarr", mode="r"))


def hdf5(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"], file["y"] = X, Y
    file = h5py.File(folder / "data.h5", "r")
    return stream(file["x"], file["y"])


SOURCES = {
    "npy": files,
    "memory map": lambda folder: stream(
        np.load(files(folder) and folder / "x.npy", mmap_mode="r"), Y
    ),
    "zarr": zarrs,
    "hdf5": hdf5,
    "arrays": lambda folder: stream(X, Y),
    "records": lambda folder: stream(Records(), keys=("image", "label")),
    "pairs": lambda folder: stream(list(zip(X, Y, strict=True))),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_rows_asked_for(name, tmp_path):
    data = SOURCES[name](tmp_path)
    rows = np.random.default_rng(0).integers(ROWS, size=500)  # unordered, and some of them twice
    x, y = data.read(rows)
    np.testing.assert_array_equal(x, X[rows])
    np.testing.assert_array_equal(y, Y[rows])
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert (data.x.shape, data.y.shape) == ((ROWS, 3), (ROWS,))
    assert data.chunk == (64 if name == "zarr" else 1)


def test_pieces_hold_whole_chunks_in_ascending_order():
    source = Records()
    data = stream(source, keys=("image", "label"), chunk=50)
    data._piece_rows = 70
    source.asked.clear()
    rows = np.random.default_rng(1).permutation(ROWS)
    np.testing.assert_array_equal(data.read(rows)[0], X[rows])
    joined = sum(source.asked, [])
    assert joined == sorted(joined) and len(joined) == ROWS
    chunks = [{row // 50 for row in piece} for piece in source.asked]
    assert all(a.isdisjoint(b) for a, b in zip(chunks, chunks[1:], strict=False))
    assert len(chunks) > 5, "no piece may hold all"


def test_a_tfds_source_tells_its_keys(tmp_path):
    class StreamedTable(tfds.core.GeneratorBasedBuilder):
        """Five rows."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict(
                    {
                        "features": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                        "kind": tfds.features.ClassLabel(num_classes=5),
                        "weight": np.float32,
                    }
                ),
                supervised_keys=("features", "kind"),
            )

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            for i in range(5):
                yield i, {"features": np.array([i, -i], np.float32), "kind": i, "weight": 1.0}

    builder = StreamedTable(data_dir=tmp_path, file_format="array_record")
    builder.download_and_prepare(file_format="array_record")
    x, y = stream(builder.as_data_source("train")).read(range(5))
    np.testing.assert_array_equal(x[:, 0], y)
    np.testing.assert_array_equal(x[:, 1], -y)
    assert sorted(y) == list(range(5))


def test_the_fingerprint_tells_data_and_order_apart():
    same = stream(X.copy(), Y).sha256()
    assert stream(X, Y).sha256() == same
    changed = X.copy()
    changed[500, 1] += 1
    others = [
        stream(changed, Y),
        stream(X, Y, chunk=2),
        stream(X, Y, window=3),
        stream(X[:-1], Y[:-1]),
    ]
    others.append(stream(X, Y, prepare=lambda x, y: (x, y)))
    assert len({same, *(other.sha256() for other in others)}) == 6


BAD = X.copy()
BAD[777, 2] = np.nan


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: stream(X, Y[:-1]), ValueError, "`x` has 1000 rows and `y` has 999"),
        (lambda: stream("no/such.npy", Y), FileNotFoundError, "no file `no/such.npy` to stream x"),
        (lambda: stream(X), ValueError, "which parts of a record"),
        (lambda: stream(Records()), ValueError, r"of \['image', 'label'\]"),
        (lambda: stream(Records(), keys=("image", "lable")), ValueError, "which parts of a record"),
        (lambda: stream(X, Y, keys=(0, 1)), ValueError, "for a source of records"),
        (lambda: stream(3), TypeError, "one source of records"),
        (lambda: stream(X, 3), TypeError, "`y` must be an array"),
        (lambda: stream(X[:0], Y[:0]), ValueError, "at least one row"),
        (lambda: stream(X, Y, chunk=-1), ValueError, "`chunk` must be at least 1"),
        (lambda: stream(X, Y, window=0), ValueError, "`window` must be at least 1"),
        (lambda: stream(X.astype(str), Y), TypeError, "`x` must hold numbers"),
        (lambda: stream(X, Y, prepare=lambda x, y: (x[1:], y)), ValueError, "as many rows"),
        (lambda: stream(BAD, Y).read(range(700, 800)), ValueError, "Row 777 of the stream"),
        (lambda: stream(X, Y).read([1000]), ValueError, "rows of this stream are 0 … 999"),
        (lambda: stream(X, Y).read([0.5]), ValueError, "list of row numbers"),
        (lambda: np.asarray(stream(X, Y).x), TypeError, "not held in memory"),
    ],
)
def test_what_cannot_be_streamed_is_refused(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


# Which rows.

ORDERS = [dict(epoch=False), dict(epoch=True), dict(epoch=True, chunk=32, window=5)]


@pytest.mark.parametrize("how", ORDERS)
def test_a_batch_is_a_function_of_seed_chain_and_step(how):
    def order(seed=3):
        return RowOrder(1003, 16, seed, **how)

    whole = order().batches(1, 0, 200)
    assert whole.shape == (200, 16) and whole.min() >= 0 and whole.max() < 1003
    pieces = order()
    cut = [pieces.batches(1, a, b) for a, b in [(150, 200), (0, 1), (1, 77), (77, 150)]]
    np.testing.assert_array_equal(np.concatenate([*cut[1:], cut[0]]), whole)
    for other in (order(4).batches(1, 0, 200), order().batches(0, 0, 200)):
        assert (other == whole).mean() < 0.01


@pytest.mark.parametrize("how", ORDERS[1:])
@pytest.mark.parametrize("rows", [1003, 992, 64])
def test_an_epoch_has_every_row_once(how, rows):
    order = RowOrder(rows, 16, 0, **how)
    epochs = 16  # end at a batch's end
    drawn = order.batches(0, 0, rows).reshape(epochs, rows)
    for epoch in drawn:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(rows))
    assert (drawn[0] != drawn[1]).mean() > 0.9


@pytest.mark.parametrize("how", ORDERS)
def test_places_and_rows_are_uniform(how):
    """The first row of the first batch, over many seeds and epochs."""
    rows, seeds = 40, 8_000
    how = how | ({"chunk": 7, "window": 2} if "chunk" in how else {})
    counts = np.zeros((2, rows))
    for seed in range(seeds):
        batch = RowOrder(rows, 8, seed, **how).batches(0, 0, 5)
        counts[0, batch[0, 0]] += 1
        counts[1, batch[3, 5]] += 1
    for found in counts:
        assert stats.chisquare(found).pvalue > 1e-5


def batch_variance(values, seeds, **how):
    """Of the mean of a batch in the middle of an epoch, over seeds."""
    means = [
        values[RowOrder(len(values), 8, seed, **how).batches(0, 5, 6)[0]].mean()
        for seed in range(seeds)
    ]
    return np.var(means)


@pytest.mark.check
def test_the_price_of_chunks_is_as_documented():
    """In a sorted file the variance has a part that does not fall with the batch."""
    rows, chunk, window, batch, seeds = 320, 8, 4, 8, 8_000
    values = np.sort(np.random.default_rng(0).normal(size=rows))
    means = values.reshape(-1, chunk).mean(1)
    n, size = rows // chunk, window * chunk
    between = (1 - window / n) * means.var(ddof=1) / window
    # E of the variance in a window: the total is known, and what is not between lies within.
    total = values.var(ddof=1) * (1 - 1 / rows)
    inside = (total - between) * size / (size - 1)
    expected = between + (1 - batch / size) * inside / batch
    found = batch_variance(values, seeds, epoch=True, chunk=chunk, window=window)
    independent = values.var(ddof=1) / batch * (1 - batch / rows)
    error = 4.5 * np.sqrt(2 / seeds)
    assert abs(found / expected - 1) < error
    assert found > 1.5 * independent
    assert abs(batch_variance(values, seeds, epoch=True) / independent - 1) < error
