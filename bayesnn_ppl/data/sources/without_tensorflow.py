"""What TensorFlow Datasets needs of TensorFlow to prepare data from local files."""

import importlib.util
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np


@contextmanager
def local_files() -> Iterator[None]:
    """Let TFDS open local files and store images where TensorFlow is not installed.

    TFDS unpacks archives, and its builders for MNIST and CIFAR read them, through `tf.io.gfile`,
    which is imported when first used; arrays of images are stored by TensorFlow's encoder. Inside
    this context the built-in `open` and Pillow do both. PNG is lossless, so that the images are the
    same; arrays that are to be stored as JPEG are refused. Where TensorFlow is installed nothing is
    replaced.

    Two private names of TFDS are replaced meanwhile: the imported module, and the method that
    encodes an array. A stand-in in `sys.modules` would need the first as well, because TFDS keeps
    the module it has imported, and everything else that asks for TensorFlow would find it.
    """
    if importlib.util.find_spec("tensorflow") is not None:
        yield
        return
    from tensorflow_datasets.core.features import image_feature
    from tensorflow_datasets.core.utils import lazy_imports_utils

    stand_in = SimpleNamespace(
        io=SimpleNamespace(gfile=SimpleNamespace(GFile=_open, exists=os.path.exists)),
        compat=SimpleNamespace(as_text=os.fsdecode),
        errors=SimpleNamespace(UnimplementedError=NotImplementedError),
    )
    # The attribute in which the lazy module keeps what it has imported.
    state = vars(lazy_imports_utils.tensorflow)
    encoder = image_feature._ImageEncoder
    encode = encoder._encode_image
    state["_module"], encoder._encode_image = stand_in, _encode_image
    try:
        yield
    finally:
        del state["_module"]
        encoder._encode_image = encode


def _open(path: Any, mode: str = "r") -> Any:
    return open(os.fspath(path), mode)


def _encode_image(encoder: Any, image: np.ndarray) -> bytes:
    from PIL import Image

    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3, 4):
        raise ImportError(
            f"TensorFlow is needed to store images of shape {image.shape} and dtype {image.dtype}"
        )
    # Another encoder loses other details, so that the pixels would not be those of the data set.
    if (encoder.encoding_format or "png") != "png":
        raise ImportError(f"TensorFlow is needed to store arrays as {encoder.encoding_format}")
    buffer = io.BytesIO()
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()
