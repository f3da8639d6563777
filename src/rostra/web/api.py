"""The HTTP interface: JSON for programs, a stream of events, the dashboard's pages; see `docs/api-http.md`.

Which requests are answered:

- The Host header must be an address, `localhost`, or a configured name, so a page whose own name was made to
  point here (DNS rebinding) is refused.
- No answer may be read by a page of another origin, and nothing may be framed or embedded.
- The lab takes orders only from its own page: another page needs a CORS preflight to send the lab's header,
  and preflights are not answered.
- The pages load nothing but their own files, and contain no inline script. Names of programs and groups are
  untrusted: they reach the page as JSON and are shown as text.
"""

import hashlib
import ipaddress
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from importlib import resources
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rostra.errors import UNDECODABLE, BadInput, NotAllowed, RostraError
from rostra.names import Domain, Group, make_group, parse_group, parse_scope
from rostra.web.lab import LabClient
from rostra.web.observatory import Frame, Observatory
from rostra.web.timeline import TOPICS

BEAT_S: Final = 5.0
"""A stream that has nothing to say says so this often, so that a page knows that it would hear."""

RETRY_MS: Final = 1_000
BODY_BYTES_MAX: Final = 4_096
TIMELINE_MAX: Final = 1_000

LAB_HEADER: Final = "x-rostra-lab"

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}

STATUS: Final[dict[str, int]] = {"NOT_FOUND": 404, "NOT_ALLOWED": 403, "UNREACHABLE": 503, "DEADLINE": 504}
"""By code of the error; all others are the asker's: 400."""

T = TypeVar("T")


class NotFound(RostraError):
    code = "NOT_FOUND"


def dashboard(
    observatory: Observatory, *, names: Iterable[str] = (), more: Iterable[BaseRoute] = ()
) -> Starlette:
    """The application. `names`: host names it answers to, besides addresses and ``localhost``; `more`: routes
    that the process adds, such as its health."""
    api = _Api(observatory)
    routes: list[BaseRoute] = [
        *more,
        Route("/api", api.index),
        *(Route(f"/api/{name}", answer) for name, (answer, _) in api.questions.items()),
        Route("/api/places/{path}", api.place),
    ]
    if observatory.lab is not None:
        lab = _LabApi(observatory, observatory.lab)
        routes += [
            Route("/api/lab", lab.state),
            *(Route(f"/api/lab/{name}", order, methods=["POST"]) for name, order in lab.orders.items()),
        ]
    pages = _pages()
    routes += [Route("/", pages["index.html"]), Route("/favicon.ico", pages["icon.svg"])]
    routes += [Route(f"/pages/{name}", page) for name, page in pages.items() if name != "index.html"]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, names=frozenset(names))],
        exception_handlers={RostraError: _refused, 404: _no_such_page, 405: _no_such_page},
    )


