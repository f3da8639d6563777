"""The data channel of one process: how datagrams reach a LAN and other clusters, and which are accepted.

    reflect     host ──▶ its cluster's server ──▶ the other hosts of the LAN that have members
    fanout      host ──▶ each of them, and the server
    multicast   host ──▶ all of them at once, and the server ──▶ those that multicast does not reach

    server of a cluster ◀──▶ servers of other clusters: each, or all at once by multicast (X-108)

The channel is best effort: a datagram that cannot be sent or accepted is counted and dropped, and the
protocols above retransmit. Nodes in one process need no datagrams at all.

**Addresses.** A cluster's server is where the world file says (`[data]`, or the same address as under
`[servers]`), and announces it to the other clusters with its join. An agent has any free port, and sends its
server a `Call` when one of its programs enters a group, and twice a second as long as one is in it. The
answer, a `Directory`, says how the LAN is reached; that may change at any time, and costs a retransmission at
most (X-107).

**Authentication.** Each datagram has the tag of its world. A cluster's server makes a key when it starts and
sends it to its hosts in the handshake of their control links; datagrams inside the LAN are sealed with it. A
second key seals what it sends to other clusters, which learn it with its address. So a sender proves that it
got the keys over the control links, and the keys are as safe as these links. Without a key (`sealed = false`,
or a peer of an earlier version), a datagram is accepted by its address: from a host while the control link to
it is up and comes from the same IP address, from a server at its known address.

The driver has the sockets, or the simulated network. It passes received datagrams and its nodes' effects to
this core, and performs what the core orders through `ChannelPort`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.errors import BadInput
from rostra.names import ROOT, Domain, Group, parent
from rostra.names.addresses import TcpAddress, parse_tcp
from rostra.protocols.channel.messages import (
    ALL,
    LAN,
    PLACES_MAX,
    WIDE,
    Call,
    ChannelMessage,
    Datagram,
    Directory,
    Probe,
    Unreadable,
)
from rostra.protocols.channel.reachability import TRY_S, ReachabilityTable
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.links.packets import Hello

LEAVING_S: Final = 1.5
"""So long after its last datagram a host without members is sent what is sent in a group: it repeats itself
once a second until it knows that all others have everything."""

LISTENERS_MAX: Final = 1024
"""Groups whose hosts are remembered within a turn."""

Place = tuple[str, int]
"""IP address and port."""

Frame = Sequence[Any]
"""A datagram as the driver sends it: pieces, one after the other."""


class Codec(Protocol):
    """Encodes and decodes datagrams."""

    def pack(
        self, group: Group, source: Domain, to: Domain, messages: Iterable[AnyDataMessage], key: bytes
    ) -> Iterator[Frame]: ...

    def word(self, group: Group, source: Domain, to: Domain, word: ChannelMessage, key: bytes) -> Frame: ...

    def read(self, octets: Any, key_of: Any) -> Datagram | Unreadable: ...


class ChannelPort(Protocol):
    """What the channel needs of the driver it runs in."""

    @property
    def now(self) -> Instant: ...

    @property
    def turn(self) -> int:
        """Grows with each turn: within one, nodes' members do not change."""

    @property
    def agent(self) -> Domain | None:
        """The agent among our nodes."""

    def is_here(self, path: Domain) -> bool:
        """Is it one of our nodes?"""

    def is_up(self, node: Domain, peer: Domain) -> bool:
        """Is the control link of our node to this neighbour up?"""

    def peer_ip(self, node: Domain, peer: Domain) -> str | None:
        """The IP address of the neighbour's connection; None if there is none."""

    def receiving_hosts(self, node: Domain, group: Group) -> set[Domain]:
        """The other hosts of our node's LAN that have members in the group, as our node knows them."""

    def deliver(
        self, node: Domain, group: Group, source: Domain, messages: tuple[AnyDataMessage, ...]
    ) -> None:
        """To one of our nodes, after what is being done now."""

    def send(self, to: Place, frame: Frame) -> None: ...

    def send_wide(self, cluster: Domain, to: Place, frame: Frame) -> None:
        """To the group in which the servers of several clusters listen."""

    def listen(self, lan: Domain, group: Place, server: Place) -> None:
        """Open the multicast sockets of this LAN, for receiving and sending; raises `BadInput`."""

    def open(self) -> None:
        """Open the unicast socket, unless it is open."""

    def flush_at_end_of_turn(self) -> None:
        """Call `flush` then."""

    def locate(self, who: Domain, at: TcpAddress) -> None:
        """Look this address up, and call `located_at`."""

    def call_again(self) -> None:
        """Call `call_again` in `TRY_S`."""

    def count(self, what: str) -> None:
        """A datagram was ignored."""

    def note(self, what: str, **values: object) -> None: ...

    def note_rarely(self, key: str, what: str, **values: object) -> None: ...


