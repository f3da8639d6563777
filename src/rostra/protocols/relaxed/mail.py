"""Messages from one endpoint to others, through the servers (C-152 to C-154).

SendTo ──▶ to destinations on this host: Message; to the others: Routed, by the domain server
Routed ──▶ Message; for destinations that are not here, Undeliverable goes back to the source
"""

from collections.abc import Callable, Collection
from functools import lru_cache

from rostra.core.effects import Answer, Effect, Ignored, Send, Tell
from rostra.errors import BadInput, TooLarge
from rostra.names import Domain, Endpoint, host_of, parent, parse_endpoint
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.liveness import UNKNOWN
from rostra.protocols.relaxed.messages import MessageId, Routed, Undeliverable
from rostra.protocols.relaxed.requests import Done, Message, NotDelivered, SendTo
from rostra.protocols.relaxed.routing import OUTSIDE


class Mail:
    def __init__(
        self,
        host: Domain,
        config: RelaxedConfig,
        endpoints: Collection[Endpoint],
        new_id: Callable[[], MessageId],
    ) -> None:
        self._host = host
        self._config = config
        self._endpoints = endpoints  # that are open
        self._new_id = new_id

    def send(self, me: Endpoint, token: int, ask: SendTo, up: bool, out: list[Effect]) -> None:
        """C-152. What is refused raises."""
        destinations, data = ask.destinations, ask.data
        if not destinations:
            raise BadInput("a message to nobody", fix="name at least one destination")
        if len(destinations) > self._config.destinations_max:
            raise TooLarge(
                f"a message to {len(destinations)} destinations",
                fix=f"send it in parts, to at most {self._config.destinations_max} at a time",
            )
        if len(data) > self._config.ns_message_bytes_max:
            raise TooLarge(
                f"a message of {len(data)} bytes",
                fix=f"send at most {self._config.ns_message_bytes_max} bytes at a time",
            )
        for destination in destinations:
            check_endpoint(destination)
        here, elsewhere = self._split(destinations)
        out.append(Answer(token, Done()))
        missing = self._hand_over(here, Message(me, data, ask.view), out)
        if missing:
            out.append(Tell((me,), NotDelivered(missing, UNKNOWN)))
        if elsewhere and up:
            out.append(Send(parent(self._host), Routed(self._new_id(), me, elsewhere, data, ask.view)))
        elif elsewhere:
            out.append(Tell((me,), NotDelivered(elsewhere, "isolated")))

    def routed(self, message: Routed, out: list[Effect]) -> None:
        source = message.source
        here, elsewhere = self._split(message.destinations)
        if elsewhere:
            out.append(Ignored("Routed", why="not here"))
        missing = self._hand_over(here, Message(source, message.data, message.view), out)
        if missing:
            out.append(Send(parent(self._host), Undeliverable(self._new_id(), source, missing, UNKNOWN)))

    def undeliverable(self, message: Undeliverable, out: list[Effect]) -> None:
        if message.source not in self._endpoints:
            out.append(Ignored("Undeliverable", why=UNKNOWN))
        elif any(host_of(destination) == self._host for destination in message.destinations):
            out.append(Ignored("Undeliverable", why=OUTSIDE))
        else:
            out.append(Tell((message.source,), NotDelivered(message.destinations, message.why)))

    def _split(self, destinations: tuple[Endpoint, ...]) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
        """The destinations on this host, and the others; each once, sorted."""
        each = sorted(set(destinations))
        here = tuple([destination for destination in each if host_of(destination) == self._host])
        return here, tuple([destination for destination in each if host_of(destination) != self._host])

    def _hand_over(
        self, destinations: tuple[Endpoint, ...], message: Message, out: list[Effect]
    ) -> tuple[Endpoint, ...]:
        """Deliver to those that are open; give back those that are not."""
        here = tuple(filter(self._endpoints.__contains__, destinations))
        if here:
            out.append(Tell(here, message))
        return tuple([destination for destination in destinations if destination not in self._endpoints])


@lru_cache(maxsize=4096)
def check_endpoint(endpoint: Endpoint) -> None:
    parse_endpoint(endpoint)


def not_open(me: str, host: Domain) -> BadInput:
    """A request came from an endpoint that this agent does not have, or from none."""
    if not me:
        fix = "ask a server, by its address or its socket"
        return BadInput(f"{host} is an agent, and this is for a server", fix=fix)
    shown = me if len(me) <= 80 else f"{me[:77]}..."
    return BadInput(f"no endpoint {shown!r} is open on {host}", fix="open it first")
