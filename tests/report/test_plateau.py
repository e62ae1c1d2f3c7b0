from __future__ import annotations

import io
import json
import math
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

import dplateau as dp
from dplateau.report.picture import check_picture, new_picture
from dplateau.report.plateau import Line, Plateau, first_steps, plateau, step_numbers
from dplateau.report.plateau_picture import plot_plateau
from dplateau.spec import InputError, PrivacyWarning, UncertifiedError

CYCLIC = dp.Run(
    n=600,
    sampling=dp.Cyclic(100),
    steps=600,
    noise_multiplier=8.0,
    step_size=0.5,
    smoothness=1.0,
    strong_convexity=0.1,
    adjacency="replace",
    released="last",
)
SGD = dp.Run(n=1000, sampling=dp.Poisson(50), steps=100, noise_multiplier=4.0)


def lines(**epsilons: tuple[float, ...]) -> Plateau:
    """A plateau made by hand; a name's first letter is its status."""
    status = {"p": "Proved", "a": "Asymptotic", "c": "Conjectured", "r": "Refuted"}
    found = tuple(Line(name, status[name[0]], values) for name, values in epsilons.items())
    return Plateau(CYCLIC, 1e-5, tuple(10**k for k in range(len(found[0].epsilons))), found)


def test_every_value_is_what_account_says() -> None:
    found = plateau(CYCLIC, 1e-4, [6, 60, 600])
    for number, certified in zip(found.steps, found.certified, strict=True):
        report = dp.account(CYCLIC.replace(steps=number), 1e-4)
        assert certified == report.epsilon
        rows = {row.name: row.epsilon.upper for row in report.bounds if row.epsilon is not None}
        for line in found.lines:
            assert line.epsilons[found.steps.index(number)] == rows.get(line.name, math.inf)
    assert {"exact-composition", "fixed-order"} <= {line.name for line in found.lines}
    assert not {"renyi-composition", "moments-accountant"} & {line.name for line in found.lines}
    everything = {line.name for line in plateau(CYCLIC, 1e-4, [6, 60], dominated=True).lines}
    assert {"renyi-composition", "moments-accountant", "fixed-order"} <= everything


def test_the_plateau_is_found_and_composition_has_none() -> None:
    found = plateau(CYCLIC)
    assert found.begins is not None
    assert 12 <= found.begins <= 200  # a record is forgotten within about 1/(eta m) = 20 steps
    last = found.certified[-1]
    assert all(abs(value - last) <= 0.01 * last for value in found.certified[found.steps.index(found.begins) :])
    assert plateau(CYCLIC.replace(released="all")).begins is None


def test_first_epochs_that_hardly_cost_anything_are_no_plateau() -> None:
    # The last use alone costs 4.38; each of 1,000 epochs before it as much as 1/1,000 of it.
    run = dp.Run(
        n=10_000,
        sampling=dp.Cyclic(10),
        steps=2_000,
        noise_multiplier=1.0,
        step_size=1.0,
        smoothness=1.0,
        strong_convexity=0.0,
        released="last",
    )
    for diameter in (None, 1e3):
        found = plateau(run.replace(diameter=diameter), 1e-5)
        assert found.certified[-1] < 1.01 * found.certified[0]
        assert found.beyond is not None
        assert found.beyond > 2 * found.certified[-1]
        assert found.begins is None


def test_where_a_plateau_begins() -> None:
    assert lines(p=(1.0, 2.0, 3.0, 3.0, 3.0)).begins == 100
    assert lines(p=(3.0, 2.985, 3.01, 3.0, 3.0)).begins == 1
    assert lines(p=(1.0, 2.0, 3.0, 4.0, 5.0)).begins is None
    assert lines(p=(3.0, 3.0, math.inf)).begins is None
    assert lines(p=(1.0, 2.0, 3.0), r=(1.0, 1.0, 1.0)).begins is None
    assert lines(r=(1.0, 1.0, 1.0)).begins is None


def test_only_proved_bounds_certify() -> None:
    found = lines(p=(3.0, math.inf), p2=(4.0, 5.0), r=(0.1, 0.1), a=(0.2, 0.2), c=(0.3, 0.3))
    assert found.certified == (3.0, 5.0)
    assert lines(r=(1.0,)).certified == (math.inf,)


