"""Networks in folders: what is read is what was saved, and a folder in which anything was changed is refused."""

from __future__ import annotations

import json
import shutil
from collections import OrderedDict, namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dplateau as dp
from dplateau.certificate import Certificate, create_key, make_certificate, read_certificate, signing_key, verify
from dplateau.certificate.weights import bound_to, weights_digest
from dplateau.cli.main import status
from dplateau.networks import train_network
from dplateau.spec import ContradictionError, InputError

Pair = namedtuple("Pair", ["left", "right"])
RUN = dp.Run(n=30, sampling=dp.FullBatch(), steps=2, noise_multiplier=5.0, step_size=0.1)
PARAMS = {
    "layers": [{"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}, {"w": np.ones((2, 2), np.float32), "b": None}],
    "head": (np.ones(2, np.float32), np.float32(0.5)),
    "frozen": {"half": jnp.full((2, 3), 1.1, jnp.bfloat16), "table": np.arange(4, dtype=np.int8)},
    "numbered": {3: np.array([True, False]), 7: np.float32(-np.inf)},
    "a/b \u00fc\"'": {},
}
MASK = {"layers": True, "head": True, "frozen": False, "numbered": False, "a/b \u00fc\"'": {}}


def loss(params, x):
    first, second = params["layers"]
    hidden = jnp.tanh(jnp.tanh(x @ first["w"] + first["b"]) @ second["w"])
    return hidden @ params["head"][0] * params["head"][1]


@pytest.fixture(scope="module")
def trained():
    rows = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    result = train_network(RUN, loss, PARAMS, rows, trainable=MASK)
    return result.params, make_certificate(dp.account(result.run, delta=1e-5), result)


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks") / "network"
    dp.save_network(folder, *trained)
    return folder


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def same(one, two):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_what_is_read_is_what_was_saved(saved, trained):
    params, certificate = trained
    found = dp.load_network(saved)
    same(found.params, params)
    assert found.certificate.to_json() == certificate.to_json()
    assert verify(found.certificate).certifies
    assert weights_digest(found.params) == found.certificate.weights_sha256
    assert sorted(file.name for file in saved.iterdir()) == ["certificate.json", "model.json", "weights.npz"]
    np.load(saved / "weights.npz", allow_pickle=False).close()


def test_a_tree_of_the_caller_gives_the_structure(saved, trained):
    same(dp.load_network(saved, like=PARAMS).params, trained[0])
    again = {**PARAMS, "head": Pair(*PARAMS["head"])}  # its fields are numbered
    assert isinstance(dp.load_network(saved, like=again).params["head"], Pair)
    with pytest.raises(InputError, match=r"like does not fit .*weights\.npz: .*\["):
        dp.load_network(saved, like={**PARAMS, "more": np.ones(2)})
    other = {**PARAMS, "head": (np.ones(3, np.float32), np.float32(0.5))}
    with pytest.raises(InputError, match=r'like does not fit .*missing in one of the two, .* type: \["head", 0\]\.'):
        dp.load_network(saved, like=other)


@pytest.mark.parametrize("params", [Pair(np.ones(2, np.float32), np.zeros(1)), OrderedDict(a=np.ones(2)), {(1, 2): np.ones(2)}])
def test_other_trees_need_one_of_their_kind(params, trained, tmp_path):
    certificate = bound_to(trained[1], params)
    with jax.enable_x64(True):
        dp.save_network(tmp_path / "n", params, certificate)
        with pytest.raises(InputError, match="pass others of their kind as like="):
            dp.load_network(tmp_path / "n")
        same(dp.load_network(tmp_path / "n", like=jax.tree.map(np.zeros_like, params)).params, params)


@pytest.mark.parametrize("params", [np.arange(3, dtype=np.float32), [np.ones(2, np.float32)], ({"x": [np.ones((), np.int32)]},)])
def test_small_trees(params, trained, tmp_path):
    dp.save_network(tmp_path / "n", params, bound_to(trained[1], params))
    same(dp.load_network(tmp_path / "n").params, params)


def test_double_precision_is_not_cut_off(trained, tmp_path):
    params = {"w": np.array([0.1])}
    dp.save_network(tmp_path / "n", params, bound_to(trained[1], params))
    with pytest.raises(InputError, match="float64, which JAX has only under jax_enable_x64"):
        dp.load_network(tmp_path / "n")
    with jax.enable_x64(True):
        same(dp.load_network(tmp_path / "n").params, params)


def test_only_what_the_certificate_is_about_is_saved(trained, tmp_path):
    params, certificate = trained
    moved = jax.tree.map(lambda leaf: leaf, params)
    moved["head"] = (moved["head"][0] + 1, moved["head"][1])
    with pytest.raises(ContradictionError, match="about other weights"):
        dp.save_network(tmp_path / "n", moved, certificate)
    unbound = Certificate(**{**vars(certificate), "weights_sha256": None})
    with pytest.raises(InputError, match="names no weights"):
        dp.save_network(tmp_path / "n", params, unbound)
    with pytest.raises(InputError, match="weights hold"):
        dp.save_network(tmp_path / "n", {"w": "text"}, certificate)
    texts = {"w": np.array(["text"])}
    with pytest.raises(InputError, match=r"params hold str.*, which cannot be saved: expected numbers"):
        dp.save_network(tmp_path / "n", texts, bound_to(certificate, texts))
    with pytest.raises(InputError, match="certificate is str: expected what make_certificate made"):
        dp.save_network(tmp_path / "n", params, "certificate.json")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(saved, trained):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(InputError, match="exists already"):
        dp.save_network(saved, *trained)
    assert before == {file.name: file.read_bytes() for file in saved.iterdir()}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_save_that_breaks_off_leaves_nothing(trained, tmp_path, monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises((KeyboardInterrupt, InputError)):
        dp.save_network(tmp_path / "n", *trained)
    assert not list(tmp_path.iterdir())


def rewritten(folder, change):
    with np.load(folder / "weights.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(folder / "weights.npz", **arrays)


def name_of(arrays, part):
    return next(name for name in arrays if part in name)


@pytest.mark.parametrize("path", ["head", "half", "table"])
def test_another_number_is_another_model(copy, path):
    def change(arrays):
        name = name_of(arrays, path)
        arrays[name] = arrays[name] + arrays[name].dtype.type(1)

    rewritten(copy, change)
    with pytest.raises(ContradictionError, match=r"about other weights than the weights in weights\.npz"):
        dp.load_network(copy)
    assert status(["report", str(copy), "-o", str(copy.with_suffix(".html"))]) == 1
    assert status(["account", "--run", str(copy)]) == 1


def test_names_and_types_of_arrays_are_part_of_the_digest(copy, saved):
    def renamed(arrays):
        arrays['["tail", 0] float32'] = arrays.pop(name_of(arrays, "head"))

    def retyped(arrays):
        name = name_of(arrays, "half")
        arrays[name.replace("bfloat16", "uint16")] = arrays.pop(name)

    def removed(arrays):
        arrays.pop(name_of(arrays, "table"))

    for change in (renamed, retyped, removed):
        shutil.copy(saved / "weights.npz", copy)
        rewritten(copy, change)
        with pytest.raises(ContradictionError, match="about other weights"):
            dp.load_network(copy)

    def mistyped(arrays):
        name = name_of(arrays, "half")
        arrays[name] = arrays[name].view(np.int16)

    shutil.copy(saved / "weights.npz", copy)
    rewritten(copy, mistyped)
    with pytest.raises(InputError, match="damaged: an array has another type"):
        dp.load_network(copy)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no archive"])
def test_damaged_weights_are_refused(copy, content):
    (copy / "weights.npz").write_bytes(content)
    with pytest.raises(InputError, match="missing or damaged"):
        dp.load_network(copy)


@pytest.mark.parametrize(
    "tree",
    [
        "array",
        7,
        {"dict": []},
        {"dict": 3},
        {"set": []},
        {"list": ["array"] * 30},
        {"dict": [["layers"]]},
        {"dict": [[["layers"], "array"]]},
        {"none": [], "list": []},
        [],
    ],
)
def test_a_tree_that_is_not_that_of_the_arrays_is_refused(copy, tree):
    about = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**about, "tree": tree}))
    with pytest.raises(InputError, match=r"model.json is damaged: its tree"):
        dp.load_network(copy)
    same(dp.load_network(copy, like=PARAMS).params["frozen"], dp.load_network(copy, like=PARAMS).params["frozen"])


def test_a_folder_of_another_kind_is_named(copy, capsys, tmp_path):
    for wrong in (dp.load_model, dp.load_estimator):
        with pytest.raises(InputError, match="holds a dplateau network: load_network reads it"):
            wrong(copy)
    rows = tmp_path / "rows.csv"
    rows.write_text("age\n40\n")
    assert status(["predict", str(copy), str(rows), "-o", str(tmp_path / "out.csv")]) == 2
    assert "load_network" in capsys.readouterr().err
    with pytest.raises(InputError, match="no such file"):
        dp.load_network(copy / "nowhere")


def test_a_certificate_that_names_no_weights_is_not_that_of_a_network(copy):
    data = json.loads((copy / "certificate.json").read_text())
    data["model"]["weights_sha256"] = None
    (copy / "certificate.json").write_text(json.dumps(data))
    with pytest.raises(ContradictionError, match="names no weights"):
        dp.load_network(copy)


def test_commands_take_the_folder(saved, tmp_path, capsys):
    assert status(["account", "--run", str(saved)]) == 0
    assert "other weights" not in capsys.readouterr().out
    assert status(["report", str(saved), "-o", str(tmp_path / "page.html")]) == 0
    assert read_certificate(saved / "certificate.json").weights_sha256[:16] in (tmp_path / "page.html").read_text()


def test_signatures_are_demanded(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    create_key("me")
    create_key("other")
    dp.save_network(tmp_path / "n", *trained, sign=signing_key("me"))
    same(dp.load_network(tmp_path / "n", signed_by="me").params, trained[0])
    with pytest.raises(ContradictionError):
        dp.load_network(tmp_path / "n", signed_by="other")
    dp.save_network(tmp_path / "unsigned", *trained)
    with pytest.raises(ContradictionError):
        dp.load_network(tmp_path / "unsigned", signed_by="me")
