"""The page of a certificate: what it says, that nothing in it can do harm, and that nobody's claims are believed."""

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

import dplateau as dp
from dplateau.accounting.attack import accuracy
from dplateau.accounting.enclosure import Enclosure, rounded_up
from dplateau.certificate import Certificate, Label, prove, read_certificate, verify
from dplateau.report import certificate_page, write_page
from dplateau.report.page_figures import epsilon_curve, epsilon_figure
from dplateau.report.page_words import FEW, compared, one_in, run_in_brief
from dplateau.report.trade_off import read_attack
from dplateau.report.words import percent
from dplateau.spec import Generator, InputError, UncertifiedError
from dplateau.spec.assumption import Classes

from ..certificate.forging import claiming, forged

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Reader(HTMLParser):
    """The text of a page as a person sees it, and its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def count(self, tag: str) -> int:
        return sum(one == tag for one, _ in self.elements)


def read(certificate: Certificate) -> Reader:
    return Reader(certificate_page(certificate))


def top(reader: Reader) -> str:
    return reader.text[: reader.text.index("What is protected")]


def test_a_reviewer_reads_what_against_whom_and_on_what_it_rests(certificate):
    reader = read(certificate)
    assert f"epsilon {certificate.epsilon:.5g}"[:12] in top(reader)
    assert "Proved" in top(reader)
    assert "Proved means: if the training happened as described below, no attack does better." in top(reader)
    right = re.search(r"at most ([\d.]+ %) of the time", certificate.statement)
    assert right is not None
    guess = f"can guess correctly whether one particular row was in the data at most {right[1]} of the time"
    assert f"Anyone who sees the model and every noisy step that led to it and knows all the other rows {guess}" in top(reader)
    assert "Whether any particular row was in the data. There are 32,561 rows." in reader.text
    two = accuracy(dp.account(certificate.run, certificate.delta).trade_off.group(2))
    says = f"choose between two versions of it, equally likely beforehand, is right at most {percent(two)} of the time"
    assert two > 0.01 + float(right[1].split()[0]) / 100
    assert says in reader.text
    assert "Delta says by how much a probability may exceed the factor times the other one. It is not how often" in reader.text
    assert "with several rows a person is protected less" in reader.text
    for assumption in certificate.assumptions:
        assert assumption.statement in reader.text
    assert "8 declared by the person who trained" in reader.text
    for row in certificate.bounds:
        assert row.name in reader.text
        assert row.epsilon is not None or (row.why_not or "").startswith("it is for sampling") or row.why_not in reader.text
    assert "dplateau account --run certificate.json" in reader.text
    assert f"In a copy of the source of dplateau {dict(certificate.versions)['dplateau']}" in reader.text
    assert certificate.run_digest in reader.text
    assert certificate.weights_sha256 in reader.text


def test_readings_are_those_of_the_certified_curve_and_never_smaller(certificates):
    certificate = certificates["poisson"]
    reader = read(certificate)
    f = dp.account(certificate.run, certificate.delta).trade_off
    attack = read_attack(f)
    for false, true in attack.detects:
        assert percent(true, 2 if false < 0.01 else 1) in reader.text
    share = percent(dict(attack.detects)[0.01])
    assert f"accepts 1 % false alarms detects a row that is there with a probability of at most {share}" in reader.text
    assert f"correct at most {percent(attack.accuracy)} of the time" in reader.text
    pair = f.group(2)
    assert percent(1 - pair(0.01)) in reader.text
    assert percent(1 - pair(0.01)) > share


def test_replacement_is_about_values(certificates):
    reader = read(certificates["schedules"])
    assert "What any particular row says. There are 6 rows." in reader.text
    assert re.search(r"detects value B with a probability of at most [\d.]+ %", reader.text)
    assert "row was in the data" not in reader.text
    assert "attackers who see more than the final model" in reader.text


def test_delta_is_compared_with_one_divided_by_the_number_of_rows():
    said = [compared(share) for share in (1e-12, 1e-4, 0.033, 0.11, 0.5, 0.9, 1.2, 33.0)]
    assert said[:3] == ["more than a billion times smaller", "about 10,000 times smaller", "about 30 times smaller"]
    assert said[3:] == ["about 9.1 times smaller", "about 2 times smaller", "about as large", "about as large", "33 times as large"]


def test_numbers_keep_their_percent_signs(certificate):
    page = certificate_page(certificate)
    assert re.search(r"\d\N{NO-BREAK SPACE}%", page)
    assert not re.search(r"\d %", page)


def test_figures_hold_the_certified_numbers(certificate):
    page = certificate_page(certificate)
    attack, curve = re.findall(r'<svg class="chart".*?</svg>', page, flags=re.S)
    said = re.findall(r'data-say="([^"]+)"', curve)
    assert said[-1] == f"epsilon {rounded_up(certificate.epsilon)} at delta {one_in(certificate.delta)}"
    told = {
        delta: float(epsilon) for epsilon, delta in (re.fullmatch(r"epsilon (\S+) at delta (.+)", one).groups() for one in said)
    }
    assert all(told[one_in(delta)] >= epsilon.lower for delta, epsilon in certificate.curve)
    assert all(told[one_in(delta)] <= epsilon.upper * 1.00001 for delta, epsilon in certificate.curve)
    f = dp.account(certificate.run, certificate.delta).trade_off
    said = re.findall(r'data-say="([\d.]+)\s% false alarms: detects at most ([\d.]+)\s%"', attack)
    assert len(said) >= 12
    assert all(float(share) / 100 >= 1 - f(float(alarm) / 100) - 1e-12 for alarm, share in said)
    assert attack.count('class="dot"') == 4
    labels = [element["aria-label"] or "" for tag, element in Reader(page).elements if tag == "figure"]
    assert len(labels) == 2
    assert all(len(label) > 60 for label in labels)


def test_the_curve_goes_through_the_chosen_point():
    # Where another bound than those of the profile gives the least epsilon: it holds at all larger deltas, too.
    report = SimpleNamespace(
        delta=1e-11, epsilon=4e-10, profile=lambda deltas: [Enclosure(0.0, 2e-9 if delta < 1e-9 else 1e-9) for delta in deltas]
    )
    curve = dict(epsilon_curve(report))
    assert curve[1e-11] == curve[1e-10] == curve[1e-3] == 4e-10
    assert curve[1e-12] > 1e-9


@pytest.mark.parametrize(
    ("delta", "largest", "title"),
    [
        (1e-6, 5.0, "epsilon, at most"),
        (1e-100, 121_736.0, "epsilon, at most (\N{MULTIPLICATION SIGN} 10⁵)"),
        (1e-30, 1.2e-9, "epsilon, at most (\N{MULTIPLICATION SIGN} 10⁻⁹)"),
    ],
)
def test_ticks_leave_room_for_each_other_and_for_the_title(delta, largest, title):
    curve = [(1e-3, largest / 2), (delta, largest)]
    figure = epsilon_figure(SimpleNamespace(delta=delta, epsilon=largest), curve)
    assert f">{title}<" in figure
    below = [float(x) for x in re.findall(r'class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="(?:start|middle)"', figure)]
    assert 1 <= len(below) <= 6
    assert all(abs(a - b) > 95 for a, b in pairwise(below))
    assert all(len(words) < 5 for words in re.findall(r'text-anchor="end">([^<]+)<', figure))


def test_a_page_is_small(certificates):
    assert all(len(certificate_page(one).encode()) < 150_000 for one in certificates.values())


def test_two_releases_do_not_look_alike(certificate):
    label = Label(model="Income 3", data="Census of 1994", purpose="a <b>demonstration</b>", author="Ada", date="2026-01-31")
    reader = read(certificate.labelled(label))
    for text in ("Income 3", "Census of 1994", "a <b>demonstration</b>", "Ada", "2026-01-31", certificate.weights_sha256[:12]):
        assert text in top(reader)
    assert "not stated" not in reader.text
    assert "are what its maker wrote" in top(reader)
    assert top(read(certificate)).count("not stated") == 4
    assert "Privacy certificate" in top(read(certificate))
    assert "maker" not in top(read(certificate))


@pytest.mark.parametrize(("noise", "word", "side"), [(2e4, "strong", "left"), (3.0, "moderate", "middle"), (0.2, "weak", "right")])
def test_a_strip_says_how_strong_that_is(certify, noise, word, side):
    page = certificate_page(certify(dp.Run(n=1_000, sampling=dp.FullBatch(), steps=1, noise_multiplier=noise), delta=1e-4))
    strip = re.search(rf'aria-label="How strong this is: epsilon (\S+) is {word}\.', page)
    assert strip is not None
    assert f'<span class="{side}">epsilon {strip[1]}</span>' in page


def test_one_certificate_has_one_page(certificate):
    assert certificate_page(certificate) == certificate_page(Certificate.from_json(certificate.to_json()))
    report = dp.account(certificate.run, certificate.delta)
    assert certificate_page(certificate, report) == certificate_page(certificate)


def test_a_report_about_something_else_is_refused(certificate, certificates):
    other = certificates["poisson"].run
    for report in (dp.account(other, certificate.delta), dp.account(certificate.run, 1e-6)):
        with pytest.raises(ValueError, match="another run or delta"):
            certificate_page(certificate, report)


def test_a_fixed_seed_certifies_nothing(seeded):
    reader = read(seeded)
    assert "This certifies nothing" in top(reader)
    assert "The noise came from a fixed seed, and whoever knows the seed can subtract it." in top(reader)
    assert "The numbers were computed again when this page was made and agree with the run" in top(reader)
    assert "(certifies)" not in reader.text
    assert not any((element.get("class") or "") == "verdict good" for _, element in reader.elements)


def test_format_1_has_a_page_that_says_what_it_cannot_know(certificate):
    reader = read(read_certificate(Path(__file__).parents[1] / "certificate" / "format-1" / "secret.json"))
    assert "This certificate has format 1. It was made before the sums of a training were exact" in top(reader)
    assert "does not say which weights it is about" in top(reader)
    assert "Proved" in top(reader)
    assert "5 enforced" in reader.text
    for one in (read(certificate), read(replace(certificate, weights_sha256=None))):
        assert "format 1" not in one.text
    assert "does not say which weights it is about" in top(one)


def test_classes_from_the_records_certify_nothing(certificate):
    made = replace(certificate, assumptions=(*certificate.assumptions, Classes(count=3, declared=False)))
    assert not made.certifies
    assert Certificate.from_json(made.to_json()) == made
    assert verify(made).agrees
    assert not verify(made).certifies
    told = "the classes were taken from the records, and tell without noise that each has a member"
    assert f"This certifies nothing: {told}. Otherwise the same run would cost epsilon" in made.statement
    assert "T" + told[1:] in top(read(made))
    assert "certifies nothing" in " ".join(str(made).split())


def test_guessable_noise_certifies_nothing(certify, certificate):
    reader = read(certify(certificate.run, Generator("torch's generator", "not-cryptographic")))
    assert "This certifies nothing" in top(reader)
    assert "not cryptographic" in top(reader)


def test_a_forgery_is_named_and_its_numbers_are_not_believed(certificate):
    reader = read(forged(certificate, lambda d: claiming(d, 0.01)))
    assert "This certifies nothing" in top(reader)
    assert "differs" in top(reader)
    assert "it claims epsilon 0.01 at delta 1 in 100,000" in top(reader)
    assert "epsilon: 0.01 in the certificate" in top(reader)
    assert "Proved" not in top(reader)
    below = reader.text[len(top(reader)) :]
    assert "0.01 at delta" not in below
    assert f"{certificate.epsilon:.4g}" in below


def test_many_differences_are_counted(certificate):
    def change(data):
        for point in data["curve"]:
            if point["delta"] != certificate.delta:
                point["epsilon"] = [0.0, 1e-3]

    forgery = forged(certificate, change)
    left = len(verify(forgery).differences) - 12
    assert left > 0
    text = read(forgery).text
    assert f"and {left} more entries" in text
    assert "from what follows from its run, though not in epsilon." in text
    assert "it claims epsilon" not in text


def test_text_of_a_forged_file_stays_text(certificate):
    clean = read(certificate)

    def change(data):
        data["bounds"][0].update(name=EVIL, source=EVIL)
        data.update(bound=EVIL, source=EVIL, versions={"dplateau": "0.1.0; rm -rf ~", EVIL: EVIL})

    bad = forged(certificate, change)
    page = certificate_page(replace(bad, generator=Generator(EVIL, "fixed-seed"), arithmetic=EVIL))
    page.encode("utf-8")
    assert EVIL not in page
    assert html.escape(EVIL, quote=False) in page
    reader = Reader(page)
    assert reader.count("img") == 0
    assert reader.count("script") == clean.count("script")
    commands = re.search(r"<pre[^>]*>(# In a copy [^<]*)</pre>", page)
    assert commands is not None
    assert commands[1].splitlines() == [
        "# In a copy of the source of dplateau:",
        "python -m pip install '.[verify]'",
        "dplateau account --run certificate.json",
        "# A second computation, in ball arithmetic:",
        "dplateau verify certificate.json",
    ]


def test_nothing_is_loaded_and_the_policy_says_so(certificate):
    reader = read(certificate)
    assert not [element for _, element in reader.elements if {"src", "srcset", "data"} & element.keys()]
    assert all((element.get("href") or "#").startswith("#") for _, element in reader.elements)
    policy = next(e["content"] for t, e in reader.elements if t == "meta" and e.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    ends = {element["id"] for _, element in reader.elements if "id" in element}
    assert {element["href"][1:] for _, element in reader.elements if element.get("href")} <= ends


def test_several_runs(certify):
    first = dp.Run(n=1_000, sampling=dp.FullBatch(), steps=4, noise_multiplier=200.0)
    second = dp.Run(n=1_000, sampling=dp.Cyclic(100), steps=30, noise_multiplier=200.0)
    reader = read(certify(dp.compose(first, second)))
    assert "all that 2 runs released" in reader.text
    assert "run 2" in reader.text
    assert "Each step adds up the gradients" in reader.text
    assert "Each phase computes" not in reader.text
    many = dp.compose(*[first] * (FEW + 3))
    reader = read(certify(many))
    assert f"run {FEW}" in reader.text
    assert f"run {FEW + 1}" not in reader.text
    assert "and 3 more runs" in reader.text


def test_long_schedules_are_ranges(certify):
    noise = tuple(20.0 + t / 100 for t in range(4_000))
    run = dp.Run(n=8_000, sampling=dp.OnePass(2), steps=4_000, noise_multiplier=noise, released="last", update="post-processed")
    reader = read(certify(run))
    assert "multiplier 20 to 59.99" in reader.text
    assert '"noise_multiplier": "4,000 numbers from 20 to 59.99: the certificate file has them all"' in reader.text
    assert "20.37," not in reader.text
    assert "Anyone who sees the model and knows all the other rows" in reader.text


def test_phases_are_described(certify):
    phases = {"step_size": 1.0, "strong_convexity": 0.0, "update": "phased-erm", "released": "last"}
    run = dp.Run(n=100, sampling=dp.OnePass((50, 25)), steps=2, noise_multiplier=4.0, **phases)
    reader = read(certify(run))
    assert "Each phase computes on rows of its own" in reader.text
    assert "Each step" not in reader.text


def test_short_runs_are_written_out(certificates):
    run = certificates["schedules"].run
    assert json.loads(run_in_brief(run)) == run.to_dict()


@pytest.mark.parametrize(("noise", "little"), [(1e4, False), (0.2, True), (1e-20, True)])
def test_extremes_have_pages_and_a_proof_is_no_praise(certify, noise, little):
    run = dp.Run(n=1_000, sampling=dp.FullBatch(), steps=1, noise_multiplier=noise)
    reader = read(certify(run, delta=1e-4))
    assert ("promises little" in top(reader)) is little
    assert ("100.0 %" in reader.text) is little
    assert not re.search(r"\b(nan|inf|None)\b", reader.text)


@pytest.mark.parametrize("recorded", [False, True])
def test_what_a_second_computation_refutes_is_no_result(certificate, recorded):
    proof = replace(prove(certificate), outcome="refuted")
    reader = Reader(certificate_page(certificate, proof=proof, recorded=recorded))
    assert "This certifies nothing" in top(reader)
    assert "but a second computation refutes them" in top(reader)
    assert "Two computations contradict each other" in top(reader)
    assert "Proved, if trained as described" not in reader.text


def test_a_large_delta_is_warned_of(certify):
    run = dp.Run(n=100, sampling=dp.FullBatch(), steps=1, noise_multiplier=10.0)
    with pytest.warns(dp.PrivacyWarning):
        certificate = certify(run, delta=0.02)
    with pytest.warns(dp.PrivacyWarning):
        reader = read(certificate)
    assert "Delta is too large for 100 rows" in reader.text
    assert {"verdict good", "strength"}.isdisjoint(attributes.get("class") for _, attributes in reader.elements)
    assert "Everything below holds for" not in reader.text


def test_a_run_without_any_bound_has_no_page(certificate):
    nothing = replace(dp.account(certificate.run, certificate.delta), bounds=())
    with pytest.raises(UncertifiedError, match="no proved bound"):
        certificate_page(certificate, nothing)


def test_deltas_in_words():
    assert [one_in(delta) for delta in (1e-5, 0.5, 3e-6, 1e-300)] == ["1 in 100,000", "1 in 2", "about 1 in 333,333", "1e-300"]


def test_written_whole_or_not_at_all(certificate, seeded, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("what was there before")
    verdict = write_page(certificate, path)
    assert verdict == verify(certificate)
    assert path.read_text(encoding="utf-8") == certificate_page(certificate)
    assert not write_page(seeded, path).certifies
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("page.txt", r"does not end in \.html"), ("no/page.html", "is not a folder"), ("folder.html", "it is a folder")],
)
def test_bad_paths(certificate, tmp_path, name, message):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=message):
        write_page(certificate, tmp_path / name)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_page_for_persons_says_persons(adjacency):
    from dplateau.certificate import DeclaredTraining, make_certificate
    from dplateau.spec.assumption import Arithmetic, Batches, Clipping, Divisor, Features, Noise, Persons, PublicConstants, Steps

    run = dp.Run(n=500, sampling=dp.FullBatch(), steps=3, noise_multiplier=20.0, adjacency=adjacency, unit="person")
    facts = (PublicConstants(), Batches(scheme="full"), Clipping(clip_norm=1.0), Divisor(), Features(), Noise(grid=False), Steps())
    given = (*facts, Arithmetic(rounding="ignored"))
    source = Generator("AES-256-CTR", "operating-system")
    report = dp.account(run, 1e-4)
    with pytest.raises(InputError, match="'persons' is missing"):
        make_certificate(report, DeclaredTraining(run, given, source))
    text = read(make_certificate(report, DeclaredTraining(run, (*given, Persons()), source))).text
    assert "The unit is a person: all rows with that person's label together" in text
    assert "People who belong together" in text
    assert "Several people together" in text
    assert "all rows of a person have one label, and no two persons share one" in text
    for wrong in (
        "The unit is a row",
        "any one row",
        "one row",
        "number of rows",
        "several rows",
        "the other rows",
        "particular row",
    ):
        assert wrong not in text
