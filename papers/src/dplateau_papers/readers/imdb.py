"""The large movie review data set (IMDb) from its own folder, ``aclImdb``: reviews as codes of its public vocabulary.

The file ``imdb.npz`` of Keras is not read: it holds pickled objects, which can run any program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from dplateau.data.examples import LabelledExamples
from dplateau.data.files import read_bytes
from dplateau.spec import InputError
from dplateau.spec.arguments import integer
from dplateau_papers.readers.checks import checked_part, existing_folder

WORDS: Final = 10_000
LENGTH: Final = 256
SOURCES: Final = ("texts", "counts")
LABELS: Final = {"pos": 1, "neg": 0}
POSITIVE: Final = 7
"""Least rating, of 10, of a positive review; that of a negative one is at most 4."""
TOKEN: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[!?]|[:;]-?[()]")
"""Words, with their apostrophes and hyphens, and the marks that the vocabulary has too."""


def read_imdb(
    folder: str | Path, part: str = "train", *, words: int = WORDS, length: int = LENGTH, source: str = "texts"
) -> LabelledExamples:
    """Read reviews and whether they are positive.

    A review becomes the codes of its first ``length`` known words, filled with zeros. The vocabulary is that of the data set's
    file ``imdb.vocab``, ordered by frequency, which is public; words beyond it are left out.

    Parameters
    ----------
    folder : str or Path
        ``aclImdb``, unpacked.
    part : {"train", "test"}, default "train"
        Which reviews.
    words : int, default 10,000
        Number of codes, that is of rows of an embedding: 0 fills, and 1 to ``words - 1`` are the commonest words.
    length : int, default 256
        Number of codes of a review.
    source : {"texts", "counts"}, default "texts"
        "texts" reads ``pos/*.txt`` and ``neg/*.txt``, one file a review, and takes words in their order. "counts" reads the one
        file ``labeledBow.feat``, which counts words: each is repeated as often as it is counted, the commonest first, and these
        are what a long review keeps.

    Returns
    -------
    LabelledExamples
        ``x``: int32, shape (n, length); ``y``: int32, shape (n,), 1 for positive. Positive reviews come first, each kind in the
        order of the files' names or lines.

    Raises
    ------
    InputError
        A folder or file is missing or empty, is not UTF-8, or is not in this format. Reviews are named by their place, because
        the files' names give ratings.

    Notes
    -----
    Source: A. L. Maas et al., "Learning word vectors for sentiment analysis", ACL 2011; the preparation of the reviews is that of
    Z. Bu, J. Dong, Q. Long, W. J. Su, "Deep learning with Gaussian differential privacy", 2020, section 4.1.
    """
    folder, part = existing_folder(folder), checked_part(part)
    words, length = integer("words", words, low=2), integer("length", length)
    if source not in SOURCES:
        raise InputError(f"source is {source!r}: expected one of {', '.join(SOURCES)}.")
    vocabulary = _vocabulary(folder / "imdb.vocab")[: words - 1]
    if source == "counts":
        return _from_counts(existing_folder(folder / part) / "labeledBow.feat", len(vocabulary), length)
    codes = {word: code for code, word in enumerate(vocabulary, 1)}
    groups = {kind: _texts(existing_folder(folder / part / kind)) for kind in LABELS}
    return _examples(
        [len(paths) for paths in groups.values()],
        list(LABELS.values()),
        (_codes(path, place, codes) for paths in groups.values() for place, path in enumerate(paths, 1)),
        length,
    )


def _examples(sizes: list[int], labels: list[int], reviews: Iterable[list[int]], length: int) -> LabelledExamples:
    x = np.zeros((sum(sizes), length), np.int32)
    for row, codes in zip(x, reviews, strict=True):
        row[: len(codes)] = codes[:length]
    return LabelledExamples(x, np.repeat(np.array(labels, np.int32), sizes))


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where} is not UTF-8 text: it is damaged, unpack the data set anew.") from None


def _vocabulary(path: Path) -> list[str]:
    words = _text(read_bytes(path), str(path)).split()
    if len(set(words)) < len(words):
        raise InputError(f"{path}: a word stands there more than once: expected one word a line, as the data set has it.")
    if not words:
        raise InputError(f"{path} has no words: expected one a line.")
    return words


def _texts(folder: Path) -> list[Path]:
    """The files of the reviews, in the order of their numbers."""
    paths = sorted(folder.glob("*.txt"), key=lambda path: (len(path.stem.partition("_")[0]), path.name))
    if not paths:
        raise InputError(f"{folder} has no reviews: expected files *.txt. Unpack the data set anew.")
    return paths


def _codes(path: Path, place: int, codes: dict[str, int]) -> list[int]:
    where = f"{path.parent}: review {place} in the order of the files' numbers"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror or 'input/output error'}.") from None
    if not content.strip():
        raise InputError(f"{where} is empty: unpack the data set anew.")
    tokens = TOKEN.findall(_text(content, where).replace("<br />", " ").lower())
    return [code for token in tokens if (code := codes.get(token))]


def _from_counts(path: Path, known: int, length: int) -> LabelledExamples:
    """Reviews from lines ``rating index:count ...``, whose indices begin at 0."""
    found: dict[int, list[list[int]]] = {label: [] for label in LABELS.values()}
    for positive, codes in _counted(path, known, length):
        found[int(positive)].append(codes)
    return _examples(
        [len(reviews) for reviews in found.values()],
        list(found),
        (codes for reviews in found.values() for codes in reviews),
        length,
    )


def _counted(path: Path, known: int, length: int) -> Iterator[tuple[bool, list[int]]]:
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        rating, *pairs = line.split() or [b""]
        try:
            stars = int(rating)
            counts = sorted((int(index), int(count)) for index, _, count in (pair.partition(b":") for pair in pairs))
        except ValueError:
            raise InputError(f"{path}, line {number}: expected a rating and then index:count pairs, whole numbers.") from None
        if not 1 <= stars <= 10 or any(index < 0 or count < 1 for index, count in counts):
            raise InputError(f"{path}, line {number}: expected a rating from 1 to 10, indices from 0, and counts from 1.")
        codes: list[int] = []
        for index, count in counts:
            if index >= known or len(codes) >= length:
                break
            codes += [index + 1] * min(count, length)
        yield stars >= POSITIVE, codes
