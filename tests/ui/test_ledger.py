"""The ledger's pages: they say what the ledger says, escape what others wrote, and write nothing."""

import asyncio
import csv
import io
import re
import sqlite3
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
pytest.importorskip("sqlalchemy")
from starlette.testclient import TestClient

import dplateau as dp
from dplateau.filter import cost_of
from dplateau.ledger import book, database
from dplateau.report.ledger_words import percent_down, percent_up
from dplateau.ui.answer import planned
from dplateau.ui.app import POLICY, application
from dplateau.ui.settings import Settings

from ..cli.test_report import SECRET, SEEDED, certified

RUN = dp.Run(n=1000, sampling=dp.FullBatch(), steps=3, noise_multiplier=20.0, unit="person")
PLAN = Settings(n=1000, epochs=50, epsilon=0.5, delta=1e-6)
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


@pytest.fixture
def ledger(tmp_path):
    found = dp.Ledger(f"sqlite:///{tmp_path}/privacy.db")
    found.create("patients", n=1000, epsilon=2.0, delta=1e-6, unit="person")
    return found


@pytest.fixture
def client(ledger):
    return TestClient(application(ledger), base_url="http://127.0.0.1:8337")


@pytest.fixture
def north(ledger):
    return ledger.account("patients", who="north", purpose="readmissions")


def test_a_training_whose_certificate_certifies_nothing_is_told(ledger, client, dplateau):
    ledger.create("rows", n=10_000, epsilon=2.0, delta=1e-6)
    for generator, void in ((SECRET, False), (SEEDED, True)):
        certificate = certified(generator)
        ledger.account("rows").reserve(certificate.run).commit(certificate)
        _, out, _ = dplateau("ledger", "show", "rows", "--ledger", ledger.url)
        assert "with a certificate" in " ".join(out.split())
        assert ("which certifies nothing" in " ".join(out.split())) == void
        assert ("That leaves out 1 of them" in shown(client.get("/ledger/rows"))) == void


