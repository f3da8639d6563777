"""Which control messages a delegate accepts, by their source."""

from rostra.names import Domain, Endpoint, parent
from rostra.protocols.fifo.context import lan_of
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
from rostra.protocols.flow.messages import ForwardingTree


def may_say(to: Domain, source: Endpoint, message: Control) -> bool:
    """May this source send this message to the delegate of LAN `to`? Requests come from its hosts; what
    concerns another LAN comes from the delegate of that one alone. No program can have a delegate's name, and
    servers drop messages whose source is not on the side they come from (C-125)."""
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
