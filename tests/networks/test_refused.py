"""Losses that may mix examples, keep a state, train on nothing or depend on the place in a microbatch are refused by name."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.custom_batching import custom_vmap
from jax.extend.core import Primitive
from jax.extend.core import primitives as extended
from jax.interpreters import batching

from dplateau.networks import clipped_sums, primitives, probes, train_network
from dplateau.networks.finite import NoisyCount
from dplateau.networks.lattice import lattice_of
from dplateau.networks.recorded import record
from dplateau.spec import FullBatch, InputError, Poisson
from dplateau.training import TrainingDiverged

from .small import data, loss, run_of, run_with_optimizer, seeded, start
from .uses import W, dense, normal

E4 = normal(4)


@custom_vmap
def shared(x):
    """Alone it is the identity; in a microbatch every example gets the sum of all."""
    return x


@shared.def_vmap
def _(axis_size, in_batched, x):
    return jnp.broadcast_to(x.sum(0), x.shape), True


@jax.custom_vjp
def with_rule(x):
    return jnp.sum(x)


with_rule.defvjp(lambda x: (jnp.sum(x), x), lambda x, g: (shared(g * jnp.ones_like(x)),))


def called(x, method):
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=method)


MIXING = {
    "custom_vmap": (lambda p, e: dense(p, shared(e)), "custom_vmap_call"),
    "broadcast_all": (lambda p, e: dense(p, called(e, "broadcast_all")), "pure_callback"),
    "sequential": (lambda p, e: dense(p, called(e, "sequential")), "pure_callback"),
    "io_callback": (
        lambda p, e: dense(p, jax.experimental.io_callback(lambda a: a, jax.ShapeDtypeStruct((4,), np.float32), e)),
        "io_callback",
    ),
    "print": (lambda p, e: (jax.debug.print("{}", e[0]), dense(p, e))[1], "debug_"),
    "in a scan": (lambda p, e: dense(p, e) * lax.scan(lambda c, x: (c + shared(x), None), 0.0, e)[0], "custom_vmap_call"),
    "in a branch": (
        lambda p, e: dense(p, lax.cond(e[0] > 0, lambda x: called(x, "broadcast_all"), lambda x: x, e)),
        "pure_callback",
    ),
    "in a while loop": (
        lambda p, e: dense(p, lax.while_loop(lambda x: x[0] > 1, lambda x: called(x, "legacy_vectorized") / 2, e)),
        "pure_callback",
    ),
    "in jit": (lambda p, e: dense(p, jax.jit(shared)(e)), "custom_vmap_call"),
    "in remat": (lambda p, e: dense(p, jax.checkpoint(shared)(e)), "custom_vmap_call"),
    "in a derivative": (lambda p, e: dense(p, e) + with_rule(p["b"] * e[0]), "custom_vmap_call"),
    "collective": (lambda p, e: lax.psum(dense(p, e), "examples"), "collective"),
    "axis index": (lambda p, e: dense(p, e) * lax.axis_index("examples"), "collective"),
    **{
        f"random, not by example: {kind}": (
            lambda p, e, kind=kind: dense(
                p, e * jax.random.normal(jax.random.fold_in(jax.random.key(0, impl=kind), e[0].astype(int)))
            ),
            "first one's",
        )
        for kind in ("rbg", "unsafe_rbg")
    },
    "generator of the device": (
        lambda p, e: dense(p, e * lax.rng_uniform(0.0, 1.0, (4,))),
        "rng_uniform",
    ),
    "incomplete beta": (lambda p, e: dense(p, e) * jax.scipy.special.betainc(2.0, 3.0, e[0]), "regularized_incomplete_beta"),
}


@pytest.mark.parametrize("name", MIXING)
def test_what_may_mix_examples_is_refused_by_name(name):
    mixing, message = MIXING[name]
    with pytest.raises(InputError, match=message):
        record(mixing, W, E4)


def test_a_generator_that_is_refused_does_mix_examples():
    """Under vmap, rbg gives all examples the bits of the first one's key."""
    keys = jax.vmap(partial(jax.random.key, impl="rbg"))(jnp.arange(3))
    together = jax.vmap(lambda key: jax.random.normal(key, (2,)))(keys)
    assert (together[1] != jax.random.normal(keys[1], (2,))).any()


