"""What each agent and each server of a sample world saw, as rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.sample.numbered import give_numbers
from benchmarks.sample.pages import Pages, Words, nth_of
from benchmarks.sample.places import Ints
from benchmarks.sample.script import FIRST_EPOCH, NEVER, PAUSE, SECOND, Fault, Script, popularity
from benchmarks.sample.stage import BROKEN, HEALED, MERGED, MS, SETTLED, Stage
from benchmarks.sample.talk import Talks, hear
from rostra.sim.journal import SIMULATOR


class Beats(NamedTuple):
    """What is drawn for each writer alone."""

    every_us: int  # between two heartbeats of a writer
    questions: int  # of each host, in all
    talks: Talks | None = None  # of the groups that speak, if they do
    numbered: float = 0.0  # so many of the lists that hosts follow are given with numbers


def all_writers(script: Script, world: str) -> "list[Agent | Server | Simulator]":
    stage, places = Stage(script, world), script.places
    agents = [Agent(stage, host) for host in range(len(places.hosts))]
    return [Simulator(stage), *(Server(stage, name) for name in (*places.regions, *places.clusters)), *agents]


class Agent:
    def __init__(self, stage: Stage, host: int) -> None:
        self.stage, self.host = stage, host
        self.name = stage.script.places.hosts[host]
        self.above = stage.script.places.clusters[stage.script.places.cluster_of[host]]

    def pages(self, beats: Beats, luck: np.random.Generator) -> Iterator[Pages]:
        """One for each life of the agent."""
        script = self.stage.script
        for epoch, begins, ends in script.epochs(self.host):
            pages = self.stage.pages(self.name, "agent", epoch, f"{self.name}/watch#{epoch}")
            up_at = script.pause(begins) + HEALED
            down_at = script.ends_at if ends == NEVER else script.pause(ends) + BROKEN
            self._marks(pages, up_at)
            begin, end = self._follow(pages, begins, ends, up_at)
            told = self._told(pages, begins, ends, begin, end, luck)
            own = self._home(pages, epoch)
            for number, fault in enumerate(script.faults):
                if begins <= fault.begins < ends:
                    self._lose(pages, number, fault, begin, end, luck)
            share = (down_at - up_at) / script.ends_at
            self._ask(pages, round(beats.questions * share), begins, ends, begin, end, luck)
            self._overdue(pages, share, begins, ends, down_at, luck)
            self._beat(pages, beats, up_at, down_at, own, told, luck)
            if beats.talks is not None:
                hear(pages, self.stage, self.host, epoch, beats.talks, luck)
                give_numbers(pages, self.stage, epoch, luck.random(len(script.groups)) < beats.numbered)
            if ends == NEVER:
                pages.add("closing", np.array([down_at]), what=self.stage.words["the sample ends"])
            yield pages

    def _marks(self, pages: Pages, up_at: int) -> None:
        words = self.stage.words
        pages.add("started", np.array([up_at]), detail=self.stage.detail)
        pages.add(
            "link-up",
            np.array([up_at + SECOND]),
            peer=words[self.above],
            life=FIRST_EPOCH,
            cause=words["first contact"],
        )

    def _follow(self, pages: Pages, begins: int, ends: int, up_at: int) -> tuple[Ints, Ints]:
        """From when until when this life follows each group (NEVER, NEVER if it does not)."""
        script = self.stage.script
        begin = np.full(len(script.groups), NEVER, dtype=np.int64)
        end = begin.copy()
        for watching in script.watching:
            first, last = max(watching.begins, begins), min(watching.ends, ends)
            if watching.host != self.host or first >= last:
                continue
            group = watching.group
            begin[group], end[group] = first, last
            at = script.pause(first) + HEALED
            at = up_at + 3 * HEALED if first == begins else at
            at += 10 * group
            one = np.array([group])
            pages.add("followed", np.array([at]), group=self.stage.groups[group], observers=1, told=1)
            self._list(
                pages, "absolute", one, at + 200 * MS, script.present(first), "joined", cause="snapshot"
            )
            if last == watching.ends < ends:
                gone = script.pause(last) + HEALED + 10 * group
                seen = script.present(last)
                self._list(pages, "unfollowed", one, gone, seen, "left", cause="unfollowed")
        return begin, end

    def _list(
        self,
        pages: Pages,
        kind: str,
        groups: Ints,
        at: int,
        sessions: Ints,
        change: str,
        *,
        blank: bool = True,
        **columns: object,
    ) -> None:
        """One event for each of these groups, one row for each of these sessions that is in it."""
        stage, words = self.stage, self.stage.words
        script = stage.script
        known = {name: words[value] if isinstance(value, str) else value for name, value in columns.items()}
        group = script.group[sessions]
        concerned = np.isin(group, groups)
        sessions, group = sessions[concerned], group[concerned]
        order = np.argsort(group, kind="stable")
        sessions, group = sessions[order], group[order]
        present, runs = np.unique(group, return_counts=True)
        nth, of = nth_of(runs)
        pages.add(
            kind,
            at + group,
            group=stage.groups[group],
            member=sessions,
            life=script.epoch[sessions],
            stamp=stage.join_stamp[sessions],
            change=words[change],
            news=1,
            nth=nth,
            of=of,
            observers=1,
            told=1,
            **known,
        )
        if blank:
            empty = np.setdiff1d(groups, present)
            known.pop("count", None)
            pages.add(kind, at + empty, group=stage.groups[empty], news=0, observers=1, told=1, **known)

    def _told(
        self, pages: Pages, begins: int, ends: int, begin: Ints, end: Ints, luck: np.random.Generator
    ) -> tuple[Ints, Ints]:
        """Changes in the groups that it follows, unless something broken was between. The times at which
        joins and leaves of others arrived."""
        stage, script = self.stage, self.stage.script
        first, last = np.searchsorted(script.at, (begins, ends))
        group, at = stage.group[first:last], script.at[first:last]
        broken, home = stage.broken[first:last], stage.home[first:last]
        apart = stage.around[broken, home] != stage.around[broken, self.host]
        heard = first + np.flatnonzero((begin[group] <= at) & (at < end[group]) & ~apart)
        arrived = stage.clock[heard] + script.places.delays(self.host, stage.home[heard], luck)
        is_join = script.is_join[heard] == 1
        words = stage.words
        for kind, chosen in (("joined", is_join), ("left", ~is_join)):
            which = heard[chosen]
            session = script.session[which]
            if kind == "joined":
                cause: Ints | int = words["join"]
            else:
                cause = np.where(script.says[session] == 1, words["crash"], words["leave"])
            pages.add(
                kind,
                arrived[chosen],
                group=stage.groups[stage.group[which]],
                member=session,
                life=script.epoch[session],
                stamp=script.stamp[which],
                change=words[kind],
                news=1,
                cause=cause,
                observers=1,
                told=1,
            )
        other = stage.home[heard] != self.host
        return arrived[other & is_join], arrived[other & ~is_join]

    def _home(self, pages: Pages, epoch: int) -> tuple[Ints, Ints]:
        """What its own programs did. When they joined, and when they left."""
        stage, script, words = self.stage, self.stage.script, self.stage.words
        mine = np.flatnonzero((script.home == self.host) & (script.epoch == epoch))
        joined = script.clock(script.joined[mine])
        life, group = epoch, stage.groups[script.group[mine]]
        pages.add("opened", joined - 2 * MS, member=mine, life=life)
        pages.add("member-joined", joined, member=mine, life=life, group=group, stamp=stage.join_stamp[mine])
        ended = script.says[mine] >= 0
        gone = mine[ended]
        left = script.clock(script.until[gone])
        crashed = script.says[gone] == 1
        cause = np.where(crashed, words["crash"], words["leave"])
        changes = np.flatnonzero((stage.home == self.host) & (script.is_join == 0))
        stamp = np.zeros(len(script.home), dtype=np.int64)
        stamp[script.session[changes]] = script.stamp[changes]
        pages.add(
            "member-left",
            left,
            member=gone,
            life=life,
            group=stage.groups[script.group[gone]],
            stamp=stamp[gone],
            cause=cause,
        )
        pages.add(
            "closed",
            left + 1,
            member=gone,
            cause=cause,
            what=np.where(crashed, words["the connection ended"], -1),
        )
        stalled = mine[(mine % 400 == 7) & (script.until[mine] - script.joined[mine] > 60 * SECOND)]
        at = script.clock(script.joined[stalled]) + 20 * SECOND
        pages.add("program-suspected", at, member=stalled, silence_s=1.1, limit_s=4.0)
        pages.add("program-trusted", at + 1_400 * MS, member=stalled, latency_us=2_500 * MS)
        return joined, left

    def _lose(
        self, pages: Pages, number: int, fault: Fault, begin: Ints, end: Ints, luck: np.random.Generator
    ) -> None:
        """Somebody is lost, and found again."""
        stage, script = self.stage, self.stage.script
        following = np.flatnonzero((begin <= fault.begins) & (end > fault.begins))
        for notice in stage.notices(fault, self.host):
            regions = np.unique(script.places.region_of[notice.lost])
            scope = script.scope_of[following]
            concerned = following[(scope < 0) | np.isin(scope, regions)]
            there = stage.present[fault.begins]
            at = stage.gives_up_at(number, notice.accuser, notice.accused)
            self._list(
                pages,
                notice.kind,
                concerned,
                at + int(luck.integers(1, 90)) * MS,
                there[notice.lost[script.home[there]]],
                "left",
                cause=notice.kind,
                domain=notice.domain,
                accuser=notice.accuser,
                accused=notice.accused,
                what="silent",
            )
            if fault.kind != "host":
                back = stage.present[fault.ends]
                self._list(
                    pages,
                    "joined",
                    concerned,
                    script.pause(fault.ends) + MERGED + int(luck.integers(1, 90)) * MS,
                    back[notice.lost[script.home[back]]],
                    "joined",
                    blank=False,
                    cause="merge",
                    domain=notice.domain,
                    inside=int(notice.kind == "without"),
                )

    def _ask(
        self,
        pages: Pages,
        many: int,
        begins: int,
        ends: int,
        begin: Ints,
        end: Ints,
        luck: np.random.Generator,
    ) -> None:
        stage, script, words = self.stage, self.stage.script, self.stage.words
        at = self._moments(many, begins, ends, luck)
        group = luck.choice(len(script.groups), many, p=popularity(len(script.groups)))
        copied = (begin[group] <= at) & (at < end[group])
        took = np.where(copied, 35.0, 2_600.0) * np.exp(0.5 * luck.standard_normal(many))
        pages.add(
            "resolved",
            script.clock(at),
            group=stage.groups[group],
            latency_us=took.astype(np.int64),
            answered_by=np.where(copied, words["agent"], words[self.above]),
            count=stage.size(group, at),
            observers=1,
            told=1,
        )

    def _moments(self, many: int, begins: int, ends: int, luck: np.random.Generator) -> Ints:
        """Any time in this life, in the time of activity."""
        script = self.stage.script
        last = min(ends, script.ends_at - PAUSE * (len(script.breaks) + 1))
        return luck.integers(begins, max(begins + 1, last), many)

    def _overdue(
        self, pages: Pages, share: float, begins: int, ends: int, down_at: int, luck: np.random.Generator
    ) -> None:
        """Now and then a neighbour is overdue, and heard again in time."""
        script = self.stage.script
        many = int(luck.poisson(share * script.ends_at / (40 * 3600 * SECOND)))
        at = script.clock(self._moments(many, begins, ends, luck))
        at = at[at + 2 * SECOND < down_at]
        overdue(pages, self.stage.words, at, self.name, self.above, luck)

    def _beat(
        self,
        pages: Pages,
        beats: Beats,
        up_at: int,
        down_at: int,
        own: tuple[Ints, Ints],
        told: tuple[Ints, Ints],
        luck: np.random.Generator,
    ) -> None:
        times = beat(pages, beats, up_at, down_at, luck)
        words = self.stage.words
        level = self.above.count(".") + 1
        kinds = ("EndpointsJoined", "EndpointLeft")
        for way, arrivals in (("sent", own), ("received", told)):
            for message, when in zip(kinds, arrivals, strict=True):
                counts = _per_beat(times, when)
                some = counts > 0
                pages.add(
                    way,
                    times[some],
                    peer=words[self.above],
                    level=level,
                    message=words[message],
                    count=counts[some],
                )


class Server:
    """A region's or a cluster's. It never crashes in a sample; what happens around it is in its journal."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        places = stage.script.places
        if "." in name:
            above = name.partition(".")[0]
            near = [c for c in places.clusters if c != name and c.startswith(f"{above}.")]
            below = [host for host in places.hosts if host.startswith(f"{name}.")]
            self.peers = [above, *near, *below]
        else:
            near = [region for region in places.regions if region != name]
            self.peers = [*near, *(c for c in places.clusters if c.startswith(f"{name}."))]

    def pages(self, beats: Beats, luck: np.random.Generator) -> Iterator[Pages]:
        stage, script, words = self.stage, self.stage.script, self.stage.words
        pages = stage.pages(self.name, "server", FIRST_EPOCH)
        pages.add("started", np.array([HEALED]), detail=stage.detail)
        pages.add(
            "link-up",
            HEALED + SECOND + np.arange(len(self.peers)),
            peer=words.numbers(self.peers),
            life=FIRST_EPOCH,
            cause=words["first contact"],
        )
        lives: dict[str, int] = {}
        for number, fault in enumerate(script.faults):
            for accuser, accused in stage.ends_of(fault):
                if fault.kind == "host":
                    lives[accused] = lives.get(accused, FIRST_EPOCH) + FIRST_EPOCH
                if accuser == self.name:
                    self._broken(pages, number, fault, accused, lives.get(accused, FIRST_EPOCH), luck)
        many = int(luck.poisson(script.ends_at / (60 * 3600 * SECOND)))
        calm = np.sort(luck.integers(0, script.ends_at - PAUSE * (len(script.breaks) + 1), many))
        overdue(pages, words, script.clock(calm), self.name, self.peers[0], luck)
        self._traffic(pages, beats, luck)
        pages.add("closing", np.array([script.ends_at]), what=words["the sample ends"])
        yield pages

    def _broken(
        self, pages: Pages, number: int, fault: Fault, peer: str, life: int, luck: np.random.Generator
    ) -> None:
        stage, script, words = self.stage, self.stage.script, self.stage.words
        at = stage.gives_up_at(number, self.name, peer)
        silence = (at - script.pause(fault.begins) - BROKEN) / 1e6 + 0.4
        because = {"accuser": words[self.name], "accused": words[peer]}
        known = {"expected_s": 1.0, "threshold": 8.0, "limit_s": 4.0, "own_lateness_s": 0.002}
        pages.add(
            "link-suspected",
            np.array([at - 3 * SECOND // 2]),
            peer=words[peer],
            what=words["overdue"],
            silence_s=silence - 1.5,
            phi=9.5,
            channel_open=1,
            **because,
            **known,
        )
        pages.add(
            "link-down",
            np.array([at]),
            peer=words[peer],
            what=words["silent"],
            silence_s=silence,
            phi=210.0,
            channel_open=1,
            **because,
            **known,
        )
        inwards = fault.kind == "cluster" and "." not in peer
        told = words.numbers([each for each in self.peers if each != peer])
        groups = len(script.groups)
        pages.add(
            "domain-failed",
            at + 1 + np.arange(len(told)),
            domain=words[peer],
            inside=int(inwards),
            peer=told,
            what=words["silent"],
            count=groups,
            **because,
        )
        back = script.pause(fault.ends) + SECOND + int(luck.integers(200, 800)) * MS
        cause = "new incarnation" if fault.kind == "host" else "heard again"
        pages.add("link-up", np.array([back]), peer=words[peer], life=life, cause=words[cause])
        if fault.kind != "host":
            pages.add(
                "domain-returned",
                back + 2 * MS + np.arange(len(told)),
                domain=words[peer],
                inside=int(not inwards),
                peer=told,
                count=groups,
            )

    def _traffic(self, pages: Pages, beats: Beats, luck: np.random.Generator) -> None:
        """Every change from below goes to every neighbour that may want it; about as much comes back."""
        stage, script, words = self.stage, self.stage.script, self.stage.words
        places = script.places
        times = beat(pages, beats, HEALED, script.ends_at, luck)
        below = np.array([host.startswith(f"{self.name}.") for host in places.hosts])
        here = below[stage.home]
        own = self.name.count(".") + 1
        for message, chosen in (
            ("EndpointsJoined", script.is_join == 1),
            ("EndpointLeft", script.is_join == 0),
        ):
            ours = _per_beat(times, stage.clock[here & chosen])
            theirs = _per_beat(times, stage.clock[~here & chosen])
            for peer in self.peers:
                level = min(own, peer.count(".") + 1)
                down = peer.startswith(f"{self.name}.")
                share = luck.uniform(0.3, 0.9) if down else luck.uniform(0.8, 1.0)
                pairs = (("sent", theirs if down else ours), ("received", ours if down else theirs))
                for way, counts in pairs:
                    drawn = luck.binomial(counts, share)
                    some = drawn > 0
                    pages.add(
                        way,
                        times[some],
                        peer=words[peer],
                        level=level,
                        message=words[message],
                        count=drawn[some],
                    )


class Simulator:
    """Knows what was done, and when all was quiet."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def pages(self, beats: Beats, luck: np.random.Generator) -> Iterator[Pages]:
        stage, script, words = self.stage, self.stage.script, self.stage.words
        places = script.places
        pages = stage.pages(SIMULATOR, "sim", 1)
        pages.add("started", np.array([0]), detail=stage.detail)
        everybody = words.numbers([*places.regions, *places.clusters, *places.hosts])
        pages.add(
            "server-changed",
            np.full(len(everybody), HEALED, dtype=np.int64),
            peer=everybody,
            change=words["started"],
        )
        for fault in script.faults:
            broken = np.array([script.pause(fault.begins) + BROKEN])
            healed = np.array([script.pause(fault.ends) + HEALED])
            if fault.kind == "host":
                host = words[places.hosts[fault.where]]
                pages.add("server-changed", broken, peer=host, change=words["crashed"])
                pages.add("server-changed", healed, peer=host, change=words["started"])
                continue
            for sender, to in stage.ends_of(fault):
                line = {"accuser": words[sender], "peer": words[to]}
                pages.add("line-changed", broken, change=words["cut"], **line)
                pages.add("line-changed", healed, change=words["healed"], **line)
        pages.add("settled", np.array([script.pause(at) + SETTLED for at in script.settled]))
        pages.add("closing", np.array([script.ends_at]), what=words["the sample ends"])
        yield pages


def beat(pages: Pages, beats: Beats, up_at: int, down_at: int, luck: np.random.Generator) -> Ints:
    first = up_at + 3 * SECOND + int(luck.integers(0, beats.every_us))
    times = np.arange(first, down_at, beats.every_us, dtype=np.int64)
    pages.add("heartbeat", times)
    return times


def overdue(
    pages: Pages, words: Words, at: Ints, accuser: str, accused: str, luck: np.random.Generator
) -> None:
    silence = luck.uniform(1.9, 3.4, len(at))
    pages.add(
        "link-suspected",
        at,
        peer=words[accused],
        accuser=words[accuser],
        accused=words[accused],
        what=words["overdue"],
        silence_s=silence,
        expected_s=1.0,
        phi=8.0 + silence,
        threshold=8.0,
        limit_s=4.0,
        own_lateness_s=luck.exponential(0.02, len(at)),
        channel_open=1,
    )
    after = (luck.uniform(0.1, 0.5, len(at)) * SECOND).astype(np.int64)
    pages.add("link-trusted", at + after, peer=words[accused], latency_us=after)


def _per_beat(times: Ints, when: Ints) -> Ints:
    """How many of these happened since the beat before, for each beat."""
    if not len(times):
        return np.zeros(0, dtype=np.int64)
    place = np.searchsorted(times, when)
    return np.bincount(place[place < len(times)], minlength=len(times))


__all__ = ["Beats", "all_writers"]
