"""ChaCha20: the vectors of RFC 8439, another implementation, and no word twice."""

import jax
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from dplateau.networks import noise as noise_module
from dplateau.networks.noise import Noise
from dplateau.spec import Key
from dplateau.training import SecureGenerator
from dplateau.training.chacha20 import blocks, random_words

KEY = bytes(range(32))
# RFC 8439, sections 2.3.2 and A.1: key, nonce, number of the block, its 64 bytes.
VECTORS = (
    (
        KEY.hex(),
        "000000090000004a00000000",
        1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        "00" * 32,
        "00" * 12,
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "00" * 32,
        "00" * 12,
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "00" * 31 + "01",
        "00" * 12,
        1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
)


def words_of(text):
    return np.frombuffer(bytes.fromhex(text), "<u4").astype(np.uint32)


@pytest.mark.parametrize(("key", "nonce", "number", "wanted"), VECTORS)
def test_vectors_of_the_standard(key, nonce, number, wanted):
    found = np.array(blocks(words_of(key), words_of(nonce), np.array([number], np.uint32)))
    assert found.astype("<u4").tobytes().hex() == wanted


def test_it_is_the_stream_of_another_implementation():
    key, nonce, count = words_of(KEY.hex()), np.array([7, 1, 5], np.uint32), 1000
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(random_words, static_argnums=2)(key, nonce, 8 * count)).reshape(8, count).T
    cipher = Cipher(algorithms.ChaCha20(KEY, bytes(4) + nonce.astype("<u4").tobytes()), None).encryptor()
    np.testing.assert_array_equal(found.reshape(-1), np.frombuffer(cipher.update(bytes(64 * count)), "<u8"))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_any_number_of_words(count):
    with jax.enable_x64(True):
        found = np.asarray(random_words(words_of(KEY.hex()), np.zeros(3, np.uint32), count))
    assert found.dtype == np.uint64
    assert np.unique(found).size == found.size == count


@pytest.fixture
def on_an_accelerator(monkeypatch):
    monkeypatch.setattr(noise_module.jax, "default_backend", lambda: "gpu")


@pytest.mark.usefixtures("on_an_accelerator")
def test_an_accelerator_draws_by_chacha20_with_a_fresh_key_for_every_chunk():
    generator = SecureGenerator()
    noise = Noise(generator, 2001)
    assert noise.source.algorithm == "ChaCha20"
    assert noise.source.key is Key.OPERATING_SYSTEM
    found = [np.concatenate(halves) for _ in range(2) for halves in noise.steps(np.full(3, 2.0**20))]
    assert generator.drawn == 8  # two keys of four words
    assert all(row.shape == (2002,) for row in found)
    numbers = np.concatenate(found)
    assert (numbers == np.rint(numbers)).all()
    assert np.unique(numbers).size > numbers.size - 100  # 19 are equal by chance; a step that repeats another has 2,002
    assert abs(numbers.std() / 2.0**20 - 1) < 6 / np.sqrt(2 * numbers.size)


@pytest.mark.usefixtures("on_an_accelerator")
def test_the_noise_of_a_whole_chunk_has_a_row_of_fresh_numbers_for_each_step():
    generator, deviations = SecureGenerator(), 2.0 ** np.array([20, 28, 0])
    noise = Noise(generator, 2001)
    rows = [np.asarray(half) for _ in range(2) for half in noise.rows(deviations, 3)]
    assert generator.drawn == 8  # two keys of four words
    assert all((half.shape, half.dtype) == ((3, 1001), np.float64) for half in rows)
    numbers = np.stack(rows)
    assert (numbers == np.rint(numbers)).all()
    assert (numbers % 2 == 1).any()
    assert (numbers[:, 1] % 2 == 1).mean() > 0.4  # single precision would round numbers of 2^28 to multiples of 16
    np.testing.assert_allclose(numbers.std(axis=(0, 2)) / deviations, [1, 1, np.sqrt(13 / 12)], atol=6 / np.sqrt(2 * 4004))
    large = numbers[:, 1].ravel()
    assert np.unique(large).size > large.size - 5


@pytest.mark.usefixtures("on_an_accelerator")
def test_steps_drawn_one_by_one_and_together_have_numbers_in_double_precision():
    for halves in Noise(SecureGenerator(), 2001).steps(np.full(2, 2.0**28)):
        numbers = np.concatenate(halves)
        assert numbers.dtype == np.float64
        assert (numbers % 2 == 1).mean() > 0.4


@pytest.mark.usefixtures("on_an_accelerator")
def test_a_seeded_accelerator_is_the_same_again_and_says_that_its_key_is_fixed():
    found = [np.stack(next(Noise(SecureGenerator(insecure_seed=3), 99).steps([1e6]))) for _ in range(2)]
    np.testing.assert_array_equal(*found)
    assert Noise(SecureGenerator(insecure_seed=3), 99).source.key is Key.FIXED_SEED


def test_a_processor_draws_by_the_generator_itself():
    generator = SecureGenerator()
    noise = Noise(generator, 2001)
    assert noise.source == generator.source
    assert len(list(noise.steps([1.0, 2.0]))) == 2
    assert generator.drawn == 2 * 3 * 1001
