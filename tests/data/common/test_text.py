"""Texts as word ids: our own rule, the real reviews, and TensorFlow Datasets without TensorFlow."""

import io
import json
import os
import pickle
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import checksums

from bayesnn_ppl.data import build_vocabulary, encode_texts, load, read_vocabulary
from bayesnn_ppl.data.common import text
from bayesnn_ppl.data.common.pixels import tfds_sorted

FOLDER = os.environ.get("BAYESNN_DATA")
needs_files = pytest.mark.skipif(not FOLDER, reason="BAYESNN_DATA is not set")
TRAIN = ["the film, the FILM!", "a bad\tfilm", "the best; don't miss it", "bad <br /><br />bad"]
TEST = ["the unheard film", "", "it's bad"]


def test_words():
    assert text.words("It's a B-movie:\n(very) good!") == [
        "it's",
        "a",
        "b",
        "movie",
        "very",
        "good",
    ]
    # ASCII alone is changed; a word of Keras's index may hold other kinds of space.
    assert text.words("Åmål\x85NAÏVE") == ["Åmål\x85naÏve"]
    assert text.words("Åmål".encode()) == ["Åmål"] and text.words(" .. ") == []
    assert text.words(b"bro\xffken") == ["bro\ufffdken"]


def test_ranks_by_frequency_then_by_first_appearance():
    vocabulary = build_vocabulary(TRAIN)
    assert list(vocabulary)[:5] == ["the", "film", "bad", "br", "a"]
    assert list(vocabulary.values()) == list(range(1, 10)) and vocabulary["don't"] == 7


def test_ids_are_padded_and_cut_on_the_left():
    vocabulary = {"the": 1, "film": 2, "bad": 3}
    ids = encode_texts(["The bad film.", "", "the unheard film"], vocabulary, num_words=6, length=5)
    assert ids.dtype == np.int32
    assert ids.tolist() == [[0, 1, 4, 2, 5], [0, 0, 0, 0, 1], [0, 0, 1, 4, 5]]
    assert encode_texts(["the bad film"], vocabulary, length=2).tolist() == [[6, 5]]
    assert encode_texts([], vocabulary).shape == (0, 100)
    with pytest.raises(TypeError, match="is a single one. Pass `\\[text\\]`"):
        encode_texts("the film", vocabulary)
    with pytest.raises(ValueError, match="`num_words` must be an integer of at least 4, but is 3"):
        encode_texts(["the"], vocabulary, num_words=3)