@pytest.mark.parametrize(
    ("run", "to", "first", "last", "unit"),
    [
        (SGD, None, 1, 400, 1),
        (SGD, 7, 1, 7, 1),
        (CYCLIC, None, 6, 2400, 6),
        (CYCLIC, 100, 6, 96, 6),
        (CYCLIC, 5, 1, 5, 1),
        (SGD.replace(sampling=dp.OnePass(4)), None, 1, 250, 1),
        (SGD.replace(noise_multiplier=(4.0,) * 100), None, 1, 100, 1),
        (SGD.replace(steps=1), 1, 1, 1, 1),
        (SGD.replace(steps=2**63), None, 1, 2**65, 1),
    ],
)
def test_numbers_of_steps(run: dp.Run, to: int | None, first: int, last: int, unit: int) -> None:
    numbers = step_numbers(run, to)
    assert (numbers[0], numbers[-1]) == (first, last)
    assert list(numbers) == sorted(set(numbers))
    assert all(number % unit == 0 for number in numbers)
    assert len(numbers) <= 41
    assert run.steps in numbers or run.steps > last
    assert plateau(run, steps=numbers[:1]).steps == numbers[:1]


def test_schedules_are_cut() -> None:
    sizes, z, eta = (10.0, 20.0, 30.0), (3.0, 4.0, 5.0), (0.1, 0.2, 0.3)
    run = dp.Run(n=100, sampling=dp.Poisson(sizes), steps=3, noise_multiplier=z, step_size=eta)
    assert first_steps(run, 2) == run.replace(sampling=dp.Poisson(sizes[:2]), steps=2, noise_multiplier=z[:2], step_size=eta[:2])
    assert first_steps(run, 3) == run
    with pytest.raises(InputError, match=r"noise_multiplier and step_size and batch_size has one value.*at most 3"):
        plateau(run, steps=[2, 4])
    epoch = dp.Run(n=6, sampling=dp.Cyclic((1, 2, 3)), steps=3, noise_multiplier=40.0)
    assert first_steps(epoch, 9).sampling == epoch.sampling


def test_what_cannot_be_asked() -> None:
    for steps, says in (([], "steps is empty"), ([0], "steps is 0"), ([2.5], "steps is 2.5")):
        with pytest.raises(InputError, match=says):
            plateau(SGD, steps=steps)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="delta is 1"):
        plateau(SGD, 1.0)
    with pytest.raises(InputError, match="to is 0"):
        step_numbers(SGD, 0)
    with pytest.warns(PrivacyWarning, match="at least 1/n") as caught:
        plateau(SGD, 0.01, [1, 2, 3])
    assert len(caught) == 1


def test_json() -> None:
    found = lines(p=(1.0, math.inf), r=(0.5, 0.5))
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(data) == ["delta", "begins", "steps", "certified", "analyses", "run"]
    assert data["certified"] == [1.0, None]
    assert data["analyses"][1] == {"name": "r", "status": "Refuted", "epsilons": [0.5, 0.5]}
    assert dp.Run.from_dict(data["run"]) == CYCLIC


def test_the_picture_tells_proved_from_the_rest() -> None:
    pytest.importorskip("matplotlib")
    found = lines(p1=(1.0, 2.0, 3.0), p2=(1.5, 2.0, math.inf), r=(0.5, 0.5, 0.5), a=(1.0, 1.5, 2.0), c=(1.0, 1.0, 1.0))
    (axes,) = plot_plateau(found).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    band, p1, p2, *others = axes.lines
    assert list(band.get_ydata()) == [1.0, 2.0, 3.0]
    assert band.get_linewidth() > p1.get_linewidth() > max(line.get_linewidth() for line in others)
    assert {line.get_linestyle() for line in (p1, p2)} == {"-"}
    dashes = [tuple(line._unscaled_dash_pattern[1]) for line in others]  # type: ignore[attr-defined]
    assert len(set(dashes)) == 3
    assert len({(line.get_color(), line.get_marker()) for line in (p1, p2)}) == 2
    assert math.isnan(p2.get_ydata()[-1])
    texts = [text.get_text() for text in axes.texts]
    for label in ("p1  3", "p2  2 at 10", "r (Refuted)  0.5", "a (Asymptotic)  2", "c (Conjectured)  1"):
        assert label in texts
    bold = [text.get_text() for text in axes.texts if text.get_fontweight() == "bold"]
    assert bold == ["p1  3"]


