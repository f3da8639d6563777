"""The member machine at a member (table 4.3): every other sender of the group, as one receiver has it; or as
several do, who share it because they are on one host (`audience.py`).

                     start known, not noticed
      none ───────────────────────▶ 2 SEMI ── noticed: Joined, then what was held ──┐
       │ noticed, no start                                                          ▼
       ├─────────────▶ 1 ANNOUNCED ── start ──────────────────────────────────▶ 3 ACTIVE
       │ noticed with its number                                                  ▲   │
       └──────────────────────────────────────────────────────────────────────────┘   │ left, failed, cut off
                                                                                      ▼
                                5 ENDED ◀── nothing owed, final reached, time ── 4 DRAINING

Who only receives has no machine: it is in the view, and that is all (X-053).

An ended stream that was lost with a domain is remembered with its last number, so that its return says what
was missed, if anything (X-064).
"""

from collections.abc import Sequence
from enum import IntEnum
from math import inf

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.groups.attributes import Role
from rostra.groups.members import Member, Stamp
from rostra.names import Domain, Endpoint
from rostra.protocols.fifo.audience import HostVoice, Reader
from rostra.protocols.fifo.events import Delivered, Gap, Joined, Left
from rostra.protocols.fifo.origins import Origins
from rostra.protocols.fifo.voice import Alarm, is_aggregate, lan_of
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.fragments import NUMBER, RANGES_MAX, held, places, places_of, questions
from rostra.protocols.flow.messages import Below, Data, Have, Nak, Pulse, Range, Run, Status, Stream
from rostra.protocols.flow.recovery import Hole, Promises
from rostra.protocols.flow.runs import cut
from rostra.protocols.flow.streams import Inbound

ENTRIES_MAX = 64
"""Streams in one status message."""

BELOWS_MAX = 3
"""So many questions must a delegate have answered with that it no longer has what we miss before we believe
that it is lost."""


CAUGHT_UP = 5
"""So often does a receiver whose backlog was on disk say that it has all of it. If they are all lost, the
disk keeps the rest until there is something new to confirm."""


class Phase(IntEnum):
    ANNOUNCED = 1
    SEMI = 2
    ACTIVE = 3
    DRAINING = 4


class Belows(Struct):
    """How often the delegate said of what we miss next that it no longer has it: once for each question, in
    however many datagrams it was asked and answered, and whoever else of our host asks as well."""

    next: int = 0
    asked_at: Instant = 0.0
    times: int = 0

    def count(self, hole: Hole) -> int:
        if hole.first != self.next:
            self.next, self.times = hole.first, 0
        elif hole.asked_at == self.asked_at:
            return self.times
        self.asked_at = hole.asked_at
        self.times += 1
        return self.times


class Sender:
    """One machine."""

    __slots__ = (
        "begins",
        "behind",
        "belows",
        "drained",
        "endpoint",
        "final",
        "inbound",
        "is_aggregate",
        "lan",
        "meta",
        "overdue",
        "parted",
        "phase",
        "promises",
        "repaired",
        "role",
        "stamp",
        "why",
    )

    def __init__(self, endpoint: Endpoint, stamp: Stamp, role: Role, meta: bytes, phase: Phase) -> None:
        self.endpoint = endpoint
        self.is_aggregate = is_aggregate(endpoint)  # then others speak through it (`origins.py`)
        self.lan = lan_of(endpoint)
        self.stamp = stamp
        self.role = role
        self.meta = meta
        self.phase = phase
        self.inbound: Inbound | None = None
        self.promises = Promises()
        self.begins: dict[Endpoint, float] = {}  # readers who came later: from where on they are concerned
        self.parted = False  # of a draining one: those who have all of it were told that it left
        self.why = ""  # of a draining one: left | failed | disconnected
        self.final: int | None = None  # no number above this one will be delivered
        self.behind = 0  # how often our delegate is still told that we need nothing from its disk
        self.belows = Belows()
        self.drained = 0  # of a draining one: how far it was when we last looked
        self.repaired = 0  # messages that were lost on their way and came by repair
        self.overdue = False  # semi-active, and its notice should have come

    @property
    def acknowledged(self) -> int:
        """The next number it is owed. What the program has not had is still owed, unless it is only held back
        until we may say who sent it (X-017)."""
        assert self.inbound is not None
        return self.inbound.next if self.phase is Phase.SEMI else self.inbound.owed