def test_vocabularies_that_cannot_be_read_are_refused(tmp_path):
    path = tmp_path / "words.json"
    with pytest.raises(FileNotFoundError, match="words.json` does not exist"):
        read_vocabulary(path)
    for content in ('{"the": 0}', "[]", "{}", '{"the": "1"}', '{"the": true}'):
        path.write_text(content)
        with pytest.raises(ValueError, match="must be a JSON object whose keys are words"):
            read_vocabulary(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a JSON file"):
        read_vocabulary(path)


@pytest.fixture(scope="module")
def reviews():
    """The real test reviews as texts (their words, joined), their ids, and the published index.

    The raw texts are not at hand, but their words are: the index gives each rank its word.
    """
    index = read_vocabulary(Path(FOLDER, "imdb_word_index.json"))
    by_rank = {rank: word for word, rank in index.items()}
    with np.load(Path(FOLDER, "imdb.npz")) as stored:
        tokens, offsets = stored["tokens_train"], stored["offsets_train"]
    texts = [
        " ".join(by_rank[rank] for rank in tokens[begin:end].tolist())
        for begin, end in zip(offsets[:-1], offsets[1:], strict=True)
    ]
    return texts, tokens, index


@needs_files
def test_real_reviews_get_the_published_ids(reviews):
    texts, _, index = reviews
    dataset = load("imdb", order="original")
    with np.load(Path(FOLDER, "imdb.npz")) as stored:
        rows = np.sort(stored["keras_perm_train"][:20000])[::20]
    # With marks and capitals, which the rule takes away.
    dressed = [texts[row].upper().replace(" ", ", ") for row in rows if texts[row].isascii()]
    kept = [texts[row].isascii() for row in rows]
    np.testing.assert_array_equal(
        encode_texts(dressed, index), dataset.train.x[::20][np.array(kept)]
    )
    assert len(dressed) > 800


@needs_files
def test_our_own_ranks_of_the_real_reviews_differ_from_the_published_in_ties_alone(reviews):
    """All 88584 words: each has the frequency that belongs to its published rank."""
    texts, tokens, index = reviews
    own = build_vocabulary(texts)
    counts = np.bincount(tokens, minlength=len(index) + 1)
    words = list(own)
    assert set(words) <= set(index)
    np.testing.assert_array_equal(
        [counts[index[word]] for word in words], np.sort(counts)[::-1][: len(words)]
    )
    same = np.array([own[word] == index[word] for word in words])
    assert same[:100].all() and not same.all()


class OwnReviews(tfds.core.GeneratorBasedBuilder):
    """Texts with a label and a score."""

    VERSION = tfds.core.Version("1.0.0")
    COPIES = 5

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "text": tfds.features.Text(),
                    "label": tfds.features.ClassLabel(names=["neg", "pos"]),
                    "score": np.float32,
                    "liked": np.int64,
                }
            ),
            supervised_keys=("text", "label"),
        )

    def _split_generators(self, dl_manager):
        return {
            "train": self._generate_examples(TRAIN * self.COPIES),
            "test": self._generate_examples(TEST),
        }

    def _generate_examples(self, texts):
        for index, review in enumerate(texts):
            yield (
                index,
                {"text": review, "label": index % 2, "score": float(index), "liked": index % 2},
            )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder in which the sets of this file are prepared once."""
    return tmp_path_factory.mktemp("tfds")


def test_texts_of_an_own_builder(prepared, tmp_path):
    dataset = load("tfds:own_reviews", data_dir=prepared, length=6)
    order, test = tfds_sorted("train", map(str, range(20))), tfds_sorted("test", "012")
    texts = [(TRAIN * 5)[i] for i in order]
    vocabulary = build_vocabulary(texts)
    assert dataset.vocabulary == vocabulary and dataset.train.x.dtype == np.int32
    np.testing.assert_array_equal(dataset.train.x, encode_texts(texts, vocabulary, length=6))
    np.testing.assert_array_equal(
        dataset.test.x, encode_texts([TEST[i] for i in test], vocabulary, length=6)
    )
    np.testing.assert_array_equal(dataset.train.y, order % 2)
    assert "unheard" not in vocabulary
    assert dataset.standardisation.is_identity and dataset.class_names == ("neg", "pos")
    assert len(dataset.feature_names) == 6 and not dataset.train.x.flags.writeable
    assert pickle.loads(pickle.dumps(dataset)).vocabulary == vocabulary
    # The hash is of the texts, whatever the ids; the vocabulary is of all training rows.
    fewer = load("tfds:own_reviews", data_dir=prepared, subset=4, num_words=5)
    assert fewer.sha256 == dataset.sha256 and fewer.vocabulary == vocabulary
    assert fewer.train.x.shape == (4, 100) and fewer.train.x.max() <= 4
    path = tmp_path / "words.json"
    path.write_text(json.dumps({"film": 1}))
    given = load("tfds:own_reviews", data_dir=prepared, vocabulary=path, length=3)
    assert set(np.unique(given.train.x)) == {0, 1, 4}
    if find_spec("tensorflow") is None:
        assert "tensorflow" not in sys.modules


def test_a_score_of_a_text_is_standardised_and_its_ids_are_not(prepared):
    dataset = load("tfds:own_reviews", data_dir=prepared, target="score")
    assert dataset.task == "regression" and dataset.train.x.dtype == np.int32
    np.testing.assert_allclose(dataset.train.y.mean(), 0, atol=1e-6)
    back = dataset.train.y.standardisation.undo_y(dataset.train.y)
    order = tfds_sorted("train", map(str, range(20)))
    np.testing.assert_allclose(back, order, atol=1e-5)
    raw = load("tfds:own_reviews", data_dir=prepared, target="score", standardise=False)
    assert raw.standardisation.is_identity and raw.train.y.max() == 19
    liked = load("tfds:own_reviews", data_dir=prepared, target="liked")
    assert liked.class_names == ("0", "1") and liked.train.y.tolist() == (order % 2).tolist()
    with pytest.raises(ValueError, match="the same target, .*, in all 1 training rows"):
        load("tfds:own_reviews", data_dir=prepared, target="score", subset=1)


def lay_reviews(folder, labels, names):
    """The archive of the reviews, as it is downloaded."""
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for part in ("train", "test"):
            for label, name in zip(labels, names, strict=True):
                content = f"{part} {name} is {label}".encode()
                member = tarfile.TarInfo(f"aclImdb/{part}/{label}/{name}.txt")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo("aclImdb/train/unsup/0_0.txt")
        archive.addfile(member, io.BytesIO(b""))


def test_the_builder_of_imdb_takes_an_archive_laid_by_hand(tmp_path, monkeypatch):
    """Small reviews in the published layout; the order is that of `load("imdb", order="tfds")`."""
    labels = ["pos", "neg"] * 6
    names = [f"{index}_{index % 4 + 1}" for index in range(12)]
    lay_reviews(tmp_path, labels, names)
    builder = type(tfds.builder("imdb_reviews", data_dir=tmp_path / "data"))
    url = next(iter(builder.url_infos))
    info = checksums.compute_url_info(tmp_path / "aclImdb_v1.tar.gz")
    monkeypatch.setattr(builder, "url_infos", {url: info})
    dataset = load("tfds:imdb_reviews", data_dir=tmp_path / "data", manual_dir=tmp_path, length=9)
    paths = [f"aclImdb/train/{label}/{n}.txt" for label, n in zip(labels, names, strict=True)]
    order = tfds_sorted("train", paths)
    assert [dataset.class_names[y] for y in dataset.train.y] == [labels[i] for i in order]
    texts = [f"train {names[i]} is {labels[i]}" for i in order]
    np.testing.assert_array_equal(
        dataset.train.x, encode_texts(texts, dataset.vocabulary, length=9)
    )
    assert dataset.vocabulary["train"] == 1 and len(dataset.test.y) == 12


@needs_files
def test_imdb_in_the_order_of_tfds():
    moved, keras = load("imdb", order="tfds"), load("imdb")
    with np.load(Path(FOLDER, "imdb.npz")) as stored:
        perm, y = stored["keras_perm_test"], stored["y_test"]
        identity = zip(y, stored["review_id_test"], stored["rating_test"], strict=True)
        paths = [f"aclImdb/test/{('neg', 'pos')[k]}/{n}_{r}.txt" for k, n, r in identity]
    assert paths[0] == "aclImdb/test/pos/0_10.txt" and paths[12500] == "aclImdb/test/neg/0_2.txt"
    original = np.empty_like(keras.test.x)
    original[perm] = keras.test.x
    np.testing.assert_array_equal(moved.test.x, original[tfds_sorted("test", paths)])
    np.testing.assert_array_equal(moved.test.y, y[tfds_sorted("test", paths)])
    assert moved.sha256 == keras.sha256
    for part in ("train", "validation"):
        rows = [np.sort(getattr(d, part).x.astype("S4"), axis=None) for d in (moved, keras)]
        np.testing.assert_array_equal(*rows)
        assert getattr(moved, part).y.sum() == getattr(keras, part).y.sum()