def test_no_two_names_overlap() -> None:
    text_only = pytest.importorskip("matplotlib.text").Text.get_window_extent  # an annotation's own extent has its line in it
    found = lines(**{f"p{k}": (1.0, 2.0, 3.0 + k / 1000) for k in range(20)})
    figure = plot_plateau(found)
    (axes,) = figure.axes
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    boxes = sorted((text_only(text) for text in axes.texts), key=lambda box: box.y0)
    assert len(boxes) >= 20
    assert all(below.y1 <= above.y0 for below, above in pairwise(boxes))
    assert boxes[0].y0 >= 0
    assert boxes[-1].y1 <= figure.bbox.y1
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_huge_epsilons_leave_room_for_lines() -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_plateau(lines(p=(1.0, 999.4, 1e5, 6e98))).axes
    assert [text.get_text() for text in axes.texts] == ["p  6e+98"]


def test_the_beginning_is_named() -> None:
    pytest.importorskip("matplotlib")
    (axes,) = plot_plateau(lines(p=(1.0, 2.0, 3.0, 3.0, 3.0, 3.0))).axes
    assert [text.get_text() for text in axes.texts if "plateau" in text.get_text()] == ["plateau from about\n100 steps on"]
    (axes,) = plot_plateau(lines(p=(1.0, 2.0, 3.0))).axes
    assert not [text for text in axes.texts if "plateau" in text.get_text()]


def test_what_cannot_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(UncertifiedError, match="no proved bound"):
        plot_plateau(lines(r=(1.0, 2.0)))
    with pytest.raises(InputError, match="every epsilon is 0"):
        plot_plateau(lines(p=(0.0, 0.0)))
    plot_plateau(lines(p=(0.0, 1.0), p2=(0.0, 0.0)))
    plot_plateau(lines(p=(1.0,)))


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("SVG", b"<?xml")])
def test_files_are_whole_and_the_same_twice(tmp_path, kind, start) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for path in paths:
        plot_plateau(lines(p=(1.0, 2.0, 3.0)), path)
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


@pytest.mark.parametrize(
    ("name", "says"), [("a.jpg", "does not end in"), ("a", "does not end in"), ("no/a.png", "is not a folder"), (".", "not end")]
)
def test_files_that_cannot_be(tmp_path, monkeypatch, name, says) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        plot_plateau(lines(p=(1.0, 2.0)), name)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        check_picture("folder.png")


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        plot_plateau(lines(p=(1.0, 2.0)), path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib(monkeypatch) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install '\.\[plots\]'"):
        plot_plateau(lines(p=(1.0, 2.0)))
    assert plateau(SGD, steps=[1]).certified[0] > 0


def test_a_plateau_can_be_put_together_from_several_runs() -> None:
    pytest.importorskip("matplotlib")
    one = plateau(CYCLIC, steps=[6, 600])
    both = replace(one, lines=(Line("last", "Proved", one.certified), Line("all", "Proved", (1.0, 9.0))))
    assert both.certified[0] == min(one.certified[0], 1.0)
    assert len(plot_plateau(both).axes[0].lines) == 3


def test_a_picture_that_fails_is_not_written(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "half.svg"
    with pytest.raises(ZeroDivisionError), new_picture(path, (1.0, 1.0)):
        _ = 1 / 0
    assert not list(tmp_path.iterdir())
    with new_picture(path, (1.0, 1.0)) as figure:
        figure.add_axes((0.1, 0.1, 0.8, 0.8))
    assert path.read_text().startswith("<?xml")
    with pytest.raises(InputError, match="does not end in"), new_picture(tmp_path / "picture.doc", (1.0, 1.0)):
        pytest.fail("nothing is drawn for a file that cannot be written")
