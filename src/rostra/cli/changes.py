"""A change of a group: as a line for people, as a document for programs, as variables for a command."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.text import Text

from rostra.cli.output import text_of
from rostra.client import Cause, Change, Gap, Joined, Left, Members, Message, Only, View, Without
from rostra.groups.kinds import MembershipKind
from rostra.names import Group

NAMES_MAX: Final = 10
"""Endpoints that one change shows to people, one per line, unless they ask for more; the rest are counted."""

NAMES_ALL: Final = 1 << 30

VARIABLE_BYTES_MAX: Final = 65_536
"""What one variable may hold: the kernel gives a command no more than about 128 KB for each."""

SIGNS: Final = {"view": "=", "joined": "+", "left": "-", "without": "-", "only": "-", "gap": "~"}
COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "=": "bold"}


def document(group: Group, change: Change | Message, members: Members, at: float) -> dict[str, Any]:
    """What happened, and how many are in the group now."""
    said: dict[str, Any] = {
        "change": type(change).__name__.lower(),
        "group": str(group),
        "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z",
        "count": len(members),
    }
    if not isinstance(change, Message) and change.token:
        said |= {"number": change.number, "token": change.token}
    match change:
        case View(shown, isolated):  # it is the list, whatever has become of it meanwhile
            said |= {"count": len(shown), "isolated": isolated, "members": [_member(each) for each in shown]}
        case Joined(shown, cause):
            said |= {"cause": cause.value, "members": [_member(each) for each in shown]}
        case Left(endpoints, cause, meta):
            said |= {"cause": cause.value, "endpoints": list(endpoints), "meta": text_of(meta)}
        case Without(domain, endpoints, because) | Only(domain, endpoints, because):
            said |= {
                "domain": domain,
                "endpoints": list(endpoints),
                "because": {
                    "accuser": because.accuser,
                    "accused": because.accused,
                    "what": because.what,
                },
            }
        case Gap(missed, sender, first):
            said |= {"missed": missed} | ({"sender": sender, "first": first} if sender else {})
    if said.get("cause") == Cause.MERGE.value:
        listed = change.members if isinstance(change, Joined) else members
        if any(each.kind is not None and each.kind.membership is MembershipKind.LED for each in listed):
            said["led"] = True  # a leader's list does not say why it is another one
    return said


def _member(member: Any) -> dict[str, str]:
    return {"endpoint": member.endpoint, "meta": text_of(member.meta)}


def endpoints_of(said: Mapping[str, Any]) -> list[str]:
    return [*said.get("endpoints", ()), *(each["endpoint"] for each in said.get("members", ()))]


def lines(said: Mapping[str, Any], at: float, names_max: int = NAMES_MAX) -> Iterator[Text]:
    """For people: the time, a sign, and who. Of longer lists than `names_max`, the rest is counted."""
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    kind = str(said["change"])
    sign = SIGNS.get(kind, "?")
    for text in _texts(kind, said, names_max):
        line = Text(f"{clock}  ")
        line.append(f"{sign} ", style=COLOURS.get(sign, ""))
        line.append(text)
        yield line
        clock = " " * len(clock)


def _texts(kind: str, said: Mapping[str, Any], names_max: int) -> Iterator[str]:
    who = endpoints_of(said)
    match kind:
        case "view":
            yield f"{said['group']}: {_count(said['count'])}" + (
                ", of this host only: it is cut off" if said["isolated"] else ""
            )
            yield from _names(who, "", names_max) if names_max else ()
        case "joined" if said["cause"] == Cause.JOIN.value:
            yield from _names(who, " joined", names_max or NAMES_MAX)
        case "joined":
            yield from _names(who, " is listed" if "led" in said else " is in sight again", names_max)
        case "left":
            how = {Cause.LEAVE.value: "left", Cause.CRASH.value: "crashed"}.get(
                said["cause"], "is not listed any more" if "led" in said else "went meanwhile"
            )
            words = f': "{said["meta"]}"' if said["meta"] else ""
            yield from _names(who, f" {how}{words}", names_max or NAMES_MAX)
        case "without":
            yield f"without {said['domain']}{_because(said)}"
            yield from _names(who, "", names_max)
        case "only":
            yield f"only {said['domain']} remains{_because(said)}"
            yield from _names(who, "", names_max)
        case "gap":
            missed = said["missed"]
            yield f"{'some' if missed is None else missed} changes were missed"


def _because(said: Mapping[str, Any]) -> str:
    because = said["because"]
    return f": {because['accuser']} gave up {because['accused']} ({because['what']})"


def _names(who: list[str], ending: str, most: int) -> Iterator[str]:
    yield from (f"{each}{ending}" for each in who[:most])
    left_out = len(who) - len(who[:most])
    if left_out and most:
        yield f"and {left_out} more{ending}"
    elif left_out:
        yield f"{_count(left_out)}{ending}"


def _count(number: int) -> str:
    return f"{number} member{'s' * (number != 1)}"


def variables(said: Mapping[str, Any]) -> dict[str, str]:
    """For a command that runs at each change. Everything is on its stdin too, as JSON and without a bound."""
    because = said.get("because") or {}
    name, _, scope = str(said["group"]).rpartition("@")
    told = {
        "ROSTRA_CHANGE": str(said["change"]),
        "ROSTRA_GROUP": name,
        "ROSTRA_SCOPE": scope,
        "ROSTRA_COUNT": str(said["count"]),
        "ROSTRA_CAUSE": str(said.get("cause", "")),
        "ROSTRA_DOMAIN": str(said.get("domain", "")),
        "ROSTRA_BECAUSE": str(because.get("what", "")),
        "ROSTRA_ACCUSER": str(because.get("accuser", "")),
        "ROSTRA_RESUME": str(said.get("token", "")),
        "ROSTRA_AT": str(said["at"]),
    }
    shown: list[str] = []
    size = 0
    who = endpoints_of(said)
    for each in who:
        size += len(each) + 1
        if size > VARIABLE_BYTES_MAX:
            break
        shown.append(each)
    told["ROSTRA_ENDPOINTS"] = " ".join(shown)
    told["ROSTRA_LEFT_OUT"] = str(len(who) - len(shown))
    return told
