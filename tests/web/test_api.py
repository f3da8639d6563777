"""The HTTP interface: what may be asked, by whom, and what the answers are."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.pretend import pretending

from rostra.errors import BadInput
from rostra.transport.addresses import TcpAddress
from rostra.web import observatory as observatory_module
from rostra.web.api import dashboard
from rostra.web.observatory import Observatory
from rostra.web.serve import serving

LAB = {"x-rostra-lab": "yes", "content-type": "application/json"}


class FakeLab:
    """Takes every order down."""

    def __init__(self) -> None:
        from rostra.web.lab import LabState

        self.state = LabState()
        self.orders: list[tuple[Any, ...]] = []

    def listen(self, hear: Any) -> None:
        pass

    async def cut(
        self, here: str, there: str | None = None, *, one_way: bool = False, link_only: bool = False
    ) -> None:
        self.orders.append(("cut", here, there, one_way, link_only))

    async def heal(self, number: int | None = None) -> None:
        if number == 99:
            raise BadInput("there is no cut 99", fix="/api/lab lists them")
        self.orders.append(("heal", number))

    async def crash(self, server: str) -> None:
        self.orders.append(("crash", server))

    restart = pause = resume = crash


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


def asking(app: Starlette, base: str = "http://127.0.0.1:7780") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base)


@pytest.fixture
def client(lab: FakeLab) -> httpx.AsyncClient:
    return asking(dashboard(Observatory([], lab=lab)))  # type: ignore[arg-type]


# Who may ask


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:7780", "127.0.0.1:7780", "[::1]:7780", "10.0.0.5", "[::1]"]
)
async def test_an_address_or_localhost_is_answered(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/api", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:7780", "127.0.0.1.evil.example", "localhost.evil", "", "[::1].evil"],
)
async def test_a_name_that_anybody_may_have_chosen_is_not(client: httpx.AsyncClient, host: str) -> None:
    answer = await client.get("/api/snapshot", headers={"host": host})
    assert answer.status_code == 421 and answer.json()["error"]["code"] == "NOT_ALLOWED"


async def test_a_name_that_it_was_told_to_answer_to_is_answered() -> None:
    app = dashboard(Observatory([]), names=["rostra.acme"])
    assert (await asking(app, "http://rostra.acme:7780").get("/api")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"x-rostra-lab": "yes", "content-type": "text/plain"},
        {"x-rostra-lab": "yes"},
        {**LAB, "origin": "http://evil.example"},
        {**LAB, "origin": "null"},
        {**LAB, "origin": "http://127.0.0.1:7781"},
        {**LAB, "sec-fetch-site": "cross-site"},
    ],
)
async def test_orders_that_a_page_elsewhere_could_send_are_refused(
    client: httpx.AsyncClient, lab: FakeLab, headers: dict[str, str]
) -> None:
    answer = await client.post("/api/lab/cut", content=b'{"here": "eu"}', headers=headers)
    assert answer.status_code == 403 and answer.json()["error"]["fix"]
    assert lab.orders == []


async def test_nobody_is_told_that_other_origins_may_ask(client: httpx.AsyncClient) -> None:
    preflight = await client.options(
        "/api/lab/cut", headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 403
    for answer in (preflight, await client.get("/api", headers={"origin": "http://evil.example"})):
        assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_browsers_are_told_to_be_strict(client: httpx.AsyncClient) -> None:
    for path in ("/", "/api", "/pages/main.js", "/nothing"):
        headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        )
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"


# Pages


async def test_the_page_names_only_its_own_files_and_all_of_them_are_served(
    client: httpx.AsyncClient,
) -> None:
    page = await client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "://" not in page.text.replace("http://www.w3.org/", "")
    named = re.findall(r'(?:src|href)="(/[^"]*)"', page.text)
    assert len(named) >= 4
    for path in named:
        assert (await client.get(path)).status_code == 200, path


async def test_a_page_that_the_browser_has_is_not_sent_again(client: httpx.AsyncClient) -> None:
    tag = (await client.get("/pages/main.js")).headers["etag"]
    again = await client.get("/pages/main.js", headers={"if-none-match": tag})
    assert again.status_code == 304 and again.content == b""


@pytest.mark.parametrize(
    "path", ["/pages/../api.py", "/pages/%2e%2e/api.py", "/pages/index.html", "/pages/", "/etc/passwd"]
)
async def test_nothing_but_pages_is_served(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_what_does_not_exist_says_what_does(client: httpx.AsyncClient) -> None:
    error = (await client.get("/api/nothing")).json()["error"]
    assert (error["code"], error["fix"]) == ("NOT_FOUND", "/api lists what is")


async def test_a_process_may_add_its_own_routes() -> None:
    async def livez(request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    app = dashboard(Observatory([]), more=[Route("/livez", livez)])
    assert (await asking(app).get("/livez")).text == "ok"


# Questions


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/members", 400),
        ("/api/members?group=chess&scope=EU", 400),
        ("/api/members?group=", 400),
        ("/api/members?group=chess&from=nowhere", 404),
        ("/api/places/nowhere", 404),
        ("/api/timeline?after=x", 400),
        ("/api/timeline?after=-1", 400),
        ("/api/timeline?after=99999999999999999999", 400),
    ],
)
async def test_a_question_that_cannot_be_right_is_told_what_to_try(
    client: httpx.AsyncClient, path: str, status: int
) -> None:
    answer = await client.get(path)
    assert answer.status_code == status and answer.json()["error"]["fix"]


async def test_a_world_of_which_nobody_has_spoken_is_empty(client: httpx.AsyncClient) -> None:
    snapshot = (await client.get("/api/snapshot")).json()
    assert (snapshot["world"]["servers"], snapshot["places"], snapshot["groups"], snapshot["timeline"]) == (
        [],
        {},
        [],
        [],
    )


async def test_a_topic_that_does_not_exist_is_refused_and_the_others_are_named(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/api/timeline?topic=cut")
    assert answer.status_code == 400
    assert answer.json()["error"]["what"] == "'cut' is not a topic"
    assert "cuts, lab, members" in answer.json()["error"]["fix"]
    assert (await client.get("/api/timeline?topic=cuts")).json()["entries"] == []


# Orders


async def test_orders_reach_the_lab(client: httpx.AsyncClient, lab: FakeLab) -> None:
    for path, content in (
        ("cut", {"here": "eu", "there": "us", "one_way": True}),
        ("cut", {"here": "eu"}),
        ("heal", {"number": 3}),
        ("heal", {}),
        ("crash", {"server": "eu.paris.h1"}),
    ):
        assert (await client.post(f"/api/lab/{path}", json=content, headers=LAB)).json()["cuts"] == []
    assert lab.orders == [
        ("cut", "eu", "us", True, False),
        ("cut", "eu", None, False, False),
        ("heal", 3),
        ("heal", None),
        ("crash", "eu.paris.h1"),
    ]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("cut", b"{}"),
        ("cut", b'{"here": 1}'),
        ("cut", b'{"here": "EU"}'),
        ("cut", b'{"here": "eu", "their": "us"}'),
        ("cut", b"\xff"),
        ("cut", b"{"),
        ("crash", b'{"server": "../etc"}'),
        ("heal", b'{"number": "all"}'),
        ("heal", b'{"number": 99}'),
        ("cut", b'{"here": "' + b"a" * 5000 + b'"}'),
    ],
)
async def test_an_order_that_cannot_be_carried_out_says_why(
    client: httpx.AsyncClient, lab: FakeLab, path: str, content: bytes
) -> None:
    answer = await client.post(f"/api/lab/{path}", content=content, headers=LAB)
    assert answer.status_code == 400 and answer.json()["error"]["fix"]
    assert lab.orders == []


async def test_the_list_of_requests_has_every_route_that_can_be_read(client: httpx.AsyncClient) -> None:
    listed = {path.partition("?")[0] for path in (await client.get("/api")).json().values()}
    served = {
        route.path.replace("{path}", "PATH")
        for route in dashboard(Observatory([])).routes
        if isinstance(route, Route) and route.path.startswith("/api/")
    }
    assert listed == {*served, "/api/lab"}
    page = (Path(__file__).parents[2] / "docs" / "api-http.md").read_text()
    documented = {path.replace("{path}", "PATH") for path in re.findall(r"`GET (/api/[a-z/{}]+)", page)}
    assert documented == listed


async def test_a_world_that_is_not_ours_to_break_has_no_lab() -> None:
    client = asking(dashboard(Observatory([])))
    assert (await client.get("/api")).json()["lab"] is None
    assert (await client.get("/api/lab")).status_code == 404
    assert (await client.post("/api/lab/cut", json={"here": "eu"}, headers=LAB)).status_code == 404


# A world that lives


async def events(client: httpx.AsyncClient, **headers: str) -> AsyncIterator[tuple[str, str, Any]]:
    """Id, kind and content of each event of a stream."""
    async with client.stream("GET", "/api/events", headers=headers, timeout=20.0) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        event: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                event[name] = value
            elif "event" in event:
                yield event.get("id", ""), event["event"], json.loads(event["data"])
                event = {}


async def test_a_world_can_be_read_and_followed_and_broken() -> None:
    async with pretending() as (_, address), httpx.AsyncClient(base_url=f"http://{address}") as client:
        world = (await client.get("/api/world")).json()
        assert {each["state"] for each in world["servers"]} == {"up"} and len(world["servers"]) == 15
        place = (await client.get("/api/places/eu.paris.h1")).json()
        assert place["place"]["is_agent"] and place["document"]["core"]["groups"]
        views = (await client.get("/api/members?group=kitchen&scope=eu&from=eu.rome.h1")).json()["views"]
        assert [each["name"] for each in views["eu.rome.h1"]["members"]] == ["eve", "fay"]

        everywhere = (await client.get("/api/members?group=chess@world")).json()["views"]
        assert {each["total"] for each in everywhere.values()} == {4} and len(everywhere) == 8

        seen: list[tuple[str, str]] = []
        last = ""
        async for number, kind, content in events(client):
            last = number or last
            if kind == "snapshot":
                order = {"here": "eu", "there": "us"}
                assert (await client.post("/api/lab/cut", json=order, headers=LAB)).json()["cuts"][0][
                    "text"
                ] == "eu | us"
            if kind == "entry":
                seen.append((content["kind"], content["text"]))
            if {("lost", "eu goes on without us"), ("lost", "us goes on without eu")} <= set(seen):
                break
        assert ("lab", "lab: cut eu | us") in seen

        await client.post("/api/lab/heal", json={}, headers=LAB)
        kinds = []
        async for _, kind, content in events(client, **{"last-event-id": last}):
            kinds.append(kind)
            if kind == "entry" and content["kind"] == "merged":
                break
        assert "snapshot" not in kinds, "what was missed is not everything"
        told = (await client.get("/api/timeline?topic=cuts&about=us")).json()["entries"]
        assert told and {each["topic"] for each in told} == {"cuts"}
        sightings = (await client.get("/api/sightings")).json()
        assert len(sightings["hosts"]) == 8


async def test_a_stream_too_many_is_refused_and_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observatory_module, "SUBSCRIBERS_MAX", 0)
    async with pretending() as (_, address), httpx.AsyncClient(base_url=f"http://{address}") as client:
        answer = await client.get("/api/events")
        assert answer.status_code == 503 and answer.json()["error"]["retriable"]


async def test_a_port_that_is_taken_is_named() -> None:
    app = dashboard(Observatory([]))
    async with serving(app, TcpAddress("127.0.0.1", 0)) as address:
        with pytest.raises(BadInput, match=f"127.0.0.1:{address.port}"):
            async with serving(app, address):
                pass


async def test_streams_end_when_the_server_does() -> None:
    async with httpx.AsyncClient() as client:
        async with pretending() as (_, address):
            client.base_url = httpx.URL(f"http://{address}")
            stream = events(client)
            assert (await anext(stream))[1] == "snapshot"
        with pytest.raises((StopAsyncIteration, httpx.HTTPError)):
            while True:
                await anext(stream)
