"""The command and the Python that find the noise of the page again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dplateau.spec import Run
from dplateau.ui.settings import Settings

_DEFAULTS = {field.name: field.default for field in fields(Run)}
_OPTIONS = ("clip_norm", "step_size", "smoothness", "strong_convexity", "l2", "diameter", "adjacency", "released")


def _stated(run: Run) -> dict[str, Any]:
    """What differs from the defaults of ``Run``."""
    return {name: getattr(run, name) for name in _OPTIONS if getattr(run, name) != _DEFAULTS[name]}


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(_plain(value))


def _size(run: Run) -> int:
    return int(run.sampling.batch_size)  # type: ignore[attr-defined]


def command(run: Run, epsilon: float, delta: float) -> str:
    """``dplateau calibrate`` for the run, on one line."""
    parts = [f"--n {run.n}", f"--sampling {run.sampling.kind}"]
    if not run.is_full_batch:
        parts.append(f"--batch-size {_size(run)}")
    parts.append(f"--steps {run.steps}")
    parts += [f"--{name.replace('_', '-')} {_plain(value)}" for name, value in _stated(run).items()]
    return f"dplateau calibrate --epsilon {epsilon:.12g} --delta {delta:.12g} {' '.join(parts)}"


def train_command(settings: Settings, run: Run) -> str | None:
    """``dplateau train`` where one of its solvers makes such steps; it plans them itself, for the same epsilon."""
    if not settings.convex or not (run.is_full_batch or run.sampling.once):
        return None
    l2 = f" --l2 {settings.l2:.12g}" if settings.shrunk else ""
    other = "" if run.adjacency == "add-remove" else f" --adjacency {run.adjacency}"
    cost = f"--epsilon {settings.epsilon:.12g} --delta {settings.delta:.12g}{other}"
    how = "--solver pnsgd --stream" if run.sampling.once else f"--solver {_full_batch_solver(run)} --steps {run.steps}"
    return f"dplateau train ROWS --schema SCHEMA {cost} {how}{l2}"


def _full_batch_solver(run: Run) -> str:
    """Langevin steps release the last iterate of a strongly convex loss; the other solver counts on composition."""
    return "dp-sgld" if run.released == "last" and run.l2 else "noisy-sgd"


def python(settings: Settings, run: Run) -> str:
    """Python that finds the noise, with the lines that would train."""
    batch = "" if run.is_full_batch else f"batch_size={_size(run)}"
    stated = [f"    {name}={_literal(value)}," for name, value in _stated(run).items()]
    stated += [] if settings.convex else ['    update="post-processed",']
    lines = [
        "import dplateau as dp",
        "",
        "run = dp.Run(",
        f"    n={run.n},",
        f"    sampling=dp.{type(run.sampling).__name__}({batch}),",
        f"    steps={run.steps},",
        "    noise_multiplier=1.0,  # to be found",
        *stated,
        ")",
        f"run = dp.calibrate(run, epsilon={settings.epsilon:.12g}, delta={settings.delta:.12g})",
        "print(run.noise_multiplier)",
    ]
    if settings.convex:
        rest = [f"l2={settings.l2}"] if settings.shrunk else []
        rest += ['dtype="float64"'] if run.released == "last" else []
        options = "".join(f", {one}" for one in rest)
        lines += [
            "",
            "# To train with it, on rows of norm at most 1 and targets 0 and 1:",
            "# from dplateau.losses import Logistic",
            "# from dplateau.training import train",
            f"# weights = train(run, Logistic(), features, target{options}).weights",
        ]
    else:
        lines += [
            "",
            "# To train a network with it, whose loss(params, example) is of one example:",
            "# from dplateau.networks import noisy_sgd, train_network",
            "# params = train_network(run, loss, params, examples, optimizer=noisy_sgd(1.0)).params",
        ]
    return "\n".join(lines) + "\n"
