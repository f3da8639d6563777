"""Why a link was declared broken: the evidence, the health of both sides, and the settings that decided."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from rostra.client.why.recalled import Break, NodeMemories
from rostra.client.why.steps import AFTER_S, BEFORE_S
from rostra.client.why.words import seconds
from rostra.names import Domain
from rostra.protocols.detect.config import DetectConfig

ON_TIME_S: Final = 0.05
"""A loop that is late by less than this is not worth a word."""


class GroundSetting(Struct, frozen=True):
    """What would have changed the outcome."""

    name: str  # as in the world file
    value: float
    text: str


def grounds(recalled: NodeMemories, broken: Break, evidence: Mapping[str, Any] | None) -> str:
    accuser, accused = broken.accuser, broken.accused
    match broken.what:
        case "silent" if evidence is not None:
            return (
                f"{accuser} heard nothing from {accused} for {seconds(evidence['silence_s'])}, "
                f"and {seconds(evidence['down_after_s'])} is allowed"
            )
        case "silent":
            return f"{accuser} heard nothing from {accused} for too long"
        case "ended by peer":
            other = _other_side(recalled, broken)
            return other or f"{accused} had ended its link with {accuser}"
        case "closed":
            return f"{accused} said goodbye to {accuser}: it was shut down"
        case "restarted":
            return f"{accused} came back to {accuser} as a new incarnation: its process had died"
        case "overflow":
            return f"too much was waiting to be sent from {accuser} to {accused}"
        case other:
            return f"{accuser} gave up {accused}: {other}"


def _other_side(recalled: NodeMemories, broken: Break) -> str:
    """What the accused measured, if it gave up the accuser for its silence."""
    accused = recalled.memories.get(broken.accused)
    for at, note in reversed(accused.link(broken.accuser) if accused is not None else []):
        if note["what"] == "down" and note["because"] == "silent" and abs(at - broken.at) < AFTER_S:
            evidence = note["evidence"]
            return (
                f"{broken.accused} heard nothing from {broken.accuser} for "
                f"{seconds(evidence['silence_s'])}, and {seconds(evidence['down_after_s'])} is allowed"
            )
    return ""


def health(recalled: NodeMemories, broken: Break, evidence: Mapping[str, Any] | None) -> dict[Domain, str]:
    health: dict[Domain, str] = {}
    if evidence is not None:
        late_s = float(evidence["own_lateness_s"])
        health[broken.accuser] = (
            "was on time"
            if late_s < ON_TIME_S
            else f"was late itself, by {seconds(late_s)}, which it counted in the other's favour"
        )
    silence_s = float(evidence["silence_s"]) if evidence is not None else 0.0
    health[broken.accused] = _own_health(recalled, broken.accused, broken.at, silence_s + 1.0)
    return health


def health_of_home(recalled: NodeMemories, at: float) -> dict[Domain, str]:
    return (
        {recalled.host: _own_health(recalled, recalled.host, at, BEFORE_S)}
        if recalled.home is not None
        else {}
    )


def _own_health(recalled: NodeMemories, node: Domain, at: float, before_s: float) -> str:
    memory = recalled.memories.get(node)
    if memory is None:
        return f"not known: {recalled.unseen.get(node, 'it was not asked')}"
    if memory.began_at > at - before_s and node != recalled.way[0] and memory.began_at > at - ON_TIME_S:
        return f"began a new life {seconds(memory.document['age_s'])} ago; the old one is forgotten"
    late = [note["late_s"] for when, note in memory.notes("late") if at - before_s <= when <= at + AFTER_S]
    return f"stood still for {seconds(max(late))}" if late else "was on time"


def settings(
    recalled: NodeMemories, broken: Break, evidence: Mapping[str, Any] | None, silence_s: float | None
) -> tuple[GroundSetting, ...]:
    """What was measured, against which limit; `silence_s`: how long the silence was, if it has ended."""
    accuser = recalled.memories.get(broken.accuser)
    if broken.what == "overflow" and accuser is not None:
        bound = accuser.document["queue_messages_max"]
        text = f"{bound} messages may wait for a neighbour; it reads more slowly than that"
        return (GroundSetting("links.queue_messages_max", bound, text),)
    if broken.what != "silent" or evidence is None:
        return ()
    bound = float(evidence["down_after_s"])
    if silence_s is None:
        so_far_s = recalled.heard_at - broken.at + float(evidence["silence_s"])
        text = (
            f"the limit is {seconds(bound)}, and {broken.accused} has been silent for "
            f"{seconds(so_far_s)} until now; a higher limit would have removed it later, and not kept it"
        )
        return (GroundSetting("detect.down_after_s", bound, text),)
    profiles = ""
    if bound < silence_s < DetectConfig.wan().down_after_s:
        profiles = f"; the wan profile has {seconds(DetectConfig.wan().down_after_s)}"
    return (
        GroundSetting(
            "detect.down_after_s",
            bound,
            f"the limit was {seconds(bound)}, and {broken.accused} was silent for {seconds(silence_s)}; "
            f"with a limit above {seconds(silence_s)} nobody would have been removed{profiles}",
        ),
    )