SPECIAL = {
    "betainc": (3, lax.betainc),
    "igamma": (2, lax.igamma),
    "igammac": (2, lax.igammac),
    "igamma_grad_a": (2, lax.igamma_grad_a),
    "zeta": (2, lax.zeta),
    "polygamma": (2, lax.polygamma),
    "lgamma": (1, lax.lgamma),
    "digamma": (1, lax.digamma),
    "random_gamma": (1, jax.vmap(lambda a: jax.random.gamma(jax.random.key(0), a))),
}
"""Functions that are computed by series and fractions, which end when they have converged, with their number of arguments."""


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_that_are_allowed_stop_for_each_example(name):
    """Before JAX 0.12, the incomplete beta function goes on with all until the last has converged: NaN of a converged one."""
    count, function = SPECIAL[name]
    rng, compiled = np.random.default_rng(0), jax.jit(function)
    rows = (10.0 ** rng.uniform(-3, 30, (count, 40))).astype(np.float32)
    rows[:, ::2] = 10.0 ** rng.uniform(-2, 2, (count, 20))
    if name == "betainc":
        rows[2] = 1 / (1 + rows[2])
    alone = [np.asarray(compiled(*np.repeat(rows[:, [k]], 40, axis=1)))[k] for k in range(40)]
    same = np.array_equal(np.asarray(compiled(*rows)), alone, equal_nan=True)
    assert same == (name != "betainc" or jax.__version_info__ >= (0, 12))


@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_what_is_repeated_until_it_has_converged_is_for_processors(name, monkeypatch):
    values = jnp.linalg.eigvalsh if name == "eigh" else jnp.linalg.svdvals
    assert record(lambda p, e: dense(p, values(jnp.outer(e, e)) * e), W, E4).unused == ()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(InputError, match=f"{name}, which is repeated until it has converged"):
        record(lambda p, e: dense(p, values(jnp.outer(e, e)) * e), W, E4)


def test_what_fails_only_in_a_microbatch_is_refused_in_one_line(monkeypatch):
    """As a pivoted QR decomposition does, whose derivative JAX has not written for matrices of several examples."""

    def without_rule(*_, **__):
        raise TypeError("all inputs must have the same number of batch dimensions.")

    monkeypatch.setitem(batching.fancy_primitive_batchers, lax.sinh_p, without_rule)
    line = "^the loss fails at a microbatch: TypeError: all inputs must have the same number of batch dimensions. Write it"
    with pytest.raises(InputError, match=line):
        record(lambda p, e: dense(p, e) * lax.sinh(e[0]), W, E4)


def test_ordinary_losses_are_not_refused():
    def ordinary(p, e):
        x = jax.nn.gelu(jax.nn.relu(e @ p["w"] + p["b"])) + jax.nn.one_hot(jnp.argmax(e) % 3, 3) * jnp.arange(3)
        x *= jax.random.bernoulli(jax.random.fold_in(jax.random.key(0), e[0].astype(int)), 0.5, x.shape)
        x = jnp.sort(x) + jnp.split(jnp.tile(x, 2), 2)[0] + jnp.roll(x, 1) + jnp.median(x) + jnp.cumsum(x) + jnp.interp(x, x, x)
        x = jnp.linalg.solve(jnp.eye(3) + jnp.outer(x, x), x) + jnp.fft.fft(x).real + jnp.linalg.norm(x)
        x = lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x) + jax.checkpoint(jnp.tanh)(x) + lax.map(jnp.cos, x)
        x = jax.vmap(lambda one: one - lax.pmean(one, "own") - lax.pmax(lax.stop_gradient(one), "own"), axis_name="own")(x)
        return jax.scipy.special.logsumexp(x) - jax.nn.log_softmax(x)[0] + jax.scipy.special.gammaln(x**2 + 1).sum()

    assert record(ordinary, W, E4).unused == ()