class ChannelCore:
    def __init__(self, port: ChannelPort, codec: Codec) -> None:
        self._port = port
        self._codec = codec
        self._places: dict[Domain, Place] = {}
        self._queued: dict[tuple[tuple[Domain, ...], Domain, Group, Domain], list[AnyDataMessage]] = {}
        self._listeners: dict[tuple[Domain, Group], tuple[int, list[Domain]]] = {}  # and in which turn
        # Hosts without members, and when each was last received from.
        self._leaving: dict[tuple[Domain, Group], dict[Domain, Instant]] = {}
        self._keys: dict[Domain, bytes] = {}  # of LANs, as received from their servers; our own among them
        self._wide_keys: dict[Domain, bytes] = {}  # of clusters, as received from them; our own among them
        self._groups: dict[Domain, Place] = {}  # the multicast group of each LAN in which we listen
        self._wide_groups: dict[Domain, Place] = {}  # of clusters: ours, and others as received from them
        self._hosts: dict[Domain, ReachabilityTable] = {}  # of the clusters served here
        self.modes: dict[Domain, str] = {}  # and how they are reached
        self._working: dict[Domain, bool] = {}  # hosts: does multicast work both ways, as was last noted?
        self._probe_due: Instant = 0.0
        self._directory: Directory | None = None  # as received from our agent's server
        self._probe_received = 0  # the last one of that server
        self._calling = False

    # Beginning and end

    def seal(self, cluster: Domain, key: bytes, wide_key: bytes) -> None:
        """The keys of a cluster that is served here."""
        self._keys[cluster], self._wide_keys[cluster] = key, wide_key

    def serve(
        self, cluster: Domain, mode: str, group: Place | None, at: Place, *, first_probe: int, why: str
    ) -> None:
        """Serve this LAN in this mode. `auto` is multicast, or reflection where the multicast sockets cannot
        be opened. `group`: the multicast address of the LAN. `first_probe`: any number to count probes
        from."""
        self._hosts[cluster] = ReachabilityTable(certain=mode == "multicast", first=first_probe)
        if mode in ("auto", "multicast"):
            try:
                if group is None:
                    raise BadInput("multicast is for IPv4")
                self._listen(cluster, group, at)
                mode = "multicast"
            except BadInput as error:
                if mode == "multicast":
                    raise
                mode, why = "reflect", error.what
        self.modes[cluster] = mode
        self._port.note("data_mode", node=cluster, mode=mode, because=why)

    def serve_wide(self, cluster: Domain, group: Place) -> None:
        """The multicast group in which this cluster's server receives from those of other clusters."""
        self._wide_groups[cluster] = group

    def serve_no_longer(self, cluster: Domain) -> None:
        """Another replica is the server of this LAN."""
        for table in (self._hosts, self.modes, self._groups):
            table.pop(cluster, None)

    def _listen(self, lan: Domain, group: Place, server: Place) -> None:
        self._groups.pop(lan, None)
        self._port.listen(lan, group, server)
        self._groups[lan] = group

    def located_at(self, who: Domain, place: Place) -> None:
        """The address of this cluster's server was resolved."""
        self._places[who] = place

    def located(self, lan: Domain, at: TcpAddress, key: bytes, multicast: TcpAddress | None) -> None:
        """Another cluster announced the address, the key and the multicast group of its data channel."""
        self._port.locate(lan, at)
        self._wide_keys[lan] = key
        self._wide_groups.pop(lan, None)
        if multicast is not None:
            self._wide_groups[lan] = (multicast.host, multicast.port)

    # Keys

    def introduce(self, node: Domain, peer: Domain, hello: Hello) -> Hello:
        """The Hello of a control link that we send: to a host of our LAN with the LAN's key."""
        key = self._keys.get(node, b"")
        if node == self._port.agent or not key or peer == ROOT or parent(peer) != node:
            return hello
        return replace(hello, key=key)

    def met(self, node: Domain, hello: Hello) -> Hello:
        """A Hello that we received: keep the key in it, and return it without."""
        if node == self._port.agent and hello.path == parent(node):
            self._keys[hello.path] = hello.key
        return replace(hello, key=b"") if hello.key else hello

    def _key(self, source: Domain, to: Domain) -> bytes:
        """The key for datagrams of this source to this destination; empty if there is none."""
        if source != ROOT and (key := self._keys.get(parent(source))):
            return key
        if to in (LAN, ALL) or (to != ROOT and parent(to) == source):
            return self._keys.get(source, b"")
        return self._wide_keys.get(source, b"")

    # From the nodes

    def cast(self, node: Domain, group: Group, message: AnyDataMessage) -> None:
        """Send to all hosts of the LAN that have members, and to its server, in the LAN's mode."""
        port = self._port
        if node != port.agent:
            agent = self._own_agent(node, group)
            if agent is not None:
                port.deliver(agent, group, node, (message,))
            self._spread(node, node, group, (message,))
            return
        lan = parent(node)
        if port.is_here(lan):
            self._take(lan, Datagram(group, node, LAN, (message,)), None)
            return
        told = self._directory
        if told is not None and told.mode == "multicast" and told.audible and lan in self._groups:
            self._queue((ALL,), node, group, ALL, message)
        elif (
            told is not None
            and told.mode == "fanout"
            and all(other in self._places for other in self._others(node, group))
        ):
            self._queue((lan, *self._others(node, group)), node, group, ALL, message)
        else:  # the server knows where all of them are
            self._queue((lan,), node, group, LAN, message)

    def transmit(self, node: Domain, to: Domain, group: Group, message: AnyDataMessage) -> None:
        via = parent(node) if node == self._port.agent else to
        if self._port.is_here(via):
            self._take(via, Datagram(group, node, to, (message,)), None)
        else:
            self._queue((via,), node, group, to, message)

    def broadcast(self, node: Domain, to: tuple[Domain, ...], group: Group, message: AnyDataMessage) -> None:
        """Send to servers of other clusters: by one multicast to those in our multicast group, and to each of
        the others."""
        at_once = self.reached_at_once(node, to)
        if len(at_once) > 1:
            self._queue((WIDE,), node, group, WIDE, message)
        else:
            at_once = []
        for lan in to:
            if lan not in at_once:
                self.transmit(node, lan, group, message)

    def reached_at_once(self, cluster: Domain, others: Iterable[Domain]) -> list[Domain]:
        """Those of these clusters whose servers receive in the same multicast group as ours."""
        where = self._wide_groups.get(cluster)
        if where is None:
            return []
        return [lan for lan in others if self._wide_groups.get(lan) == where and not self._port.is_here(lan)]

    def _spread(
        self, server: Domain, source: Domain, group: Group, messages: Iterable[AnyDataMessage]
    ) -> None:
        """From the server to every host of the LAN that has members, except the sender's."""
        by_multicast, each = self._paths_to(server, group, source)
        for message in messages:
            if by_multicast:
                self._queue((ALL,), source, group, ALL, message)
            if each:
                self._queue(each, source, group, LAN, message)

    def _paths_to(self, lan: Domain, group: Group, source: Domain) -> tuple[bool, tuple[Domain, ...]]:
        """How to reach the receiving hosts outside this process: whether by multicast, and which by
        unicast."""
        far = [h for h in self._receiving(lan, group) if h != source and not self._port.is_here(h)]
        if lan not in self._groups:
            return False, tuple(far)
        deaf = [host for host in far if not self._hosts[lan].hears(host)]
        if len(far) - len(deaf) < 2:
            return False, tuple(far)
        return True, tuple(deaf)

    def _queue(
        self, via: tuple[Domain, ...], source: Domain, group: Group, to: Domain, message: AnyDataMessage
    ) -> None:
        if not self._queued:
            self._port.flush_at_end_of_turn()
        self._queued.setdefault((via, source, group, to), []).append(message)

    def flush(self) -> None:
        """End of the turn: pack what is queued into datagrams, and send them."""
        queued, self._queued = self._queued, {}
        for (via, source, group, to), messages in queued.items():
            key = self._key(source, to)
            for frame in self._codec.pack(group, source, to, messages, key):
                for each in via:
                    self._send(each, source, frame)

    def _send(self, via: Domain, source: Domain, frame: Frame) -> None:
        if via == WIDE:
            place = self._wide_groups.get(source)
        elif via == ALL:
            place = self._groups.get(source) or (None if source == ROOT else self._groups.get(parent(source)))
        else:
            place = self._places.get(via)
        if place is None:
            self._port.count("unknown address")
        elif via == WIDE:
            self._port.send_wide(source, place, frame)
        else:
            self._port.send(place, frame)

    # Where hosts are, and how their LAN is reached

    def entered(self, group: Group) -> None:
        """A program of our agent enters a group: send our address to the cluster's server, now and from time
        to time."""
        self._call(group)
        if not self._calling:
            self._calling = True
            self._port.call_again()

    def call_again(self, group: Group | None) -> None:
        """Time for the next `Call`. `group`: any group that our programs are in; None ends the calls."""
        self._calling = group is not None
        if group is not None:
            self._call(group)
            self._port.call_again()

    def _call(self, group: Group) -> None:
        """Send `Call` to our server; if we listen for multicast, by multicast as well, to try that
        direction."""
        agent = self._port.agent
        assert agent is not None, "only agents call"
        lan = parent(agent)
        if self._port.is_here(lan):
            return
        self._port.open()
        for via, to in ((lan, lan), (ALL, ALL))[: 1 + (lan in self._groups)]:
            call = self._codec.word(group, agent, to, Call(self._probe_received), self._key(agent, to))
            self._send(via, agent, call)

    def _call_came(self, lan: Domain, datagram: Datagram, call: Call, *, by_multicast: bool) -> None:
        host, table = datagram.source, self._hosts.get(lan)
        if table is None:
            return
        news = table.called(host, call.heard, by_multicast=by_multicast)
        self._answer(lan, host, datagram.group)
        if by_multicast and not table.hears(host):
            self._probe(lan, datagram.group)  # it listens by now
        if news and self._sends_addresses(lan):
            for other in table.hosts:
                self._answer(lan, other, datagram.group)

    def _answer(self, lan: Domain, host: Domain, group: Group) -> None:
        mode, table = self.modes[lan], self._hosts[lan]
        multicast = str(TcpAddress(*self._groups[lan])) if lan in self._groups else ""
        others = (
            [h for h in table.hosts if h != host and h in self._places] if self._sends_addresses(lan) else []
        )
        for first in range(0, max(1, len(others)), PLACES_MAX):
            hosts = tuple([(h, *self._places[h]) for h in others[first : first + PLACES_MAX]])
            directory = Directory(mode, multicast, bool(multicast) and table.is_heard(host), hosts)
            self._send(host, lan, self._codec.word(group, lan, host, directory, self._key(lan, host)))

    def _sends_addresses(self, lan: Domain) -> bool:
        """Do the hosts of this LAN need each other's addresses: to send to them, or to accept unsealed
        datagrams?"""
        return self.modes[lan] == "fanout" or (self.modes[lan] == "multicast" and not self._keys.get(lan))

    def _probe(self, lan: Domain, group: Group) -> None:
        probe = Probe(self._hosts[lan].probe)
        self._send(ALL, lan, self._codec.word(group, lan, ALL, probe, self._key(lan, ALL)))

    def _directory_came(self, agent: Domain, group: Group, directory: Directory) -> None:
        """Our server sent its `Directory`: how this LAN is reached."""
        lan, before = parent(agent), self._directory
        where = parse_tcp(directory.multicast) if directory.multicast else None
        if where is not None and self._groups.get(lan) != (where.host, where.port):
            try:
                self._listen(lan, (where.host, where.port), self._places[lan])
            except BadInput as error:
                self._port.note_rarely("data_mode", "data_mode", mode="reflect", because=error.what)
            else:
                self._call(group)
        for host, address, port in directory.hosts:
            if parent(host) == lan:
                self._places[host] = (address, port)
        self._directory = directory
        mode = _in_effect(directory)
        if before is None or _in_effect(before) != mode:
            self._port.note("data_mode", node=agent, mode=mode, because=f"{lan} says so")

    # From the network

    def arrived(self, octets: Any, sender: Place, *, by_multicast: bool) -> None:
        port = self._port
        datagram = self._codec.read(octets, self._key)
        if isinstance(datagram, Unreadable):
            port.count(datagram.why)
            return
        if datagram.to == WIDE:
            self._take_wide(datagram, sender)
            return
        node, word = self._receiver_of(datagram), datagram.word
        is_agent = node is not None and node == port.agent
        if is_agent and isinstance(word, Call):
            return  # another host, to our server
        if node is None:
            port.count("not for us")
        elif not self._is_authentic(node, datagram, sender):
            port.count("a stranger")
        elif word is None:
            self._take(node, datagram, octets)
        elif is_agent:
            if isinstance(word, Directory):
                self._directory_came(node, datagram.group, word)
            elif isinstance(word, Probe):
                first, self._probe_received = self._probe_received == 0, word.number
                if first:
                    self._call(datagram.group)
        elif isinstance(word, Call):
            if not by_multicast:
                self._places[datagram.source] = sender
            self._call_came(node, datagram, word, by_multicast=by_multicast)

    def _take_wide(self, datagram: Datagram, sender: Place) -> None:
        """A datagram to the multicast group between clusters, for every cluster that is served here."""
        here = [each for each in self.modes if each in self._wide_groups and each != datagram.source]
        for cluster in here if datagram.word is None and datagram.messages else ():
            if self._is_authentic(cluster, datagram, sender):
                self._port.deliver(cluster, datagram.group, datagram.source, datagram.messages)
            else:
                self._port.count("a stranger")

    def _receiver_of(self, datagram: Datagram) -> Domain | None:
        """Which node of this process a datagram is for: the server of the sender's LAN, the server of the
        cluster it is addressed to, or our agent. None if it is for none of them."""
        port, source, to = self._port, datagram.source, datagram.to
        if port.is_here(source):
            return None
        # Only clusters have a LAN: a server above them may be here too.
        if source != ROOT and parent(source) in self.modes:
            return parent(source)
        if to in self.modes:
            return to
        agent = port.agent
        if agent is None or to not in (LAN, ALL, agent):
            return None
        lan = parent(agent)
        return agent if source == lan or parent(source) == lan else None

    def _is_authentic(self, node: Domain, datagram: Datagram, sender: Place) -> bool:
        """Is the datagram from its source? Its seal was checked when it was decoded. `Call` and `Directory`
        carry addresses, so they must also come from the right one: an old `Call`, replayed from elsewhere,
        must not redirect a stream."""
        port, source = self._port, datagram.source
        sealed = bool(self._key(source, datagram.to)) and not isinstance(datagram.word, Call | Directory)
        if node == port.agent:
            lan = parent(node)
            if not port.is_up(node, lan) or (datagram.word is not None and source != lan):
                return False  # only the LAN's server may send a message about the channel
            return sealed or sender in (self._places.get(lan), self._places.get(source))
        if parent(source) != node:
            return sealed or self._places.get(source) == sender
        ip = port.peer_ip(node, source)
        if ip is None or not port.is_up(node, source):
            return False
        return sealed or ip == sender[0]

    def _take(self, node: Domain, datagram: Datagram, octets: Any) -> None:
        """Deliver a datagram to one of our nodes. The server of the sender's LAN also forwards it."""
        group, source, to = datagram.group, datagram.source, datagram.to
        is_agent = node == self._port.agent
        if not datagram.messages:
            return
        if not is_agent and parent(source) == node:
            if to in (LAN, ALL) and source not in self._receiving(node, group):
                self._leaving.setdefault((node, group), {})[source] = self._port.now
            if to != node:
                self._pass_on(node, datagram, octets)
        if is_agent or to in (LAN, ALL, node):
            self._port.deliver(node, group, source, datagram.messages)

    def _pass_on(self, server: Domain, datagram: Datagram, octets: Any) -> None:
        group, source, to = datagram.group, datagram.source, datagram.to
        to_all = to in (LAN, ALL)
        agent = self._own_agent(server, group)
        if agent is not None and agent != source and (to_all or to == agent):
            self._port.deliver(agent, group, source, datagram.messages)
        if not to_all:
            if self._port.is_here(to):
                return
            if parent(to) != server:
                self._port.count("not for us")
            elif octets is not None:
                self._send(to, source, [octets])
            else:
                for message in datagram.messages:
                    self._queue((to,), source, group, to, message)
            return
        if octets is None:
            self._spread(server, source, group, datagram.messages)
            return
        by_multicast, each = self._paths_to(server, group, source)
        if to == ALL:  # the hosts that multicast reaches have it
            each = tuple([h for h in each if not self._hosts[server].hears(h)])
            by_multicast = False
            if self.modes[server] == "fanout":
                return
        if by_multicast:
            self._send(ALL, source, [octets])
        for host in each:
            self._send(host, source, [octets])

    def _own_agent(self, server: Domain, group: Group) -> Domain | None:
        """The agent of this process, if it is of this server's LAN and has members in the group."""
        agent = self._port.agent
        return agent if agent is not None and agent in self._receiving(server, group) else None

    def _receiving(self, server: Domain, group: Group) -> list[Domain]:
        """The hosts of a server's LAN that have members in the group, looked up once per turn; and those
        whose members left a moment ago, which wait until their last messages are acknowledged."""
        turn, hosts = self._listeners.get((server, group), (0, []))
        if turn != self._port.turn:
            among = self._port.receiving_hosts(server, group)
            hosts = sorted(among.union(self._leaving.get((server, group), ())))
            self._remember(server, group, hosts)
        return hosts

    def _others(self, agent: Domain, group: Group) -> list[Domain]:
        """The other hosts of the agent's LAN that have members in the group, as the agent knows them."""
        turn, hosts = self._listeners.get((agent, group), (0, []))
        if turn != self._port.turn:
            hosts = sorted(self._port.receiving_hosts(agent, group))
            self._remember(agent, group, hosts)
        return hosts

    def _remember(self, node: Domain, group: Group, hosts: list[Domain]) -> None:
        if len(self._listeners) >= LISTENERS_MAX:
            self._listeners.clear()
        self._listeners[node, group] = (self._port.turn, hosts)

    # As time passes

    @property
    def wants_ticks(self) -> bool:
        """Does anything depend on time now?"""
        return bool(self._leaving) or any(
            lan in self._groups and table.hosts for lan, table in self._hosts.items()
        )

    def tick(self) -> None:
        now = self._port.now
        for where, hosts in list(self._leaving.items()):
            for gone in [host for host, at in hosts.items() if now - at > LEAVING_S]:
                del hosts[gone]
            if not hosts:
                del self._leaving[where]
        if self._groups and now >= self._probe_due:
            self._probe_due = now + TRY_S
            for lan, table in self._hosts.items():
                if lan in self._groups and table.hosts:
                    table.next_probe()
                    self._probe(lan, Group("rostra.probe", lan))
                    self._note_who_hears(lan, table)

    def _note_who_hears(self, lan: Domain, table: ReachabilityTable) -> None:
        """Log for each host whether multicast works both ways: once per change, and only when it was
        tried."""
        for host in table.hosts:
            works = table.hears(host) and table.is_heard(host)
            if works is not self._working.get(host) and (works or table.was_tried(host)):
                self._working[host] = works
                because = f"hears it: {_yes(table.hears(host))}, heard: {_yes(table.is_heard(host))}"
                if works:
                    self._port.note("multicast_works", node=lan, host=host, because=because)
                else:
                    self._port.note("multicast_fails", node=lan, host=host, because=because)
        for gone in [host for host in self._working if host not in table.hosts and parent(host) == lan]:
            del self._working[gone]

    def document(self, node: Domain) -> dict[str, Any]:
        """Mode, keys and reachability of this node's data channel, for `inspect`."""
        is_agent = node == self._port.agent
        sealed = bool(self._keys.get(parent(node) if is_agent else node))
        if is_agent:
            told = self._directory
            return {"mode": None if told is None else _in_effect(told), "sealed": sealed}
        table = self._hosts.get(node)
        if table is None:
            return {}
        between = self._wide_groups.get(node)
        return {
            "mode": self.modes[node],
            "between": "tree" if between is None else str(TcpAddress(*between)),
            "sealed": sealed,
            "hosts": {
                host: {"hears_multicast": table.hears(host), "is_heard": table.is_heard(host)}
                for host in table.hosts
                if node in self._groups
            },
        }


def _in_effect(directory: Directory) -> str:
    """The mode of an agent: one whose multicast is not received sends everything to its server."""
    return "reflect" if directory.mode == "multicast" and not directory.audible else directory.mode


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
