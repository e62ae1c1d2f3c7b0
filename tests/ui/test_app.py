"""The application: what it serves, and what it refuses."""

import json
import re
import threading

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")
from starlette.testclient import TestClient

from dplateau.ui import app
from dplateau.ui.answer import PARTS, answer
from dplateau.ui.app import POLICY, application
from dplateau.ui.settings import NUMBERS, Settings


@pytest.fixture(scope="module")
def client():
    return TestClient(application(), base_url="http://127.0.0.1:8337")


def test_the_page_has_every_setting_with_its_default(client):
    reply = client.get("/")
    assert reply.status_code == 200
    names = set(re.findall(r'name="(\w+)"', reply.text)) - {"viewport", "referrer"}
    assert names == set(Settings().to_query())
    for name in NUMBERS:
        assert f'id="{name}-slider"' in reply.text
    assert "<script>" not in reply.text  # all of them come from files, which the policy asks for


def test_scripts_are_its_own(client):
    page = client.get("/").text
    scripts = re.findall(r'<script src="([^"]+)"', page)
    assert scripts == ["/theme.js", "/plotly.js", "/figures.js", "/planner.js"]
    for script in scripts:
        reply = client.get(script)
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/javascript")
    assert "http" not in client.get("/planner.js").text.replace("http-equiv", "")
    assert client.get("/other.js").status_code == 404
    assert client.get("/../settings.py").status_code == 404


def test_answers_are_those_of_the_library(client):
    settings = Settings(n=5000, sampling="cyclic", batch=100, epochs=20, delta=1e-5)
    for part in PARTS:
        reply = client.get("/answer", params={"part": part, **settings.to_query()})
        assert reply.status_code == 200
        said = reply.json()
        assert said.pop("milliseconds") >= 0
        assert said == json.loads(json.dumps(answer(settings, part)))


def test_others_need_not_wait_for_an_answer_that_takes_long(monkeypatch):
    begun, served = threading.Event(), threading.Event()

    def slow(settings, part, piece):
        begun.set()
        return {"served": served.wait(120)}

    monkeypatch.setattr(app, "answer", slow)
    replies = []
    with TestClient(application(), base_url="http://127.0.0.1:8337") as client:  # one loop for all requests
        asking = threading.Thread(target=lambda: replies.append(client.get("/answer").json()))
        asking.start()
        assert begun.wait(120)
        assert client.get("/figures.js").status_code == 200
        served.set()
        asking.join()
    assert replies[0]["served"]


def test_wrong_queries_have_a_message_for_the_field(client):
    for query, field in (
        ({"n": "x"}, "n"),
        ({"part": "x"}, "part"),
        ({"piece": "x"}, "piece"),
        ({"piece": "²"}, "piece"),
        ({"piece": "7"}, "piece"),
        ({"x": "1"}, "x"),
        ({"sampling": "cyclic", "batch": "70000"}, "batch"),
    ):
        reply = client.get("/answer", params=query)
        assert reply.status_code == 400
        assert list(reply.json()["errors"]) == [field]
        quiet = client.get("/answer", params={**query, "quiet": "1"})
        assert (quiet.status_code, quiet.json()) == (200, reply.json())


def test_other_hosts_are_refused():
    # A name that some website points to this computer.
    for host in ("http://evil.example", "http://127.0.0.1.evil.example", "http://0.0.0.0"):
        for path in ("/", "/answer", "/planner.js"):
            assert TestClient(application(), base_url=host).get(path).status_code == 400
    assert TestClient(application(), base_url="http://localhost:1234").get("/").status_code == 200


def test_what_another_website_asks_for_is_refused(client):
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    frame = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
    for other in (image, frame, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        for path in ("/", "/answer", "/planner.js"):
            assert client.get(path, headers=other).status_code == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    for allowed in (link, own, {"Sec-Fetch-Site": "none"}, {"Origin": "http://127.0.0.1:8337"}):
        assert client.get("/answer", headers=allowed).status_code == 200


def test_headers_keep_other_pages_out(client):
    for path in ("/", "/answer", "/planner.js", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "set-cookie" not in headers
        assert "access-control-allow-origin" not in headers


def test_nothing_can_be_sent(client):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, "/answer").status_code == 405
        assert client.request(method, "/").status_code == 405
