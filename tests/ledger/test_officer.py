"""A data protection officer's day: two teams, one data set, one budget, the command line; and what the ledger tells afterwards."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from html import unescape

import pytest

import dplateau as dp
from dplateau.data import sample_path

TRAINED = (("north", 0.8, 40, "who earns more"), ("south", 1.0, 40, "a second opinion"), ("north", 0.5, 60, "who earns more"))


def test_the_story(tmp_path, dplateau):
    """One test, so that its trainings run once."""
    ledger, folder, said = played(tmp_path / "officer")
    state, entries = ledger.history("adult")
    ends = {entry.reservation: entry for entry in entries if entry.kind == "committed"}
    trainings = [(entry, ends.get(entry.number)) for entry in entries if entry.kind == "reserved"]
    the_budget_covers_all_and_what_was_refused_left_no_trace(ledger, state, trainings, folder, said)
    the_killed_training_stays_spent(trainings)
    the_terminal_tells_it(ledger, dplateau)
    the_exports_tell_it(ledger, trainings, folder, dplateau, tmp_path)
    the_page_tells_it(ledger, state, trainings)


def played(folder):
    """The ledger, its folder, and what the refused training said: five trainings were tried, one was refused and one killed."""
    folder.mkdir()
    url = f"sqlite:///{folder}/privacy.db"

    def dplateau(team, *arguments):
        command = [sys.executable, "-m", "dplateau", *map(str, arguments)]
        environment = {**os.environ, "LOGNAME": team}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def train(team, epsilon, steps, purpose, name):
        options = ("--schema", "adult", "--epsilon", epsilon, "--steps", steps, "--output", folder / name)
        return dplateau(
            team, "train", sample_path("adult-train"), *options, "--ledger", url, "--dataset", "adult", "--purpose", purpose
        )

    opened = dplateau("officer", "ledger", "create", "adult", "--n", 32561, "--epsilon", 3, "--delta", 1e-6, "--ledger", url)
    assert opened.communicate()[1] == ""
    for k, (team, epsilon, steps, purpose) in enumerate(TRAINED):
        done = train(team, epsilon, steps, purpose, f"model{k}")
        assert (done.communicate()[1], done.returncode) == ("", 0)
    ledger = dp.Ledger(url)
    account, before = ledger.account("adult"), ledger.head()
    refused = train("south", 3, 40, "as good as can be", "refused")
    said = refused.communicate()[1]
    assert refused.returncode == 2
    assert ledger.head() == before
    killed = train("south", 0.7, 1_000_000, "a long one", "killed")
    try:
        deadline = time.monotonic() + 120
        while account.state().reserved < 4 and killed.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    return ledger, folder, said


def one_line(text):
    return re.sub(r"\s+", " ", text)


def the_budget_covers_all_and_what_was_refused_left_no_trace(ledger, state, trainings, folder, said):
    assert said.count("\n") == 1
    assert "nothing was reserved. What would fit: noise_multiplier" in said
    assert (state.reserved, state.committed) == (4, 3)
    assert state.left == pytest.approx(1 - sum(entry.cost for entry, _ in trainings) / state.budget)
    assert [entry.who for entry, _ in trainings] == ["north", "south", "north", "south"]
    assert "as good as can be" not in "".join(entry.body for entry in ledger.entries())
    assert sorted(one.name for one in folder.iterdir()) == [".killed.lock", "model0", "model1", "model2", "privacy.db"]


def the_killed_training_stays_spent(trainings):
    killed, end = trainings[-1]
    assert (killed.data["purpose"], end) == ("a long one", None)
    assert killed.cost > 0


def the_terminal_tells_it(ledger, dplateau):
    code, out, err = dplateau("ledger", "show", "adult", "--ledger", ledger.url)
    assert (code, err) == (0, "")
    said = one_line(out)
    assert "4 reserved, 3 of them committed" in said
    for _, _, steps, purpose in TRAINED:
        assert f"reserved: {steps} steps; {purpose}" in said
    assert "a long one" in said
    assert said.count("with a certificate") == 3
    code, out, err = dplateau("ledger", "verify", "--costs", "--ledger", ledger.url)
    assert (code, err) == (0, "")
    assert "all 8 entries follow from each other, and their sums are right" in out


def the_exports_tell_it(ledger, trainings, folder, dplateau, tmp_path):
    for kind in ("csv", "json"):
        assert dplateau("ledger", "export", "adult", f"--{kind}", "--output", tmp_path / kind, "--ledger", ledger.url)[0] == 0
    rows = list(csv.DictReader((tmp_path / "csv").open()))
    entries = json.loads((tmp_path / "json").read_text())["entries"]
    assert [row["kind"] for row in rows] == [entry["kind"] for entry in entries]
    assert [float(row["cost"]) for row in rows if row["cost"]] == [entry.cost for entry, _ in trainings]
    for k, (_, end) in enumerate(trainings[:-1]):  # each certificate is that of its training
        certificate = folder / f"model{k}" / "certificate.json"
        assert dp.certificate.read_certificate(certificate).weights_sha256 == end.data["weights_sha256"]


def the_page_tells_it(ledger, state, trainings):
    pytest.importorskip("starlette")
    pytest.importorskip("httpx2")
    from starlette.testclient import TestClient

    from dplateau.report.ledger_words import percent_down, percent_up
    from dplateau.ui.app import application

    client = TestClient(application(ledger), base_url="http://127.0.0.1:8337")
    page = client.get("/ledger/adult").text
    said = one_line(unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.S)))
    assert f"{percent_down(state.left)} of the budget is left" in said
    first, second, third, killed = (entry.cost / state.budget for entry, _ in trainings)
    assert f"north who earns more {percent_up(first + third)} 2 " in said
    assert f"south a second opinion {percent_up(second)} 1 " in said
    assert f"south a long one {percent_up(killed)} 1 1 not ended" in said
    assert "1 of 4 did not end: reserved, and never committed" in said
    assert "a long one 1,000,000 steps not ended: reserved, and stays spent" in said
    assert "as good as can be" not in said
    for _, end in trainings[:-1]:
        assert end.data["certificate_sha256"] in said