def shown(reply):
    """The text of a page, as a person reads it."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", reply.text, flags=re.S)))


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def bars(reply):
    """Who took what, in the picture of the budget."""
    rectangles = [one for tag, one in Tags(reply.text).found if tag == "rect" and "y" in one]
    return [one for one in rectangles if re.match(r"series-|quiet", one["class"])]


def width(rectangle):
    return float(rectangle["width"].rstrip("%"))


def ask(client, account="patients", settings=PLAN, **more):
    return client.get("/forecast", params={**settings.to_query(), "account": account, **more})


def test_all_accounts(client, ledger):
    ledger.create("visits", n=50, epsilon=1.0, delta=1e-3, adjacency="replace")
    ledger.close("visits")
    ledger.account("patients").reserve(RUN).commit()
    reply = client.get("/ledger")
    assert reply.status_code == 200
    said = shown(reply)
    left = percent_down(ledger.account("patients").state().left)
    assert f"patients {left} epsilon 2 at delta 1 in 1,000,000 one person among 1,000 1" in said
    assert "visits closed 100 % epsilon 1 at delta 1 in 1,000 one row among 50 0" in said
    assert "not ended" not in said
    ledger.account("patients").reserve(RUN)
    assert "one person among 1,000 2 1 not ended" in shown(client.get("/ledger"))
    assert f"{ledger.head().number}:{ledger.head().digest}" in shown(client.get("/ledger"))
    assert client.get("/ledger.json").json()["entries"][-1]["digest"] == ledger.head().digest


def test_an_empty_ledger(tmp_path):
    ledger = dp.Ledger(f"sqlite:///{tmp_path}/new.db")
    ledger.upgrade()
    client = TestClient(application(ledger), base_url="http://127.0.0.1:8337")
    assert "has no account yet" in shown(client.get("/ledger"))
    assert client.get("/").status_code == 200
    ledger.create("patients", n=10, epsilon=1.0, delta=1e-3)
    assert "Nobody has reserved anything yet." in shown(client.get("/ledger/patients"))


def test_an_account_agrees_with_show(client, ledger, north, dplateau):
    north.reserve(RUN).commit()
    north.reserve(RUN.replace(noise_multiplier=30.0))
    ledger.account("patients", who="south", purpose="length of stay").reserve(dp.compose(RUN, RUN)).commit()
    said = shown(client.get("/ledger/patients"))
    code, out, _ = dplateau("ledger", "show", "patients", "--ledger", ledger.url)
    assert code == 0
    out = re.sub(r"\s+", " ", out)
    assert said.count(out.split()[1] + " %") >= 2  # what is left
    for cost in re.findall(r"[\d.]+ % (?=\d+ \d{4}-|$)", out.strip() + " "):
        assert cost.strip() in said
    for fact in ("one person added or removed, among 1,000", "3 reserved, 2 of them committed"):
        assert fact in out
        assert fact in said
    state = ledger.account("patients").state()
    costs = [cost_of(one, state.order) / state.budget for one in (RUN, RUN.replace(noise_multiplier=30.0))]
    assert f"north readmissions {percent_up(sum(costs))} 2 1 not ended" in said
    assert "1 of 3 did not end: reserved, and never committed" in said
    assert said.count("not ended: reserved, and stays spent") == 1
    assert "2 runs, 6 steps" in said


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"unit": "person"}, "whether one particular person was in the data at most 88.1 % of the time"),
        (
            {"adjacency": "replace", "epsilon": 0.5},
            "which of two values, A or B, one particular row had at most 62.3 % of the time",
        ),
        ({"unit": "household", "epsilon": 1.0}, "what is said about one household at most 73.2 % of the time"),
    ],
)
def test_what_a_budget_means(client, ledger, terms, sentence):
    """1 / (1 + exp(-epsilon)), rounded up: 0.88080 at epsilon 2, 0.62246 at 0.5, 0.73106 at 1."""
    ledger.create("other", **{"n": 1000, "epsilon": 2.0, "delta": 1e-6, **terms})
    assert sentence in shown(client.get("/ledger/other"))


def test_digests_of_a_certificate_are_there(client, ledger, north):
    from dplateau.estimators import PrivateLogisticRegression

    rows = np.random.default_rng(0).normal(size=(1000, 2)) / 4
    options = {"classes": [False, True], "max_iter": 5, "ledger": north}
    PrivateLogisticRegression(epsilon=0.3, delta=1e-6, **options).fit(rows, rows[:, 0] > 0, groups=np.arange(1000))
    north.reserve(RUN).commit()
    said = shown(client.get("/ledger/patients"))
    certified, plain = (entry.data for entry in ledger.entries("patients") if entry.kind == "committed")
    assert f"certificate: sha256 {certified['certificate_sha256']}" in said
    assert f"weights: sha256 {certified['weights_sha256']}" in said
    assert (plain, said.count("without a certificate")) == ({}, 1)
    assert "certifies nothing" not in said


def test_parts_take_what_the_largest_takes(client, ledger, north):
    for part in ("east", "west"):
        north.reserve(RUN.replace(n=400), part=("hospitals", part))
    state = ledger.account("patients").state()
    once = percent_up(state.parts[0][2])
    said = shown(client.get("/ledger/patients"))
    assert f"north readmissions {percent_up(state.spent / state.budget)} {percent_up(2 * state.parts[0][2])} 2" in said
    assert f"hospitals east {once} hospitals west {once}" in said
    assert "3 steps; hospitals: west" in said
    assert sum(map(width, bars(client.get("/ledger/patients")))) == pytest.approx(100 * (1 - state.left), abs=1e-3)


def test_the_picture_adds_up(client, ledger):
    for k in range(7):
        ledger.account("patients", who=f"team {k}").reserve(RUN.replace(noise_multiplier=20.0 + k))
    reply = client.get("/ledger/patients")
    state = ledger.account("patients").state()
    assert len(bars(reply)) == 5
    assert sum(map(width, bars(reply))) == pytest.approx(100 * (1 - state.left), abs=1e-3)
    assert "3 others" in shown(reply)


def test_what_others_wrote_is_escaped(client, ledger):
    name = "<b>&'\"/../ä ?#%"
    ledger.create(name, n=1000, epsilon=2.0, delta=1e-6, unit=EVIL[:100], n_is=EVIL)
    account = ledger.account(name, who=EVIL, purpose=EVIL)
    account.reserve(RUN.replace(n=10), part=(EVIL, EVIL)).commit()
    for path in ("/", "/ledger", f"/ledger/{quote(name, safe='')}", f"/ledger?account={quote(name)}", f"/ledger/{quote(EVIL)}"):
        reply = client.get(path)
        tags = Tags(reply.text).found
        assert all("src" in one for tag, one in tags if tag == "script")
        assert not [tag for tag, _ in tags if tag in ("img", "b")]
        assert not [key for _, one in tags for key in one if key.startswith("on")]
        assert reply.headers["content-security-policy"] == POLICY
    said = shown(client.get(f"/ledger/{quote(name, safe='')}"))
    assert said.count(EVIL) >= 8
    links = [one["href"] for _, one in Tags(client.get("/ledger").text).found if one.get("href", "").startswith("/ledger/")]
    assert [client.get(one).status_code for one in links] == [200, 200]
    assert ask(client, name).json()["fits"] is True


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_browsers_take_for_paths(client, ledger, name):
    ledger.create(name, n=1000, epsilon=2.0, delta=1e-6)
    links = [one["href"] for _, one in Tags(client.get("/ledger").text).found if "account" in one.get("href", "")]
    assert links == [f"/ledger?account={name}"]
    assert "Nobody has reserved anything yet." in shown(client.get(links[0]))


def test_a_password_is_never_shown():
    other = dp.Ledger("postgresql://me:secret@127.0.0.1:1/db")
    client = TestClient(application(other), base_url="http://127.0.0.1:8337")
    for path in ("/", "/ledger", "/ledger/patients", "/ledger.csv", "/forecast?account=patients"):
        reply = client.get(path)
        assert "secret" not in reply.text
        assert "me:***@127.0.0.1" in reply.text


def test_exports_are_those_of_the_command(client, ledger, north, dplateau):
    north.reserve(RUN).commit()
    ledger.create("other", n=1000, epsilon=2.0, delta=1e-6)
    for ending in ("csv", "json"):
        reply = client.get(f"/ledger.{ending}?account=patients")
        assert reply.text == dplateau("ledger", "export", "patients", f"--{ending}", "--ledger", ledger.url)[1]
        assert f'filename="ledger.{ending}"' in reply.headers["content-disposition"]
    assert len(list(csv.DictReader(io.StringIO(client.get("/ledger.csv").text)))) == 4
    assert client.get("/ledger.csv?account=nobody").status_code == 404


def test_a_plan_that_fits(client, ledger, north):
    north.reserve(RUN)
    said = ask(client).json()
    run = planned(PLAN).replace(unit="person")
    state = north.state()
    assert said["cost"] == cost_of(run, state.order) / state.budget
    assert said["fits"] is True
    assert said["answer"] == (
        f"It would take {percent_up(state.left - said['leaves'])} of the budget, and leave {percent_down(said['leaves'])}."
    )
    north.reserve(run)
    assert north.state().left == said["leaves"]  # what was foreseen comes true


def test_a_plan_that_does_not_fit(client, ledger, north):
    before = ledger.head()
    said = ask(client, settings=PLAN.without(epsilon=5.0)).json()
    assert said["fits"] is False
    assert said["leaves"] == said["left"] == 1.0
    with pytest.raises(dp.BudgetError) as refused:
        north.reserve(planned(PLAN.without(epsilon=5.0)).replace(unit="person"))
    hint = str(refused.value).partition("What would fit: ")[2]
    assert hint
    assert said["more"].startswith(f"What would fit: {hint}")
    assert "100 % is left: it does not fit." in said["answer"]
    assert ledger.head() == before


def test_a_plan_for_a_part(client, ledger, north):
    north.reserve(planned(PLAN.without(n=400)).replace(unit="person"), part=("hospitals", "east"))
    left = north.state().left
    part = ask(client, settings=PLAN.without(n=400), partition="hospitals", records="west").json()
    assert (part["fits"], part["leaves"]) == (True, left)
    assert "another part of hospitals has spent more" in part["more"]
    again = ask(client, settings=PLAN.without(n=400), partition="hospitals", records="east").json()
    assert again["leaves"] < left
    assert again["more"] == ""
    much = ask(client, settings=PLAN.without(n=400, epsilon=5.0), partition="hospitals", records="west").json()
    assert "100 % is left for west of hospitals" in much["answer"]
    one = ask(client, partition="hospitals")
    assert (one.status_code, "give both, or none" in one.json()["errors"]["account"]) == (400, True)


def test_plans_in_squared_mu(client, ledger):
    ledger.create("full", n=1000, epsilon=1.0, delta=1e-6, notion="gaussian")
    assert ask(client, "full").json()["fits"] is True
    poisson = ask(client, "full", PLAN.without(sampling="poisson", batch=50, epochs=2)).json()
    assert (poisson["fits"], poisson["cost"]) == (False, None)
    assert "No proved bound gives the run a GDP bound" in poisson["more"]


def test_plans_that_are_wrong_have_a_message(client, ledger):
    ledger.create("moved", n=1000, epsilon=1.0, delta=1e-6, adjacency="replace")
    ledger.create("old", n=1000, epsilon=1.0, delta=1e-6)
    ledger.close("old")
    for account, settings, more, field, said in (
        ("patients", PLAN.without(n=2000), {}, "account", "the run has n 2,000, and the account 1,000 records in all"),
        ("moved", PLAN, {}, "account", "the run has adjacency add-remove, the account replace"),
        ("moved", PLAN.without(adjacency="replace"), {"partition": "a", "records": "b"}, "account", "part is for add-remove"),
        ("nobody", PLAN, {}, "account", "no account 'nobody'"),
        ("", PLAN, {}, "account", "no account is named"),
        ("patients", PLAN, {"d": "x"}, "d", "not a number"),
    ):
        reply = ask(client, account, settings, **more)
        assert reply.status_code == 400
        assert said in reply.json()["errors"][field]
        quiet = ask(client, account, settings, quiet="1", **more)
        assert (quiet.status_code, quiet.json()) == (200, reply.json())
    closed = ask(client, "old").json()
    assert (closed["fits"], closed["answer"]) == (False, "It cannot be paid from this budget.")
    assert "The account is closed." in closed["more"]


def test_the_planner_knows_the_accounts(client, ledger):
    ledger.create("old", n=7, epsilon=1.0, delta=1e-6)
    ledger.close("old")
    page = client.get("/").text
    options = [one for tag, one in Tags(page).found if tag == "option" and "data-hint" not in one]
    assert [one["value"] for one in options] == ["", "patients"]
    assert options[1] == {"value": "patients", "data-n": "1000", "data-delta": "1e-06", "data-adjacency": "add-remove"}
    assert 'href="/ledger"' in page
    account = client.get("/ledger/patients").text
    assert "/?n=1000&amp;delta=1e-06&amp;adjacency=add-remove&amp;account=patients" in account
    assert "/?n=" not in client.get("/ledger/old").text


def test_without_a_ledger_nothing_speaks_of_one():
    client = TestClient(application(), base_url="http://127.0.0.1:8337")
    page = client.get("/").text
    assert "ledger" not in page.lower()
    for path in ("/ledger", "/ledger/patients"):
        reply = client.get(path)
        assert reply.status_code == 404
        assert reply.text == "This page needs a ledger: start it with dplateau ui --ledger URL.\n"
    assert client.get("/forecast?account=patients").status_code == 404


def test_a_forecast_keeps_no_other_page_waiting(client, monkeypatch):
    """Its noise is searched for in a thread: the one that answers pages has a running event loop."""
    where = []

    def watched(settings):
        try:
            where.append(asyncio.get_running_loop())
        except RuntimeError:
            where.append(None)
        return planned(settings)

    monkeypatch.setattr("dplateau.ui.ledger.planned", watched)
    assert ask(client).status_code == 200
    assert where == [None]


PATHS = ("/", "/ledger", "/ledger/patients", "/ledger.csv", "/ledger.json?account=patients", "/forecast?n=1000&account=patients")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_written(ledger, north, path, tmp_path):
    north.reserve(RUN)
    file = tmp_path / "privacy.db"
    file.chmod(0o444)
    before, content = ledger.head(), file.read_bytes()
    client = TestClient(application(ledger), base_url="http://127.0.0.1:8337")
    assert client.get(path).status_code == 200
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, path).status_code == 405
    assert TestClient(application(ledger), base_url="http://evil.example").get(path).status_code == 400
    assert (ledger.head(), file.read_bytes()) == (before, content)
    assert list(tmp_path.iterdir()) == [file]


def missing(file):
    file.unlink()


def damaged(file):
    file.write_bytes(b"no database at all" * 100)


def newer(file):
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE ledger_version SET version_num = '9999'")


@pytest.mark.parametrize(
    ("spoil", "said"), [(missing, "there is no ledger at"), (damaged, "file is not a database"), (newer, "update dplateau")]
)
def test_a_ledger_that_cannot_be_used_is_one_line_and_the_server_goes_on(client, ledger, tmp_path, spoil, said):
    file = tmp_path / "privacy.db"
    kept = file.read_bytes()
    spoil(file)
    for path in PATHS[1:-1]:
        reply = client.get(path)
        assert reply.status_code == 400
        assert said in shown(reply).lower()
    assert client.get("/").status_code == 200
    assert said in shown(client.get("/"))
    assert said in ask(client).json()["errors"]["account"]
    assert client.get("/answer").status_code == 200
    file.write_bytes(kept)
    assert client.get("/ledger").status_code == 200


def test_a_busy_ledger_is_one_line(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    database._engine.cache_clear()
    client = TestClient(application(ledger), base_url="http://127.0.0.1:8337")
    with sqlite3.connect(tmp_path / "privacy.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        reply = client.get("/ledger")
        assert (reply.status_code, "another process holds it: try again" in shown(reply)) == (400, True)
    database._engine.cache_clear()
    assert client.get("/ledger").status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        "body = 'x' WHERE kind = 'opened'",
        "body = '[]' WHERE kind = 'opened'",
        "body = 'x' WHERE kind = 'reserved'",
        "body = '{\"run\": 3}' WHERE kind = 'reserved'",
        'body = \'{"run": {"steps": "x"}}\' WHERE kind = \'reserved\'',
        "body = '[]' WHERE kind = 'committed'",
        "cost = 'x' WHERE kind = 'reserved'",
        "cost = NULL WHERE kind = 'reserved'",
        "spent = 'x' WHERE kind = 'reserved'",
        "spent = 9e999 WHERE kind = 'reserved'",
    ],
)
def test_entries_that_were_changed_are_one_line(ledger, north, tmp_path, change, dplateau):
    north.reserve(RUN).commit()
    with sqlite3.connect(tmp_path / "privacy.db") as connection:
        connection.execute("DROP TRIGGER ledger_entries_no_update")
        connection.execute(f"UPDATE ledger_entries SET {change}")
    client = TestClient(application(ledger), base_url="http://127.0.0.1:8337")
    reply = client.get("/ledger/patients")
    assert reply.status_code == 400
    assert "was changed" in shown(reply)
    assert "dplateau ledger verify" in shown(reply)
    if "NULL" not in change:
        code, _, err = dplateau("ledger", "show", "patients", "--ledger", ledger.url)
        assert (code, err.count("\n")) == (2, 1)


def test_ten_thousand_entries_are_not_all_listed(client, ledger, north):
    body = {"run": RUN.to_dict(), "purpose": "a search"}
    with database.connected(ledger.url, write=True) as connection:
        for k in range(5000):
            what = {"account": "patients", "who": f"team {k % 100}", "cost": 1e-6, "spent": 1e-6 * (k + 1)}
            number = book.append(connection, kind="reserved", body=body, **what).number
            book.append(connection, kind="committed", body={}, account="patients", who="x", reservation=number)
    reply = client.get("/ledger/patients")  # takes half a second
    said = shown(reply)
    assert "10,001 entries" in said
    assert "4,950 earlier trainings are left out" in said
    assert "50 more lines are left out" in said
    assert said.count("without a certificate") == 50
    assert "entry 10000" in said
    assert "5,000 reserved, 5,000 of them committed" in said
    assert len(reply.content) < 200_000
    assert len(client.get("/ledger.csv?account=patients").text.splitlines()) == 10_002
