"""The public data sets that reproductions train on: the files of each, and where they are published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dplateau.spec import InputError


@dataclass(frozen=True)
class DataSet:
    """One data set.

    Attributes
    ----------
    files : tuple of str
        Files, or folders of them, by their published names.
    published : str
        Where.
    packed : bool
        Whether they are published, and read, with ``.gz`` too.
    """

    files: tuple[str, ...]
    published: str
    packed: bool = False


_IDX: Final = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
DATA_SETS: Final = {
    "mnist": DataSet(_IDX, "http://yann.lecun.com/exdb/mnist", packed=True),
    "fashion-mnist": DataSet(_IDX, "https://github.com/zalandoresearch/fashion-mnist", packed=True),
    "a9a": DataSet(("a9a", "a9a.t"), "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"),
    "adult": DataSet(("adult.data", "adult.test"), "https://doi.org/10.24432/C5XW20"),
    "aclImdb": DataSet(("imdb.vocab", "train", "test"), "https://ai.stanford.edu/~amaas/data/sentiment"),
    "ml-1m": DataSet(("ratings.dat",), "https://grouplens.org/datasets/movielens/1m"),
}


def data_folder(data_dir: Path | None, name: str) -> Path:
    """The folder of a data set.

    Parameters
    ----------
    data_dir : Path, optional
        The folder with one folder for each data set.
    name : str
        One of ``DATA_SETS``.

    Returns
    -------
    Path
        ``data_dir / name``, which has the files that it should have.

    Raises
    ------
    InputError
        No folder was named, or it lacks this data set or one of its files.
    """
    if data_dir is None:
        raise InputError(f"the data set {name} is needed: give --data-dir, a folder that holds a folder {name}. {_files(name)}")
    folder = data_dir / name
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: --data-dir needs a folder {name}. {_files(name)}")
    data = DATA_SETS[name]
    for file in data.files:
        if not ((folder / file).exists() or (data.packed and (folder / f"{file}.gz").exists())):
            raise InputError(f"{folder} has no {file}. {_files(name)}")
    return folder


def _files(name: str) -> str:
    data = DATA_SETS[name]
    return f"It holds {', '.join(data.files)}{' (or .gz)' if data.packed else ''}, published at {data.published}."