class EndedStream(Struct, frozen=True):
    stamp: Stamp
    last: int
    cut_off: bool
    until: Instant


class Senders:
    def __init__(self, voice: HostVoice, early: Early, *, listens: bool, spilled: bool = False) -> None:
        self._voice = voice
        self._audience = voice.audience
        self._config = voice.config
        self._spilled = spilled  # what we do not take in time is on our delegate's disk (`spill.py`)
        self._listens = listens  # a member that only sends is delivered nothing
        self.early = early
        self.running: dict[Stream, Sender] = {}
        self.ended: dict[Stream, EndedStream] = {}
        self.origins = Origins(voice)
        self._farewells: dict[Stream, tuple[int, Instant]] = {}  # ended, and home may not know we have all
        self._troubled: dict[Stream, Sender] = {}  # with holes, or with repairs promised
        self._recover = Alarm(voice, "recover")
        self._status = Alarm(voice, "status")
        self._since_status = self._bytes_since_status = 0
        self._status_messages = voice.config.status_messages

    # Membership

    def announce(self, member: Member, role: Role) -> None:
        """Noticed, and its number has to be asked for: what comes meanwhile is kept early."""
        endpoint, stamp = member.endpoint, member.stamp
        self.running[endpoint] = Sender(endpoint, stamp, role, member.meta, Phase.ANNOUNCED)

    def begin(self, member: Member, role: Role, start: int) -> None:
        """Noticed, and its number is known: the stream flows from `start` on."""
        endpoint, stamp = member.endpoint, member.stamp
        sender = Sender(endpoint, stamp, role, member.meta, Phase.ACTIVE)
        self.running[endpoint] = sender
        resumed = False
        before = self.ended.pop(endpoint, None)
        if before is not None and before.cut_off and before.stamp == stamp:
            resumed = start <= before.last + 1
            if not resumed:
                self._voice.tell(Gap(endpoint, before.last + 1, start - 1))
        start = _not_again(before, start)
        self._voice.tell(Joined(endpoint, sender.role, sender.meta, resumed))
        self._open(sender, start)

    def begin_own(self, member: Member, role: Role, start: int, stable: int) -> None:
        """One of ours was alone so far, and is heard by a fellow from now on. Its home may wait for us to say
        that we miss nothing of what came before."""
        if member.endpoint not in self.running:
            sender = Sender(member.endpoint, member.stamp, role, member.meta, Phase.ACTIVE)
            self.running[member.endpoint] = sender
            sender.inbound = Inbound(start)
            sender.inbound.stable = stable
            self._status.at(self._voice.now + self._config.status_s)

    def end_own(self, endpoint: Endpoint) -> None:
        """One of ours is alone again, and nobody hears it here."""
        sender = self.running.get(endpoint)
        if sender is not None:
            self._voice.cancel_timer("drain", endpoint)
            self.forget(sender)

    @property
    def announced(self) -> frozenset[Endpoint]:
        """Those whose streams have not begun."""
        return frozenset([who for who, each in self.running.items() if each.phase is Phase.ANNOUNCED])

    def begin_unnoticed(self, endpoint: Endpoint, stamp: Stamp, role: Role, start: int) -> None:
        """Its number is known before its notice came: hold what it says (TX-1)."""
        sender = self.running[endpoint] = Sender(endpoint, stamp, role, b"", Phase.SEMI)
        self._voice.set_timer(self._config.semi_wait_s, "semi", endpoint)
        self._open(sender, _not_again(self.ended.get(endpoint), start))

    def noticed(self, sender: Sender, meta: bytes) -> None:
        """The notice that a semi-active sender waited for: `Joined` first, what was held after it (X-017)."""
        assert sender.phase is Phase.SEMI and sender.inbound is not None
        self._voice.cancel_timer("semi", sender.endpoint)
        sender.phase, sender.meta = Phase.ACTIVE, meta
        before = self.ended.pop(sender.endpoint, None)
        resumed = False
        if before is not None and before.cut_off and before.stamp == sender.stamp:
            resumed = sender.inbound.start <= before.last + 1
            if not resumed:
                self._voice.tell(Gap(sender.endpoint, before.last + 1, sender.inbound.start - 1))
        self._voice.tell(Joined(sender.endpoint, sender.role, sender.meta, resumed))
        self._deliver(sender)

    def _open(self, sender: Sender, start: int) -> None:
        sender.inbound = Inbound(start)
        for run in self.early.take(sender.endpoint):
            sender.inbound.take(run, self._config.held_messages)
            # Nothing more may come for a long time, and home must know that we have this.
            self._status.at(self._voice.now + self._config.status_s)
        self._progress(sender)

    def left(self, endpoint: Endpoint, why: str, last_seq: int | None) -> None:
        """It is gone: left | failed | disconnected. Everything up to `last_seq` is still owed (X-048)."""
        sender = self.running.get(endpoint)
        if sender is None:
            return
        inbound = sender.inbound
        match sender.phase:
            case Phase.ANNOUNCED | Phase.SEMI:
                # The user never heard of it (TX-5).
                self.forget(sender)
            case Phase.DRAINING:
                if why == "disconnected" and inbound is not None:
                    sender.final = min(sender.final or inbound.high, inbound.high)
                    self._end_if_drained(sender)
            case Phase.ACTIVE:
                assert inbound is not None
                sender.phase, sender.why = Phase.DRAINING, why
                match why:
                    case "left":
                        sender.final = last_seq if last_seq is not None else inbound.high
                        inbound.hear_high(sender.final)
                    case "disconnected":
                        # What it goes on saying is not for us any more; it may be if it comes back (TX-21).
                        sender.final = inbound.high
                    case _:
                        # Its home delegate finds out what is left of it, and says so.
                        sender.final = None
                for_s = self._config.farewell_s if why == "left" else self._config.drain_s
                self._voice.set_timer(for_s, "drain", endpoint)
                self._look_for_holes(sender)
                self._end_if_drained(sender)

    def home_lost(self, lan: Domain) -> None:
        """With its LAN goes whoever could have repaired the last messages of one who left it."""
        for sender in [self.running[stream] for stream in sorted(self.running)]:
            if sender.lan == lan and sender.phase is Phase.DRAINING:
                self._voice.set_timer(self._config.drain_s, "drain", sender.endpoint)

    def left_unnoticed(self, endpoint: Endpoint, stamp: Stamp) -> None:
        """A leave of somebody whose join we have not been told of: as if it had never been (TX-5)."""
        sender = self.running.get(endpoint)
        if sender is not None and sender.phase is Phase.SEMI and sender.stamp < stamp:
            self.forget(sender)

    def cut_short(self, endpoint: Endpoint) -> None:
        """It is back before its end was told: tell the end now, and first what is here of it, read or not."""
        sender = self.running.get(endpoint)
        if sender is not None and sender.phase is Phase.DRAINING:
            assert sender.inbound is not None
            self._hold_back(sender, sender.inbound)
            for run in sender.inbound.hand_on():
                self._hand_on(sender, run)
            self._end(sender)

    def forget(self, sender: Sender) -> None:
        """Without a word: the user was never told of it."""
        if sender.phase is Phase.SEMI:
            self._voice.cancel_timer("semi", sender.endpoint)
        self._drop(sender)

    def semi_timed_out(self, endpoint: Endpoint) -> bool:
        """Is this one still waiting for its notice? Then one question decides (X-018)."""
        sender = self.running.get(endpoint)
        if sender is None or sender.phase is not Phase.SEMI:
            return False
        sender.overdue = True
        return True

    def forget_overdue(self) -> None:
        for sender in [self.running[stream] for stream in sorted(self.running)]:
            if sender.phase is Phase.SEMI and sender.overdue:
                self.forget(sender)

    def drain_timed_out(self, endpoint: Endpoint) -> None:
        sender = self.running.get(endpoint)
        if sender is None or sender.phase is not Phase.DRAINING:
            return
        inbound = sender.inbound
        assert inbound is not None
        progress = self._spilled and inbound.told > sender.drained
        if progress or (not self._audience.reading and inbound.told < inbound.next):
            # Time is for what is missing. What is here, and not read yet, is owed for as long as it takes;
            # and so is what is on its way from our delegate's disk.
            sender.drained = inbound.told
            self._voice.set_timer(self._config.drain_s, "drain", endpoint)
        else:
            sender.final = inbound.told - 1
            self._end_if_drained(sender)

    def _end_if_drained(self, sender: Sender) -> None:
        inbound = sender.inbound
        if inbound is None or sender.final is None or inbound.told <= sender.final:
            return
        if not inbound.lagging:
            self._end(sender)
        elif not sender.parted:
            # Some readers have yet to take the rest of it; the others need not wait for them.
            sender.parted = True
            self._tell_left(sender, [each for each in self._audience.ready if each.me not in inbound.lagging])

    def _tell_left(self, sender: Sender, readers: list[Reader]) -> None:
        """Once to each: nothing more of it concerns who was told."""
        assert sender.inbound is not None
        left = Left(sender.endpoint, sender.why, sender.inbound.told - 1)
        for reader in readers:
            if sender.begins.get(reader.me, 0) < inf:
                sender.begins[reader.me] = inf
                self._voice.tell_one(reader, left)

    def _end(self, sender: Sender) -> None:
        assert sender.inbound is not None
        self._voice.cancel_timer("drain", sender.endpoint)
        behind = [each for each in self._audience.ready if each.me in sender.inbound.lagging]
        for reader in behind:
            self._catch_up(sender, reader)
        self._drop(sender)
        last = sender.inbound.told - 1
        if sender.is_aggregate:
            self.origins.ended(sender.endpoint, sender.inbound.stable)
        until = self._voice.now + self._config.remember_s
        self.ended.pop(sender.endpoint, None)
        self.ended[sender.endpoint] = EndedStream(sender.stamp, last, sender.why == "disconnected", until)
        if sender.why != "disconnected" and (last > sender.inbound.stable or sender.behind):
            self._farewells[sender.endpoint] = (last + 1, self._voice.now + self._config.linger_s)
            self.say_status()
        self._tell_left(sender, behind if sender.parted else list(self._audience.ready))

    def _drop(self, sender: Sender) -> None:
        del self.running[sender.endpoint]
        self._troubled.pop(sender.endpoint, None)
        self.early.take(sender.endpoint)

    # Data

    def data(self, data: Data) -> None:
        sender = self.running.get(data.stream)
        if sender is None or sender.inbound is None:
            self._keep_early(data)
            return
        inbound, run = sender.inbound, data.run
        if (
            run.first == inbound.next == inbound.told == inbound.high + 1
            and sender.phase is Phase.ACTIVE
            and self._audience.reading
        ):
            # The usual case, and the speed of the whole receiving side: the run continues a stream of which
            # nothing is missing. It costs the same whether it holds one message or a thousand.
            if self._audience.holding:
                self._hold_back(sender, inbound)
            inbound.store.append(run)
            inbound.next = inbound.told = end = run.first + run.count
            inbound.high = end - 1
            self._hand_on(sender, run)
            if data.high >= end:
                inbound.high = data.high
                self._look_for_holes(sender)
        else:
            self._take(sender, inbound, data)
        if data.stable > inbound.stable:
            inbound.hear_stable(data.stable)
        self._since_status += run.count
        self._bytes_since_status += len(run.block)
        if (
            self._since_status >= self._status_messages
            or self._bytes_since_status >= self._config.window_bytes // 8
        ):
            self.say_status()
        elif not self._status.is_set:
            self._status.at(self._voice.now + self._config.status_s)

    def _take(self, sender: Sender, inbound: Inbound, data: Data) -> None:
        """Something is missing, or in our way."""
        run = data.run
        if self._has_enough(inbound) and (inbound.told < inbound.next or run.first > inbound.next):
            inbound.hear_high(data.high)
            self._voice.ignore("Data", "no room for what is on disk")
            return
        if sender.final is not None and run.end - 1 > sender.final:
            self._keep_early(data)  # of its next membership, or for when it is back
            return
        if data.repair and sender.promises.promises:
            sender.promises.heard(*places_of(data))
        pieces = inbound.take(run, self._config.held_messages)
        if self._is_read_back(inbound):
            inbound.holes.follows(run.end, self._voice.now + self._config.nak_wait_max_s)
        if data.repair:
            sender.repaired += sum([piece.count for piece in pieces])
        inbound.hear_high(data.high)
        if not pieces:
            if data.repair:
                inbound.holes.put_off([(run.first, run.end - 1)], self._later)
            elif run.end <= inbound.next:
                self._voice.ignore("Data", "duplicate")
        self._progress(sender)

    def pulse(self, pulse: Pulse) -> None:
        sender = self.running.get(pulse.stream)
        if sender is None or sender.inbound is None:
            farewell = self._farewells.get(pulse.stream)
            if farewell is not None and pulse.stable >= farewell[0] - 1:
                del self._farewells[pulse.stream]
            return
        inbound = sender.inbound
        if sender.why != "disconnected" and (sender.final is None or pulse.final):
            inbound.hear_high(pulse.high)
            if pulse.final and sender.phase is Phase.DRAINING:
                sender.final = pulse.high
        if pulse.stable > inbound.stable:
            inbound.hear_stable(pulse.stable)
        self._progress(sender)

    # Readers

    def came(self, reader: Reader) -> None:
        """It is owed what is said from now on. What is here already and waits for others was said before."""
        if not self._audience.reading:
            for sender in self.running.values():
                if sender.inbound is not None and sender.inbound.told < sender.inbound.next:
                    sender.begins[reader.me] = sender.inbound.next
        self._audience.hold(reader)

    def enter(self, readers: Sequence[Reader]) -> None:
        """They have their list, and those who were leaving by then are not in it, nor wait for them."""
        leaving = [each for each in self.running.values() if each.phase is Phase.DRAINING]
        for sender in leaving:
            for reader in readers:
                sender.begins[reader.me] = inf
                if sender.inbound is not None:
                    sender.inbound.lagging.pop(reader.me, None)
        self._read([each for each in readers if not each.paused])
        for sender in leaving:
            if self.running.get(sender.endpoint) is sender:
                self._end_if_drained(sender)

    def hold(self, reader: Reader) -> None:
        """Its program does not read."""
        self._audience.hold(reader)

    def resume(self, reader: Reader) -> None:
        """Its program reads again."""
        self._read([reader])
        self._status.at(self._voice.now)

    def _read(self, readers: Sequence[Reader]) -> None:
        """First what others were told meanwhile, then what nobody was."""
        nobody_read = not self._audience.reading
        for reader in readers:
            self._audience.read(reader)
            held, reader.held = reader.held, []
            for item in held:
                self._voice.tell_one(reader, item)
        for stream in sorted([stream for stream, each in self.running.items() if _has_laggards(each)]):
            sender = self.running[stream]
            assert sender.inbound is not None
            for reader in readers:
                if reader.me in sender.inbound.lagging:
                    self._catch_up(sender, reader)
                    if sender.parted:
                        self._tell_left(sender, [reader])
            if sender.phase is Phase.DRAINING:
                self._end_if_drained(sender)
        if readers and nobody_read:
            self.deliver_all()

    def gone(self, reader: Reader) -> None:
        """Nothing waits for it any more."""
        self._audience.gone(reader)
        owed = [stream for stream, each in self.running.items() if _waits_for(each, reader.me)]
        for stream in sorted(owed):
            sender = self.running[stream]
            sender.begins.pop(reader.me, None)
            if sender.inbound is not None and sender.inbound.lagging.pop(reader.me, None) is not None:
                self._status.at(self._voice.now + self._config.status_s)
                if sender.phase is Phase.DRAINING:
                    self._end_if_drained(sender)

    def _catch_up(self, sender: Sender, reader: Reader) -> None:
        assert sender.inbound is not None
        for run in sender.inbound.catch_up(reader.me):
            if not sender.is_aggregate:  # of those it holds the items already
                self._voice.tell_one(reader, Delivered(sender.endpoint, run))

    def _hold_back(self, sender: Sender, inbound: Inbound) -> None:
        """Before something is handed on: those who do not read now are owed it from here on."""
        for me in self._audience.holding:
            if me != sender.endpoint and me not in inbound.lagging:
                begins = sender.begins.get(me, 0)
                if begins < inf:
                    inbound.lagging[me] = max(inbound.told, int(begins))

    def deliver_all(self) -> None:
        for stream in sorted(self.running):
            sender = self.running.get(stream)
            if sender is not None and sender.inbound is not None:
                self._progress(sender)

    def _keep_early(self, data: Data) -> None:
        if not self._listens:
            return
        ended = self.ended.get(data.stream)
        if ended is not None and not ended.cut_off:
            self._voice.ignore("Data", "stream has ended")
        elif not self.early.keep(data.stream, data.run):
            self._voice.ignore("Data", "no room for early data")

    def _progress(self, sender: Sender) -> None:
        self._deliver(sender)
        inbound = sender.inbound
        assert inbound is not None
        if inbound.next <= inbound.high or inbound.holes.holes:
            self._look_for_holes(sender)
        if sender.phase is Phase.DRAINING:
            self._end_if_drained(sender)

    def _deliver(self, sender: Sender) -> None:
        inbound = sender.inbound
        assert inbound is not None
        if inbound.told < inbound.next and sender.phase is not Phase.SEMI and not self._holds:
            self._hold_back(sender, inbound)
            for run in inbound.hand_on():
                self._hand_on(sender, run)

    def _hand_on(self, sender: Sender, run: Run) -> None:
        if sender.is_aggregate:
            self.origins.hand_on(sender.endpoint, run)
            return
        item, voice = Delivered(sender.endpoint, run), self._voice
        if not sender.begins:
            voice.hand_on(item, sender.endpoint)
            return
        for reader in self._audience.reading.values():
            begins = sender.begins.get(reader.me, 0)
            if begins < run.end and reader.me != sender.endpoint:
                if begins > run.first:
                    voice.tell_one(reader, Delivered(sender.endpoint, cut(run, int(begins), run.end)))
                else:
                    voice.tell_one(reader, item)
                    sender.begins.pop(reader.me, None)

    @property
    def _holds(self) -> bool:
        return not self._audience.reading

    def _look_for_holes(self, sender: Sender) -> None:
        inbound, config = sender.inbound, self._config
        assert inbound is not None
        if not (self._is_read_back(inbound) and inbound.holes.is_open):
            wait = self._voice.luck.between(config.nak_wait_min_s, config.nak_wait_max_s)
            inbound.look_for_holes(config.held_messages, self._voice.now + wait)
        self._watch(sender)

    def _is_read_back(self, inbound: Inbound) -> bool:
        """Is what we need next on our delegate's disk? All of it is, and comes as we confirm it: to ask for
        each number as soon as there is room for it would be a question per message."""
        return self._spilled and inbound.next <= inbound.stable

    def _has_enough(self, inbound: Inbound) -> bool:
        """Nobody waits for one whose backlog is on disk, so nobody but us bounds what it keeps in memory."""
        return self._spilled and inbound.store.bytes >= 2 * self._config.window_bytes

    def _watch(self, sender: Sender) -> None:
        """Wake up when one of its holes or promises is due."""
        assert sender.inbound is not None
        due = [
            each for each in (self._hole_due(sender.inbound), sender.promises.next_due) if each is not None
        ]
        if due:
            self._troubled[sender.endpoint] = sender
            self._recover.at(min(due))
        else:
            self._troubled.pop(sender.endpoint, None)

    def _hole_due(self, inbound: Inbound) -> Instant | None:
        """One that has enough asks only for what it needs next, and when its program has taken the rest."""
        if not self._has_enough(inbound):
            return inbound.holes.next_due
        return inbound.holes.holes[0].due if inbound.holes.holes and inbound.told == inbound.next else None

    def _due(self, inbound: Inbound) -> list[Hole]:
        if not self._has_enough(inbound):
            return inbound.holes.due(self._voice.now, RANGES_MAX)
        due = self._hole_due(inbound)
        return inbound.holes.holes[:1] if due is not None and due <= self._voice.now else []

    def _later(self, times: int) -> Instant:
        """When to ask for something that others asked for, or that was repaired, so many times."""
        config = self._config
        wait = self._voice.luck.between(config.nak_wait_min_s, config.nak_wait_max_s)
        return self._voice.now + wait * min(1 << times, config.backoff_max)

    # Repair

    def recover(self) -> None:
        """Ask for what is due, and repair what nobody else has (X-081)."""
        self._recover.fired()
        now = self._voice.now
        for stream in sorted(self._troubled):
            sender = self._troubled[stream]
            assert sender.inbound is not None
            parts, settle_s = self._voice.parts, self._config.nak_wait_max_s
            due = [
                hole
                for hole in self._due(sender.inbound)
                if not parts.still_coming(now, stream, hole, settle_s)
            ]
            if due:
                attempt = 0
                for hole in due:
                    hole.asked += 1
                    hole.asked_at = now
                    hole.due = self._later(hole.asked)
                    attempt = max(attempt, hole.asked)
                for nak in questions(stream, due, self._host, attempt, parts):
                    self._voice.cast(nak)
            for promise in sender.promises.due(now):
                self._repair(sender, (promise.first, promise.last))
            self._watch(sender)

    @property
    def _host(self) -> Domain:
        return Domain(self._voice.me.partition("/")[0])

    def _repair(self, sender: Sender, promised: Range) -> None:
        inbound, config = sender.inbound, self._config
        assert inbound is not None
        for run, offset, size in held(inbound.store, [promised], config.datagram_bytes, config.repair_bytes):
            self._voice.cast(Data(sender.endpoint, run, inbound.high, inbound.stable, True, 0, offset, size))

    def overhear(self, data: Data) -> None:
        """A part of a message that we have: somebody else repaired it."""
        sender = self.running.get(data.stream)
        if sender is not None and data.repair:
            sender.promises.heard(*places_of(data))

    def room(self, stream: Stream, number: int) -> int:
        """How many bytes of this stream may be kept in parts for us, if we wait for this number of it."""
        sender, config = self.running.get(stream), self._config
        if sender is None or sender.inbound is None or (sender.final is not None and number > sender.final):
            ended = self.ended.get(stream)
            return 0 if ended is not None and not ended.cut_off else config.early_bytes
        inbound = sender.inbound
        if self._has_enough(inbound) and (inbound.told < inbound.next or number > inbound.next):
            return 0
        return config.parts_bytes if inbound.waits_for(number, config.held_messages) else 0

    def asked(self, nak: Nak) -> None:
        """Somebody in our LAN misses something of a stream that we hear too."""
        sender = self.running.get(nak.stream)
        if sender is None or sender.inbound is None:
            return
        sender.inbound.holes.put_off(nak.ranges, self._later)
        config = self._config
        for low, high in places(nak):
            first, last = low >> NUMBER, high >> NUMBER
            if first < sender.inbound.next and (sender.inbound.store.lowest or last + 1) <= last:
                wait = self._voice.luck.between(config.repair_wait_min_s, config.repair_wait_max_s)
                sender.promises.promise(low, high, self._voice.now + wait)
        self._watch(sender)

    def below(self, below: Below) -> None:
        """A holder has forgotten what we miss. Once we believe that, a promise to us is broken: the program
        is told what is lost of this stream, which goes on behind it, as do all others (TX-13)."""
        sender = self.running.get(below.stream)
        if sender is None or sender.phase is not Phase.ACTIVE or below.holder != self._voice.lan:
            return
        inbound = sender.inbound
        assert inbound is not None
        if below.lowest <= inbound.next or self._holds or inbound.lagging:
            return  # a program that does not read is told when it does: we go on asking
        hole = inbound.holes.at(inbound.next)
        if hole is None or not hole.asked or sender.belows.count(hole) < BELOWS_MAX:
            return
        for first, last in inbound.store.holes(inbound.next, below.lowest - 1):
            self._voice.note("stream broke its promise", f"{sender.endpoint} {first} to {last}")
            self._voice.tell(Gap(sender.endpoint, first, last))
            inbound.skip_to(last + 1)
            self._deliver(sender)
        self._progress(sender)
        self._status.at(self._voice.now + self._config.status_s)  # nothing more may come for a long time

    # Status

    def say_status(self) -> None:
        """What we need next of each stream, to our delegate, for as long as it has not become stable."""
        self._status.fired()
        self._since_status = self._bytes_since_status = 0
        have = self.unsettled()
        for begin in range(0, len(have), ENTRIES_MAX):
            self._voice.transmit(
                self._voice.lan, Status(self._voice.speaks_as, tuple(have[begin : begin + ENTRIES_MAX]))
            )
        if have:
            self._status.at(self._voice.now + self._config.status_s)

    def unsettled(self) -> list[tuple[Stream, int]]:
        """What we need next of every stream of which home may not know that we have what we have; and of
        those whose rest is on our delegate's disk, which sends it as we take it."""
        found = [
            (stream, sender.acknowledged)
            for stream, sender in self.running.items()
            if sender.inbound is not None
            and (sender.acknowledged - 1 > sender.inbound.stable or self._catches_up(sender))
        ]
        for stream, (next, until) in list(self._farewells.items()):
            if until > self._voice.now and stream not in self.running:
                found.append((stream, next))
            else:
                del self._farewells[stream]
        return sorted(found)

    def _catches_up(self, sender: Sender) -> bool:
        """Is the rest of it on our delegate's disk, or was it a moment ago? It must know when it is not."""
        assert sender.inbound is not None
        if self._spilled and sender.acknowledged <= sender.inbound.stable:
            sender.behind = CAUGHT_UP
        elif sender.behind:
            sender.behind -= 1
        return sender.behind > 0

    def have(self, lan: Domain | None = None) -> Have:
        """What we need next of every stream (of one LAN), those lost with their domain included."""
        needs: dict[Stream, int] = {
            stream: ended.last + 1 for stream, ended in self.ended.items() if ended.cut_off
        }
        for stream, sender in self.running.items():
            if sender.inbound is not None:
                needs[stream] = sender.acknowledged
        return tuple([(each, needs[each]) for each in sorted(needs) if lan is None or lan_of(each) == lan])

    def forget_ended(self) -> None:
        """What ended long ago: the oldest come first."""
        while self.ended and self.ended[first := next(iter(self.ended))].until <= self._voice.now:
            del self.ended[first]

    def tidy(self) -> None:
        self.forget_ended()
        if self.origins.known:
            running = [each for each in self.running.values() if each.is_aggregate]
            self.origins.tidy({each.endpoint: each.inbound.stable for each in running if each.inbound})


def _has_laggards(sender: Sender) -> bool:
    return sender.inbound is not None and bool(sender.inbound.lagging)


def _waits_for(sender: Sender, reader: Endpoint) -> bool:
    """Is there a place in this stream from which on this reader is owed it?"""
    if reader in sender.begins:
        return True
    return sender.inbound is not None and reader in sender.inbound.lagging


def _not_again(before: EndedStream | None, start: int) -> int:
    """An endpoint's numbers go on from one membership to the next. What it said in this one may have come
    before the notice that it had left the last, and was delivered then."""
    return start if before is None else max(start, before.last + 1)