class Guard:
    """Access control for every route, and the headers for browsers."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            return _error(
                NotAllowed(
                    f"this server does not answer to the name {host[:100]!r}",
                    fix="use its address or localhost; other names must be allowed where it is started",
                ),
                status=421,
            )
        if scope["method"] not in ("GET", "HEAD") and not _is_own_page(headers, host):
            fix = (
                f"send content-type: application/json and {LAB_HEADER}: yes, from the dashboard's own origin"
            )
            return _error(NotAllowed("only this dashboard's own page may change anything", fix=fix))
        return None

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


def _is_own_page(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    return (
        headers.get(LAB_HEADER) == "yes"
        and headers.get("content-type", "").partition(";")[0] == "application/json"
        and (origin is None or origin in (f"http://{host}", f"https://{host}"))
        and headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    )


class _Api:
    """What can be read."""

    def __init__(self, observatory: Observatory) -> None:
        self._observatory = observatory
        group = "?group=NAME&scope=SCOPE"
        self.questions: dict[str, tuple[Callable[[Request], Awaitable[Response]], str]] = {
            "snapshot": (self.snapshot, ""),
            "world": (self.world, ""),
            "places": (self.places, ""),
            "groups": (self.groups, ""),
            "members": (self.members, f"{group}&from=HOST"),
            "sightings": (self.sightings, ""),
            "streams": (self.streams, group),
            "agreed": (self.agreed, group),
            "led": (self.led, group),
            "timeline": (self.timeline, "?topic=TOPIC&about=NAME&after=NUMBER"),
            "events": (self.events, group),
        }
        """What can be asked, by name: the answer, and the query that it takes."""

    async def index(self, request: Request) -> Response:
        found = {name: f"/api/{name}{query}" for name, (_, query) in self.questions.items()}
        lab = None if self._observatory.lab is None else "/api/lab"
        return _json({**found, "place": "/api/places/PATH", "lab": lab})

    async def snapshot(self, request: Request) -> Response:
        await self._observatory.awake()
        return _json(self._observatory.snapshot())

    async def world(self, request: Request) -> Response:
        await self._observatory.awake()
        return _json({"now": time.time(), **self._observatory.world})

    async def places(self, request: Request) -> Response:
        await self._observatory.awake()
        return _json({"now": time.time(), "places": self._observatory.places})

    async def place(self, request: Request) -> Response:
        await self._observatory.awake()
        path = Domain(request.path_params["path"])
        place = self._observatory.places.get(path)
        if place is None:
            raise NotFound(f"there is no place {path[:100]!r}", fix="/api/places lists them")
        document = self._observatory.document_of(path)
        return _json({"now": time.time(), "place": place, "document": document})

    async def groups(self, request: Request) -> Response:
        await self._observatory.awake()
        return _json({"now": time.time(), "groups": list(self._observatory.groups.values())})

    async def members(self, request: Request) -> Response:
        """A group as each place sees it, or as one does."""
        await self._observatory.awake()
        group = _group(request)
        if group is None:
            raise BadInput("no group was named", fix="/api/members?group=chess&scope=eu")
        views = await self._observatory.look_at(group)
        if "from" in request.query_params:
            place = Domain(request.query_params["from"])
            if place not in self._observatory.places:
                raise NotFound(f"there is no place {place[:100]!r}", fix="/api/places lists them")
            views = {path: view for path, view in views.items() if path == place}
        return _json({"now": time.time(), "group": str(group), "views": views})

    async def sightings(self, request: Request) -> Response:
        await self._observatory.awake()
        return _json({"now": time.time(), **self._observatory.sightings()})

    async def streams(self, request: Request) -> Response:
        """The message rates of groups with delivery, and the receivers that do not keep up."""
        await self._observatory.awake()
        return _json({"now": time.time(), "places": self._observatory.streams(_group(request))})

    async def agreed(self, request: Request) -> Response:
        """Agreed groups: rule, views, which side of a partition lives, and who agrees."""
        await self._observatory.awake()
        group = _group(request)
        shown = [each for each in self._observatory.agreed if group is None or each.group == str(group)]
        return _json({"now": time.time(), "groups": shown})

    async def led(self, request: Request) -> Response:
        """Led sets: who leads, which registrar knows it, and the control tree."""
        await self._observatory.awake()
        group = _group(request)
        shown = [each for each in self._observatory.led if group is None or each.group == str(group)]
        return _json({"now": time.time(), "sets": shown})

    async def timeline(self, request: Request) -> Response:
        await self._observatory.awake()
        query = request.query_params
        topic, about, after = query.get("topic"), query.get("about"), _number(query.get("after", "0"))
        if topic is not None and topic not in (topics := sorted(set(TOPICS.values()))):
            raise BadInput(f"{topic[:50]!r} is not a topic", fix=f"use one of: {', '.join(topics)}")
        entries = [
            entry
            for entry in self._observatory.timeline
            if (topic is None or entry.topic == topic)
            and (about is None or about in (*entry.about, *entry.groups, *entry.members))
            and entry.number > after
        ]
        return _json({"now": time.time(), "entries": entries[-TIMELINE_MAX:]})

    async def events(self, request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        subscription = self._observatory.subscribe(after=after, group=_group(request))
        subscriber = await subscription.__aenter__()

        async def stream() -> AsyncIterator[bytes]:
            try:
                yield f"retry: {RETRY_MS}\n\n".encode()
                while (frames := await subscriber.next(BEAT_S)) is not None:
                    yield b"".join(map(self._event, frames)) or _beat()
            finally:
                await subscription.__aexit__(None, None, None)

        return StreamingResponse(
            stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    def _event(self, frame: Frame) -> bytes:
        # JSON has no raw line breaks, so one line of data holds it.
        return (
            f"id: {self._observatory.life}-{frame.number}\nevent: {frame.kind}\ndata: ".encode()
            + frame.data
            + b"\n\n"
        )


def _beat() -> bytes:
    return f'event: beat\ndata: {{"now":{time.time():.3f}}}\n\n'.encode()


class CutOrder(Struct, forbid_unknown_fields=True):
    here: str
    there: str | None = None
    one_way: bool = False
    link_only: bool = False


class HealOrder(Struct, forbid_unknown_fields=True):
    number: int | None = None


class ServerOrder(Struct, forbid_unknown_fields=True):
    server: str


class _LabApi:
    """What can be broken and mended, where there is a lab."""

    def __init__(self, observatory: Observatory, lab: LabClient) -> None:
        self._observatory = observatory
        self._lab = lab
        self.orders: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "cut": self._cut,
            "heal": self._heal,
            "crash": self._to_server(lab.crash),
            "restart": self._to_server(lab.restart),
            "pause": self._to_server(lab.pause),
            "resume": self._to_server(lab.resume),
        }

    async def state(self, request: Request) -> Response:
        return _json(self._observatory.lab_shown)

    async def _cut(self, request: Request) -> Response:
        order = await _body(request, CutOrder)
        there = None if order.there is None else parse_scope(order.there)
        await self._lab.cut(parse_scope(order.here), there, one_way=order.one_way, link_only=order.link_only)
        return _json(self._observatory.lab_shown)

    async def _heal(self, request: Request) -> Response:
        await self._lab.heal((await _body(request, HealOrder)).number)
        return _json(self._observatory.lab_shown)

    def _to_server(
        self, order: Callable[[Domain], Awaitable[None]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def carry_out(request: Request) -> Response:
            await order(parse_scope((await _body(request, ServerOrder)).server))
            return _json(self._observatory.lab_shown)

        return carry_out


async def _body(request: Request, shape: type[T]) -> T:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise BadInput(f"an order of more than {BODY_BYTES_MAX} bytes", fix="see docs/api-http.md")
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except UNDECODABLE as error:
        raise BadInput(f"not an order: {error}", fix="see docs/api-http.md") from None


def _group(request: Request) -> Group | None:
    """``group=chess&scope=eu``, or ``group=chess@eu``."""
    query = request.query_params
    if "group" not in query:
        return None
    return make_group(query["group"], query["scope"]) if "scope" in query else parse_group(query["group"])


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(f"{text[:50]!r} is not a number", fix="use the number of an entry")
    return int(text)


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _error(error: RostraError, status: int | None = None) -> Response:
    content = {
        "error": {"code": error.code, "what": error.what, "fix": error.fix, "retriable": error.retriable}
    }
    return _json(content, status or STATUS.get(error.code, 400))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RostraError)
    return _error(error)


async def _no_such_page(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    what = f"{request.method} {request.url.path[:200]} is not served here"
    return _error(NotFound(what, fix="/api lists what is"), status)


# Pages


_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def _pages() -> dict[str, Callable[[Request], Awaitable[Response]]]:
    """Every file of `pages/`, read once."""
    return {
        file.name: _page(file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
        for file in sorted(
            resources.files("rostra.web").joinpath("pages").iterdir(), key=lambda each: each.name
        )
        if file.name.rpartition(".")[2] in _TYPES
    }


def _page(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    async def page(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"etag": tag})
        return Response(content, media_type=media_type, headers={"etag": tag})

    return page