def test_operations_that_jax_numpy_makes_for_itself_are_allowed_and_those_of_others_are_not():
    theirs = type("SearchSorted", (), {"__module__": "jax._src.numpy.hijax"})()
    others = type("SearchSorted", (), {"__module__": "somebody.numpy"})()
    for made, allowed in ((theirs, True), (others, False)):
        primitive = Primitive("call_hi_primitive")
        equation = SimpleNamespace(primitive=primitive, effects=(), params={"_prim": made}, invars=(), outvars=())
        with nullcontext() if allowed else pytest.raises(InputError, match="call_hi_primitive"):
            primitives.check_primitives(SimpleNamespace(eqns=[equation]))


REFUSED = """
    all_gather all_to_all axis_index get pmax pmin ppermute psum ragged_all_to_all regularized_incomplete_beta rng_bit_generator
    rng_uniform sharding_constraint swap xla_pmap
"""
"""What may mix examples, or keeps a state, of the operations that JAX has in public."""


def test_operations_that_a_later_jax_adds_are_refused_until_somebody_has_looked_at_them(monkeypatch):
    monkeypatch.setattr(lax, "later_p", Primitive("later"), raising=False)
    spec = importlib.util.spec_from_file_location("primitives_of_a_later_jax", primitives.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    equation = SimpleNamespace(primitive=lax.later_p, effects=(), params={}, invars=(), outvars=())
    with pytest.raises(InputError, match="the loss uses later"):
        module.check_primitives(SimpleNamespace(eqns=[equation]))


def test_somebody_has_looked_at_every_operation_of_this_jax():
    public = {name: one for of in (extended, lax) for name, one in vars(of).items() if name.endswith("_p")}
    unknown = {name.removesuffix("_p") for name, one in public.items() if one not in primitives._ALLOWED}
    assert unknown <= set(REFUSED.split())


RUNNING = """
import jax.numpy as jnp
import numpy as np
from dplateau.networks.recorded import record

class Running:
    def __init__(self):
        self.mean = jnp.zeros(3)

    def __call__(self, p, e):
        x = e @ p["w"]
        self.mean = 0.9 * self.mean + 0.1 * x
        return jnp.sum((x - self.mean) ** 2)

record(Running(), {"w": np.ones((4, 3), np.float32)}, np.ones(4, np.float32))
"""

WITHOUT_RULE = """
import jax
import numpy as np
from dplateau.networks.recorded import record

record(lambda p, e: jax.scipy.linalg.schur(e * p["w"])[0].sum(), {"w": np.eye(3, dtype=np.float32)}, np.ones((3, 3), np.float32))
"""


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (RUNNING, "the loss changes something outside itself"),
        (WITHOUT_RULE, "NotImplementedError: Differentiation rule for 'schur'"),
    ],
)
def test_a_loss_that_leaves_traces_behind_is_refused_by_the_reason(script, message):
    """A batch normalisation in the style of layers that keep their running mean; and an operation without a derivative, whose error
    leaves them. In a process of its own, because JAX looks through all objects for what refers to a leaked one: that takes a minute
    where there are many."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert message in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("use", [lambda x: 0.0, lambda x: 0 * x.sum(), lambda x: jnp.sum(lax.stop_gradient(x))])
def test_parameters_without_any_gradient_are_named(use):
    """The running statistics of a layer, for example, which only its training mode would use."""
    params = {**start(), "statistics": {"mean": np.ones(3, np.float32)}}
    with pytest.raises(InputError, match=r"no gradient by params\['statistics'\]\['mean'\]"):
        train_network(run_of(), lambda p, e: loss(p, e) + use(p["statistics"]["mean"]), params, data())


def test_a_constant_gradient_is_no_missing_one():
    params = {**start(), "s": np.float32(1)}
    assert record(lambda p, e: loss(p, e) + 3 * p["s"], params, jax.tree.map(lambda c: c[0], data())).unused == ()


@pytest.mark.parametrize("broken", [jnp.nan, jnp.inf])
def test_a_loss_that_is_never_finite_is_refused_before_the_first_step(broken):
    with pytest.raises(InputError, match="no finite gradient at any of the made-up examples"):
        train_network(run_of(), lambda p, e: loss(p, e) * broken, start(), data())


def test_a_loss_that_is_finite_for_no_record_ends_in_an_error():
    """Made-up examples cannot show it: only these records are outside the domain. The noisy count does."""
    x, y = data(400)
    run = run_of(n=400, sampling=Poisson(200.0), noise_multiplier=1.0, steps=3)
    broken = lambda p, e: loss(p, e) + jnp.where(e[0][0] < -50, jnp.nan, 1.0) * jnp.sum(p["b"])  # noqa: E731
    train_network(run, broken, start(), (x, y), generator=seeded())
    x[:, 0] = -100
    with pytest.raises(TrainingDiverged, match="hardly any example had a finite gradient"):
        train_network(run, broken, start(), (x, y), generator=seeded())


def test_one_record_cannot_be_seen_in_whether_training_ends():
    """The only record with a finite gradient: with and without it, the error depends on the noise in the same way."""
    x, y = data(400)
    run = run_of(n=400, sampling=FullBatch(), noise_multiplier=1.0, steps=1)
    broken = lambda p, e: loss(p, e) + jnp.where(e[0][0] < -50, jnp.nan, 1.0) * jnp.sum(p["b"])  # noqa: E731
    for first in (0.0, -100.0):
        x[:, 0] = -100
        x[0, 0] = first
        with pytest.raises(TrainingDiverged, match="by a noisy count"):
            train_network(run, broken, start(), (x, y), generator=seeded())


def test_the_noisy_count_decides_only_where_noise_allows_it():
    def ends(found, deviation, expected):
        count = NoisyCount()
        count.add(found, deviation, expected)
        try:
            count.check(1)
        except TrainingDiverged:
            return True
        return False

    assert ends(3.0, 16.0, 1000.0)
    assert ends(-20.0, 16.0, 1000.0)
    assert not ends(800.0, 16.0, 1000.0)
    assert not ends(0.0, 16.0, 100.0)  # Too few to tell.
    assert not ends(60.0, 0.01, 100.0)
    assert not ends(0.0, 0.01, 3.0)  # A Poisson batch may well be empty.


def test_a_count_of_many_steps_is_as_sharp_as_their_number():
    count, rng = NoisyCount(), np.random.default_rng(1)
    for step in range(1, 1001):
        count.add(16 * rng.normal(), 16.0, 20.0)
        try:
            count.check(step)
        except TrainingDiverged:
            break
    assert 50 < step < 200


def test_gradients_that_depend_on_the_place_are_refused(monkeypatch):
    """What no list of operations shows: here the compiled function itself treats the last place in another way."""
    compiled = clipped_sums._gradients

    def uneven(params, rows, frozen, *, recorded):
        found = compiled(params, rows, frozen, recorded=recorded)
        return jax.tree.map(lambda leaf: leaf.at[-1].multiply(1 + 2.0**-23) if leaf.dtype == jnp.float32 else leaf, found)

    train_network(run_of(steps=1), loss, start(), data(), microbatch=8, workers=2)
    monkeypatch.setattr(clipped_sums, "_gradients", uneven)
    twice = lambda p, e: 2 * loss(p, e)  # noqa: E731 (what was tested once is not tested again)
    for _ in range(2):
        with pytest.raises(InputError, match="depends on its place in a microbatch of 8"):
            train_network(run_of(steps=1), twice, start(), data(), microbatch=8, workers=2)
    train_network(run_of(steps=1), twice, start(), data(), microbatch=1, workers=2)


@pytest.mark.parametrize("width", [1, 2000])
def test_gradients_of_which_one_in_twenty_depends_on_the_place_are_refused(width, monkeypatch):
    """As where a compiler rounds a product and a sum together at some places only: most numbers are the same either way.

    All of the wide gradient is multiplied with one such number.
    """
    compiled = clipped_sums._gradients

    def rarely_uneven(params, rows, frozen, *, recorded):
        one, *others = compiled(params, rows, frozen, recorded=recorded)
        last = one.values[-1]
        bits = lax.bitcast_convert_type(last, jnp.uint32)
        return [one._replace(values=one.values.at[-1].set(jnp.where(bits % 20 == 0, last * (1 + 2.0**-23), last))), *others]

    monkeypatch.setattr(clipped_sums, "_gradients", rarely_uneven)
    product = lambda p, e: jnp.prod(jnp.sin(e[0]) + p["b"].mean())  # noqa: E731
    with pytest.raises(InputError, match="depends on its place in a microbatch of 8"):
        train_network(run_of(steps=1), product, {"b": np.ones(width, np.float32)}, data(), microbatch=8, workers=2)


def test_gradients_that_depend_on_the_neighbours_are_refused(monkeypatch):
    compiled = clipped_sums._gradients

    def mixed(params, rows, frozen, *, recorded):
        found = compiled(params, rows, frozen, recorded=recorded)
        return jax.tree.map(lambda leaf: leaf + 1e-3 * leaf.sum(0) if leaf.dtype == jnp.float32 else leaf, found)

    monkeypatch.setattr(clipped_sums, "_gradients", mixed)
    with pytest.raises(InputError, match="or on the others"):
        train_network(run_of(steps=1), lambda p, e: 3 * loss(p, e), start(), data(), microbatch=8, workers=2)


def test_examples_that_no_made_up_ones_resemble_do_not_stop_a_run():
    """Logarithms of what is drawn from normal numbers are NaN for half of them; those from 0 to 1 do."""
    positive = lambda p, e: loss(p, (jnp.log(e[0]), e[1]))  # noqa: E731
    result = train_network(run_of(steps=1), positive, start(), (np.abs(data()[0]) + 0.1, data()[1]))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))


@pytest.mark.parametrize("n", [12, 40])
def test_default_microbatches_are_whole_blocks(n):
    """A network on embeddings depended on the place in a microbatch of 12 on some processors."""
    x, y = data(n)
    run = run_of(n=n, sampling=FullBatch(), steps=1)
    params = jax.tree.map(jnp.asarray, start())
    recorded = record(loss, params, (x[0], y[0]))
    summed = clipped_sums.ClippedSums(run, recorded, params, (x, y), lattice_of(run, 20), None, None)
    assert summed.micro % 8 == 0
    assert summed(params, np.arange(n, dtype=np.int32))[-1] == n * lattice_of(run, 20).tally


def asking(*names):
    """An optimizer that wants more than gradients, as line searches do."""
    inner = optax.lbfgs() if "value_fn" in names else optax.contrib.reduce_on_plateau()
    return optax.chain(optax.sgd(0.1), inner)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"optimizer": asking("value_fn")},
            r"needs more than gradients \('value', 'grad', and 'value_fn'\), and a loss .*no lbfgs",
        ),
        ({"optimizer": asking("value")}, "needs more than gradients .* a loss on private records is not to be had without noise"),
        ({"optimizer": optax.polyak_sgd()}, "needs more than gradients"),
        (
            {"optimizer": optax.MultiSteps(optax.sgd(0.1), 4)},
            "MultiSteps, which adds up the noise of small batches: take one batch",
        ),
        ({"optimizer": optax.masked(optax.sgd(0.1), {"w": True})}, "the optimizer does not fit params: ValueError"),
        ({"generator": np.random.default_rng(0)}, "generator is Generator: expected a SecureGenerator"),
        ({"generator": jax.random.key(0)}, "generator is .*: expected a SecureGenerator"),
        (
            {"examples": (data()[0], np.ma.masked_equal(data()[1], data()[1][3]))},
            "the examples have masked entries, which are missing",
        ),
        ({"examples": (data()[0], jax.random.split(jax.random.key(0), 40))}, "examples hold random keys: leave them out; with rng"),
        (
            {"loss": lambda p, e: jnp.mean(e[0] @ p["w"], axis=1).sum()},
            r"at one example, float32\[3\], float32\[\] without a batch",
        ),
        ({"loss": lambda p, e: loss(p, (e[0].reshape(len(e[0]), -1), e[1]))}, "the loss fails at one example, .*: TypeError: dot_"),
        ({"loss": lambda p, e: {}["nothing"]}, "the loss fails at one example, .*: KeyError: 'nothing'"),
        ({"loss": lambda p, e: loss({**p, "b": lax.stop_gradient(p["b"])}, e)}, r"no gradient by params\['b'\].* trainable="),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_with_the_way_out(changes, message):
    arguments = {"loss": loss, "examples": data(), "optimizer": optax.sgd(0.1), **changes}
    with pytest.raises(InputError, match=message) as error:
        train_network(run_with_optimizer(), params=start(), **arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("unit", ["row", "person"])
def test_whose_an_example_is_is_not_asked_of_one_process(unit):
    """Labels that went unused would seem to make persons of several examples."""
    with pytest.raises(InputError, match="groups are for persons as examples on several processes: leave them out"):
        train_network(run_of(unit=unit), loss, start(), data(), groups=[0] * len(data()[1]))


def test_a_loss_without_a_derivative_is_refused():
    with pytest.raises(InputError, match="Reverse-mode"):
        record(lambda p, e: lax.while_loop(lambda x: x > 1, lambda x: x / 2, dense(p, e)), W, E4)


def test_the_error_of_a_loss_is_kept_as_the_cause():
    with pytest.raises(InputError) as error:
        train_network(run_of(), lambda p, e: {}["nothing"], start(), data())
    assert isinstance(error.value.__cause__, KeyError)


def test_steps_that_gather_noisy_gradients_are_post_processing():
    """An accumulating transformation, asked for as such, is an optimizer like others."""
    gathered = optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation()
    assert train_network(run_with_optimizer(steps=4), loss, start(), data(), optimizer=gathered).steps == 4


def test_what_jax_compiles_anew_is_tested_anew(monkeypatch):
    """In another precision of products the compiled functions are others."""
    bits, calls = probes._bits, []
    monkeypatch.setattr(probes, "_bits", lambda *given: calls.append(1) or bits(*given))
    own = lambda p, e: 5 * loss(p, e)  # noqa: E731
    tested = []
    for precision in (None, "float32", None, "float32"):
        calls.clear()
        with jax.default_matmul_precision(precision):
            train_network(run_of(steps=1), own, start(), data(), microbatch=8, workers=2)
        tested.append(bool(calls))
    assert tested == [True, True, False, False]


def test_threads_without_a_setting_of_jax_are_tested_apart_from_the_thread_that_has_it():
    x, y = data()
    run, recorded = run_of(), record(loss, start(), (x[0], y[0]))
    one, two = (clipped_sums.ClippedSums(run, recorded, start(), (x, y), lattice_of(run, 20), 8, workers) for workers in (1, 2))
    try:
        with jax.numpy_rank_promotion("warn"):
            assert one.compiled != two.compiled
    finally:
        two.close()
