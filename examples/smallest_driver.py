"""The smallest complete driver of one core: a host's agent, two programs, and nothing else.

A core decides and does nothing. Whoever drives it hands it what happened, one event at a time, and carries
out the effects it gets back, in order. Here that is a loop over a list: no sockets, no clock, no threads. The
runtime does the same over asyncio, and the simulator in virtual time.

    python examples/smallest_driver.py
"""

from collections.abc import Iterable

from rostra.core.effects import Answer, Asked, EndpointGone, Event, Tell
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.requests import Denied, Join, Leave, Open, Opened
from rostra.protocols.relaxed.view import ViewChanged, Views

HOST = Domain("eu.paris.h1")
CHESS = Group("chess", Domain("eu"))  # reaches further than this host, but this host has no link to anybody
ANN, BOB = Endpoint(f"{HOST}/ann#1"), Endpoint(f"{HOST}/bob#2")

STORY = [
    Asked(Endpoint(""), 1, Open("ann")),
    Asked(ANN, 2, Join(CHESS, meta=b"white")),
    Asked(Endpoint(""), 3, Open("bob")),
    Asked(BOB, 4, Join(CHESS, meta=b"black")),
    Asked(BOB, 5, Join(CHESS)),
    Asked(ANN, 6, Leave(CHESS, b"good game")),
    EndpointGone(BOB),
]


def drive(core: LocalServer, story: Iterable[Event]) -> Iterable[str]:
    """Feed each event to the core, carry out what it orders, and say what the programs were told."""
    views: dict[Endpoint, Views] = {}
    for now, event in enumerate(story):
        for effect in core.step(float(now), event):
            match effect:
                case Answer(_, Opened(endpoint)):
                    views[endpoint] = Views()
                    views[endpoint].follow(CHESS)
                    yield f"{now}  {endpoint} is open"
                case Answer(token, Denied(code, what, fix)):
                    yield f"{now}  question {token} was refused: {code}, {what}; {fix}"
                case Answer(token, _):
                    yield f"{now}  question {token} was granted"
                case Tell(endpoints, notice):
                    for endpoint in endpoints:
                        for report in views[endpoint].apply(notice):
                            if isinstance(report, ViewChanged):
                                members = [
                                    member.endpoint for member in views[endpoint].groups[CHESS].members
                                ]
                                yield f"{now}  {endpoint} sees {CHESS} as {', '.join(members)}"


if __name__ == "__main__":
    print(*drive(LocalServer(HOST, incarnation=1), STORY), sep="\n")
