"""Who may say what to a delegate."""

from rostra.names import Domain, Endpoint, parent
from rostra.protocols.fifo.messages import (
    Control,
    Cut,
    CutReply,
    CutRequest,
    DelegateMoved,
    Distances,
    ForceJoin,
    StartSync,
    ViewId,
    is_delegate,
)
from rostra.protocols.fifo.voice import lan_of
from rostra.protocols.flow.messages import ForwardingTree


def may_say(to: Domain, source: Endpoint, message: Control) -> bool:
    """To the delegate of this LAN. Questions are for its hosts, and what concerns another LAN is for the
    delegate of that one alone: no program can be called so, and servers pass on nothing under a name of
    another side (C-125)."""
    lan = lan_of(source)
    match message:
        case ForceJoin() | StartSync() | CutRequest():
            return lan == to
        case DelegateMoved(lan=named) | Distances(lan=named):
            return is_delegate(source) and lan == named
        case CutReply(cut=Cut(lan=named, entries=entries, floors=floors)):
            return (
                is_delegate(source)
                and lan == named
                and all(lan_of(entry.endpoint) == lan for entry in entries)
                and all(parent(host) == lan for host, _ in floors)
            )
        case ViewId() | ForwardingTree():
            return is_delegate(source)
    return False
