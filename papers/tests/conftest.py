import gzip

import numpy as np
import pytest


@pytest.fixture
def data_dir(tmp_path):
    """A folder with the data sets of the networks, a few records of each, in their own files."""
    random = np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for part, n in (("train", 24), ("t10k", 10)):
            images = random.integers(0, 256, (n, 28, 28), dtype=np.uint8)
            head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in images.shape)
            (folder / f"{part}-images-idx3-ubyte").write_bytes(head + images.tobytes())
            labels = b"\0\0\x08\x01" + n.to_bytes(4, "big") + bytes(k % 10 for k in range(n))
            (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    folder = tmp_path / "data" / "a9a"
    folder.mkdir()
    rows = [f"{'+1' if k % 3 else '-1'} {1 + k % 7}:1 {20 + k % 5}:1 123:1\n" for k in range(40)]
    for name in ("a9a", "a9a.t"):
        (folder / name).write_text("".join(rows))
    folder = tmp_path / "data" / "aclImdb"
    for part in ("train", "test"):
        for kind, stars, word in (("pos", 9, "good"), ("neg", 2, "bad")):
            (folder / part / kind).mkdir(parents=True)
            for k in range(6):
                (folder / part / kind / f"{k}_{stars}.txt").write_text(f"The {word} film and the {word}")
    (folder / "imdb.vocab").write_text("good\nbad\nfilm\nthe\nand\n")
    folder = tmp_path / "data" / "ml-1m"
    folder.mkdir()
    lines = [f"{user}::{movie}::{1 + (user + movie) % 5}::1\n" for user in range(1, 6) for movie in range(1, 5)]
    (folder / "ratings.dat").write_text("".join(lines))
    return tmp_path / "data"
