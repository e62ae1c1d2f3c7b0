"""Readers of MNIST, CIFAR-10, IMDb and MovieLens, on small files in their formats."""

import gzip
import os
import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from dplateau.spec import InputError
from dplateau_papers.readers.cifar import read_cifar
from dplateau_papers.readers.idx import PIECE, read_idx, read_mnist
from dplateau_papers.readers.imdb import read_imdb
from dplateau_papers.readers.movielens import read_movielens

DATA = Path(os.environ.get("DPLATEAU_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


def refused(message, read, *arguments, **options):
    with pytest.raises(InputError, match=message) as caught:
        read(*arguments, **options)
    text = re.sub(r"\S*/", "", str(caught.value))  # Without the folder, which is named after the test.
    assert "\n" not in text
    assert "secret" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def idx(array, kind=8):
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(1).integers(0, 256, (7, 5, 3), dtype=np.uint8)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx(tmp_path, images, pack):
    found = read_idx(put(tmp_path / "x", pack(idx(images))))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, images)


def test_idx_of_several_pieces(tmp_path):
    """Longer than what is unpacked at a time, and no multiple of it."""
    array = np.random.default_rng(2).integers(0, 256, 2 * PIECE + 17, dtype=np.uint8)
    np.testing.assert_array_equal(read_idx(put(tmp_path / "x.gz", gzip.compress(idx(array), 1))), array)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b"", "is empty"),
        (lambda b: b[:-1], "shorter than its header says|ends 1 bytes before"),
        (lambda b: b + b"s", "goes on after the 105 bytes"),
        (lambda b: b[:3], "not an IDX file"),
        (lambda b: b"secret" + b[6:], "not an IDX file"),
        (lambda b: b"\0\0\x08\0" + b[4:], "not an IDX file"),
        (lambda b: b"\0\0\x0d" + b[3:], "type 0x0d: expected unsigned bytes, 0x08"),
        (lambda b: b[:9], "ends within its header"),
        (lambda b: b[:4] + b"\0\0\0\0" + b[8:], "array that is not empty"),
        (lambda b: b[:4] + b"\xff" * 12 + b[16:], "shorter than its header says"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_idx(tmp_path, images, damage, message, packed):
    content = damage(idx(images))
    refused(message, read_idx, put(tmp_path / "x", gzip.compress(content) if packed and content else content))


def test_damaged_gzip(tmp_path, images):
    whole = gzip.compress(idx(images))
    refused("gzip file that was cut off", read_idx, put(tmp_path / "a", whole[:-9]))
    refused("gzip file that was cut off", read_idx, put(tmp_path / "b", whole[:40]))
    refused("damaged gzip file", read_idx, put(tmp_path / "c", whole[:-8] + bytes(8)))  # checksum
    refused(
        "damaged gzip file", read_idx, put(tmp_path / "d", whole[:10] + b"\xff" + whole[11:])
    )  # a kind of block that there is not
    refused("no such file", read_idx, tmp_path / "none")
    refused("is a directory", read_idx, tmp_path)


def test_mnist_format(tmp_path, images):
    labels = np.arange(7, dtype=np.uint8)
    for name in ("train", "t10k"):
        put(tmp_path / f"{name}-images-idx3-ubyte", idx(images))
        put(tmp_path / f"{name}-labels-idx1-ubyte.gz", gzip.compress(idx(labels)))
    x, y = read_mnist(tmp_path, "test")
    np.testing.assert_array_equal(x, images)
    np.testing.assert_array_equal(y, labels)
    label_file = tmp_path / "train-labels-idx1-ubyte.gz"
    put(label_file, idx(labels[:6]))
    refused("7 images but 6 labels", read_mnist, tmp_path)
    put(label_file, idx(labels + np.uint8(5)))
    refused("2 of 7 labels are not between 0 and 9", read_mnist, tmp_path)
    put(label_file, idx(images))
    refused("3 dimensions: expected 1", read_mnist, tmp_path)
    label_file.unlink()
    refused("has neither train-labels-idx1-ubyte nor", read_mnist, tmp_path)
    refused("no such folder", read_mnist, tmp_path / "none")
    refused("is a file: expected the folder", read_mnist, tmp_path / "t10k-images-idx3-ubyte")
    refused("part is 'validation': expected one of train, test", read_mnist, tmp_path, "validation")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_mnist(name):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not on this machine")
    for part, n in (("train", 60_000), ("test", 10_000)):
        x, y = read_mnist(DATA / name, part)
        assert x.shape == (n, 28, 28)
        counts = np.bincount(y, minlength=10)
        assert counts.sum() == n
        # Fashion-MNIST has equal classes; MNIST's are those of its description.
        expected = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949] if part == "train" else [980, 1135, 1032, 1010, 982]
        assert counts[: len(expected)].tolist() == (expected if name == "mnist" else [n // 10] * len(expected))


def cifar(folder, sizes):
    rng = np.random.default_rng(3)
    found = []
    for name, size in sizes.items():
        pixels, labels = rng.integers(0, 256, (size, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, size, dtype=np.uint8)
        # Written as the data set's page says: the label, then all red, all green, all blue values, row by row.
        rows = [
            bytes([label]) + b"".join(image[:, :, c].tobytes() for c in range(3))
            for image, label in zip(pixels, labels, strict=True)
        ]
        put(folder / f"{name}.bin", b"".join(rows))
        found.append((pixels, labels))
    return found


def test_cifar(tmp_path):
    sizes = {f"data_batch_{i}": i for i in range(1, 6)} | {"test_batch": 4}
    *train, test = cifar(tmp_path, sizes)
    x, y = read_cifar(tmp_path)
    np.testing.assert_array_equal(x, np.concatenate([part for part, _ in train]))
    np.testing.assert_array_equal(y, np.concatenate([part for _, part in train]))
    assert x.flags.c_contiguous
    x, y = read_cifar(tmp_path, "test")
    np.testing.assert_array_equal(x, test[0])
    np.testing.assert_array_equal(y, test[1])


def test_damaged_cifar(tmp_path):
    cifar(tmp_path, {"test_batch": 2})
    path = tmp_path / "test_batch.bin"
    whole = path.read_bytes()
    put(path, whole[:-1])
    refused(r"6,145 bytes, no multiple of the 3073", read_cifar, tmp_path, "test")
    put(path, b"\x0a" + whole[1:])
    refused("1 of 2 labels are not between 0 and 9", read_cifar, tmp_path, "test")
    put(path, b"")
    refused("is empty", read_cifar, tmp_path, "test")
    refused("has no data_batch_1.bin", read_cifar, tmp_path)
    refused("no such folder", read_cifar, tmp_path / "none")


def test_pickles_of_cifar_are_refused_unread(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "trapped",))

    put(tmp_path / "data_batch_1", pickle.dumps(Trap()))
    refused("is a pickle.*Fetch cifar-10-binary.tar.gz", read_cifar, tmp_path)
    assert not (tmp_path / "trapped").exists()


@pytest.fixture
def imdb(tmp_path):
    put(tmp_path / "imdb.vocab", "the\na\nfilm\ngood\nit's\n!\nbad\ncafé\n")
    put(tmp_path / "train/pos/10_8.txt", "The CAFÉ: it's a... zzz good<br />film!")
    put(tmp_path / "train/pos/2_10.txt", "good good good")
    put(tmp_path / "train/neg/0_1.txt", "bad, bad the-film")
    put(tmp_path / "train/labeledBow.feat", "8 0:1 1:1 3:1 4:1 2:1\n1 6:2 2:1\n10 3:3\n")
    return tmp_path


def test_imdb(imdb):
    x, y = read_imdb(imdb, length=6)
    assert x.tolist() == [[4, 4, 4, 0, 0, 0], [1, 8, 5, 2, 4, 3], [7, 7, 0, 0, 0, 0]]
    assert y.tolist() == [1, 1, 0]
    assert x.dtype == y.dtype == np.int32
    # Four codes: fill, the, a, film.
    assert read_imdb(imdb, words=4, length=3).x.tolist() == [[0, 0, 0], [1, 2, 3], [0, 0, 0]]
    x, y = read_imdb(imdb, source="counts", length=6)
    assert x.tolist() == [[1, 2, 3, 4, 5, 0], [4, 4, 4, 0, 0, 0], [3, 7, 7, 0, 0, 0]]
    assert y.tolist() == [1, 1, 0]
    assert read_imdb(imdb, source="counts", words=4, length=2).x.tolist() == [[1, 2], [0, 0], [3, 0]]


@pytest.mark.parametrize(
    ("file", "content", "source", "message"),
    [
        ("imdb.vocab", "", "texts", "imdb.vocab is empty"),
        ("imdb.vocab", "\n", "texts", "imdb.vocab has no words"),
        ("imdb.vocab", "the\nsecret\nsecret\n", "texts", "a word stands there more than once"),
        ("imdb.vocab", b"secret\xff", "texts", "imdb.vocab is not UTF-8"),
        ("train/pos/2_10.txt", b"secret\xff", "texts", "pos: review 1 in the order of the files' numbers is not UTF-8"),
        ("train/neg/0_1.txt", "", "texts", "neg: review 1 in the order of the files' numbers is empty"),
        ("train/labeledBow.feat", "", "counts", "is empty"),
        ("train/labeledBow.feat", b"8 0:1\n\xff\n", "counts", "line 2: expected a rating and then index:count"),
        ("train/labeledBow.feat", "8 0:1\n8 secret:1\n", "counts", "line 2: expected a rating and then index:count"),
        ("train/labeledBow.feat", "8 0:1\n\n", "counts", "line 2: expected a rating and then index:count"),
        ("train/labeledBow.feat", "8 0\n", "counts", "line 1: expected a rating and then index:count"),
        ("train/labeledBow.feat", "11 0:1\n", "counts", "line 1: expected a rating from 1 to 10"),
        ("train/labeledBow.feat", "8 -1:1\n", "counts", "line 1: expected a rating from 1 to 10, indices from 0"),
        ("train/labeledBow.feat", "8 1:0\n", "counts", "counts from 1"),
    ],
)
def test_damaged_imdb(imdb, file, content, source, message):
    put(imdb / file, content)
    refused(message, read_imdb, imdb, source=source)


def test_incomplete_imdb(imdb):
    refused("no such folder", read_imdb, imdb / "none")
    refused("test: there is no such folder|pos: there is no such folder", read_imdb, imdb, "test")
    refused("source is 'npz'", read_imdb, imdb, source="npz")
    refused("words is 1: expected a whole number >= 2", read_imdb, imdb, words=1)
    (imdb / "train/neg/0_1.txt").unlink()
    refused("neg has no reviews", read_imdb, imdb)
    (imdb / "imdb.vocab").unlink()
    refused("imdb.vocab: there is no such file", read_imdb, imdb)


def test_movielens(tmp_path):
    put(tmp_path / "ratings.dat", "1::1193::5::978300760\n6040::3952::1::956715569\r\n2::1::3::0")
    for path in (tmp_path, tmp_path / "ratings.dat"):
        found = read_movielens(path)
        assert [column.tolist() for column in found] == [[0, 6039, 1], [1192, 3951, 0], [5, 1, 3], [978300760, 956715569, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("secret\n", "line 1: expected user::movie::rating::timestamp"),
        ("1::2::3::4\n1::2::3\n", "line 2: expected user::movie::rating::timestamp"),
        ("1::2::3::4\n1::2::3::4::5\n", "line 2: expected"),
        ("1::2::3::4\n1::2:9:3::4\n", "line 2: expected"),
        ("1::2::3::4\n1::2::3.5::4\n", "line 2: expected"),
        ("1::2::3::4\n1::2::::4\n", "line 2: expected"),
        ("1::2::3::4\n\n1::2::3::4\n", "line 2: expected"),
        (b"1::2::3::4\n1::2::3::\xff\n", "line 2: expected"),
        ("1::2::3::4\n1::2::3::99999999999999999999\n", "line 2: expected"),
        ("1::2::3::4\n0::2::3::4\n", "the user is not between 1 and 6,040 in 1 of 2 lines, first in line 2"),
        ("1::3953::3::4\n", "the movie is not between 1 and 3,952"),
        ("1::1::6::4\n", "the rating is not between 1 and 5"),
    ],
)
def test_damaged_movielens(tmp_path, content, message):
    refused(message, read_movielens, put(tmp_path / "ratings.dat", content))


def test_missing_movielens(tmp_path):
    refused("ratings.dat: there is no such file", read_movielens, tmp_path)
    put(tmp_path / "ratings.dat", "3::1::1::1\n")
    refused("the user is not between 1 and 2 in 1 of 1 lines", read_movielens, tmp_path, users=2)
