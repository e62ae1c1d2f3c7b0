"""Labels of charts cover neither each other nor the edge, however strong or weak a guarantee is."""

import re
from itertools import combinations, pairwise

import pytest

import dplateau as dp
from dplateau.accounting.attack import RATES
from dplateau.report import page_figures as figures
from dplateau.report.labels import Box, Wanted, labels
from dplateau.report.svg import HEIGHT, WIDTH
from dplateau.report.trade_off import detected, read_attack

LETTER = 7.0


def boxes(svg):
    """What the labels of a chart cover, about."""
    for x, y, anchor, words in re.findall(
        r'<text class="(?:value|name|quiet-name)" x="(.*?)" y="(.*?)" text-anchor="(.*?)">(.*?)<', svg
    ):
        width = LETTER * len(words)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        yield Box(left, float(y) - 11, left + width, float(y) + 2)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5, 1, 2, 3, 4, 6, 8, 9, 12, 16, 20, 40])
def test_labels_of_the_attackers_figure_are_apart(epsilon):
    run = dp.Run(n=30_000, sampling=dp.FullBatch(), steps=400, noise_multiplier=50.0)
    report = dp.account(dp.calibrate(run, epsilon=epsilon, delta=1e-6), 1e-6)
    drawn = str(figures.attack_figure(report.trade_off, read_attack(report.trade_off), detected(report.trade_off, RATES)))
    found = list(boxes(drawn))
    assert len(found) == 6
    assert all(one.left >= 55 and one.top >= 0 and one.right <= WIDTH and one.bottom <= HEIGHT - 48 for one in found)
    assert max(one.shared(other) for one, other in combinations(found, 2)) < 30  # a tenth of a short one


@pytest.mark.parametrize("mu", [0.05, 0.2367, 0.25, 0.5, 1.0, 2.0])
def test_no_label_lies_on_the_curve(mu):
    run = dp.Run(n=30_000, sampling=dp.FullBatch(), steps=1, noise_multiplier=1 / mu)
    report = dp.account(run, 1e-6)
    drawn = str(figures.attack_figure(report.trade_off, read_attack(report.trade_off), detected(report.trade_off, RATES)))
    (path,) = re.findall(r'<path class="main-line" d="M?([^"]+)"', drawn)
    corners = [tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+)[ ,](-?[\d.]+)", path)]
    assert len(corners) > 10
    line = [(a + (c - a) * k / 20, b + (d - b) * k / 20) for (a, b), (c, d) in pairwise(corners) for k in range(21)]
    assert not [one for one in boxes(drawn) if any(map(one.has, line))]


def test_a_label_leaves_a_line_and_the_labels_before_it_alone():
    frame = Box(0, 0, 300, 200)
    first, second = labels([Wanted([(150, 100)], "one"), Wanted([(150, 100)], "two")], [], frame)
    assert (first.x, first.y, first.anchor) == (142, 92, "end")
    assert (second.x, second.y) != (first.x, first.y)
    (below,) = labels([Wanted([(150, 100)], "one", below=True)], [], frame)
    assert below.y > 100
    (turned,) = labels([Wanted([(150, 100)], "one")], [(x, 90) for x in range(100, 151, 5)], frame)
    assert turned.anchor == "start"
    (inside,) = labels([Wanted([(3, 3)], "one")], [], frame)
    assert inside.x > 3
    assert inside.y > 3
