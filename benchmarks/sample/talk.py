"""What groups say in a sample month: who speaks when, who hears it, and what was lost on the way.

    a talk     one member speaks for some seconds or minutes: so many messages, with numbers that go on
    heard by   every other member of the group that is there all the while and is not cut off

Numbers are a speaker's own and have no gaps. Whoever is cut off while it speaks misses some: it is told that
the stream ended when the speaker was given up, and of the gap as soon as it hears it again. Of what is said
in five seconds a host's journal has one row for each receiver, as in real ones. Now and then messages are
lost and come by repair, and then they are late; nothing else is late by much.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from benchmarks.sample.pages import Pages
from benchmarks.sample.places import Bools, Ints
from benchmarks.sample.script import NEVER, SECOND, Script, popularity
from benchmarks.sample.stage import Stage

MS: Final = 1_000

SPEAKS: Final = 2
"""Every second group does."""

STEP: Final = 5 * SECOND
"""A journal has a row for so much of a stream, because it has a heartbeat so often."""

STEPS_MAX: Final = 60

LOST: Final = 0.02
"""Of rows: something of it was lost, and repaired."""

LATE_US: Final = np.array([400, 900, 4_000, 18_000], dtype=np.float64)
"""How much longer than the quickest the slowest message usually takes, by distance."""

LATE_MAX_US: Final = 120_000
"""Nothing that was not lost is later than this."""


ROOM: Final = 1 << 46
"""No time is as late: so a group and a time are one number."""


class Talks(Struct, frozen=True):
    """In order of group and time."""

    group: Ints
    speaker: Ints  # the number of its session
    begins: Ints  # in the time of activity
    steps: Ints
    first: Ints  # the number of its first message
    each: Ints  # messages in a step

    def __len__(self) -> int:
        return len(self.group)

    @property
    def ends(self) -> Ints:
        return self.begins + self.steps * STEP

    @property
    def end(self) -> Ints:
        """The number after its last message."""
        return self.first + self.steps * self.each


def write_talks(script: Script, rows: int, luck: np.random.Generator) -> Talks:
    """So many that journals have about so many rows of them. Some speak for long, and some all the time."""
    span = int(script.breaks[-1])
    lasts = np.minimum(script.until, span) - script.joined
    may = np.flatnonzero((script.group % SPEAKS == 1) & (lasts > 12 * STEP))
    present = np.bincount(script.group, np.maximum(lasts, 0), len(script.groups)) / span
    liking = popularity(len(script.groups))[script.group[may]] * (luck.pareto(1.5, len(may)) + 0.1)
    weight = liking * lasts[may]
    weight /= weight.sum()
    steps_each = 6.0
    heard = float((weight * present[script.group[may]]).sum())  # by so many, if anybody speaks
    many = max(1, round(rows / (steps_each * heard + 1)))
    speaker = luck.choice(may, many, p=weight)
    steps = np.minimum(luck.geometric(1 / steps_each, many), STEPS_MAX)
    room = lasts[speaker] - steps * STEP
    begins = script.joined[speaker] + (luck.random(many) * np.maximum(room, 1)).astype(np.int64)
    each = np.maximum(1, np.exp(2.5 + 1.2 * luck.standard_normal(many))).astype(np.int64)
    chosen = (room > 0) & _undisturbed(script, begins, begins + steps * STEP)
    order = np.flatnonzero(chosen)
    order = order[np.lexsort((begins[order], speaker[order]))]
    order = order[_one_at_a_time(speaker[order], begins[order], steps[order] * STEP)]
    speaker, begins, steps, each = speaker[order], begins[order], steps[order], each[order]
    said = steps * each
    before = np.cumsum(said) - said
    is_first = np.concatenate(([True], speaker[1:] != speaker[:-1]))
    first = 1 + before - np.repeat(before[is_first], np.diff([*np.flatnonzero(is_first), len(speaker)]))
    by_group = np.lexsort((begins, script.group[speaker]))
    talks = Talks(script.group[speaker], speaker, begins, steps, first, each)
    return Talks(*(getattr(talks, name)[by_group] for name in talks.__struct_fields__))


def _undisturbed(script: Script, begins: Ints, ends: Ints) -> Bools:
    """Between two breaks, so that whoever hears the beginning hears the end."""
    found: Bools = np.searchsorted(script.breaks, begins) == np.searchsorted(script.breaks, ends + 2 * STEP)
    return found


def _one_at_a_time(speaker: Ints, begins: Ints, lasts: Ints) -> Ints:
    """Without those that begin before the same speaker's last one is over."""
    over = begins + lasts + 2 * STEP
    clash = np.concatenate(([False], (speaker[1:] == speaker[:-1]) & (begins[1:] < over[:-1])))
    return np.flatnonzero(~clash & ~np.concatenate(([False], clash[:-1])))


def hear(pages: Pages, stage: Stage, host: int, epoch: int, talks: Talks, luck: np.random.Generator) -> None:
    """What the programs of one life of a host heard, and what of it came by repair."""
    script = stage.script
    receiver, talk = _pairs(script, host, epoch, talks)
    if not len(talk):
        return
    speaker = talks.speaker[talk]
    order = np.lexsort((talks.begins[talk], speaker, receiver))
    receiver, talk, speaker = receiver[order], talk[order], speaker[order]
    fault = script.broken_at(talks.begins[talk])
    missed = stage.around[fault, script.home[speaker]] != stage.around[fault, host]
    delay = script.places.delays(host, script.home[speaker], luck)
    Heard(pages, stage, host, talks, receiver, talk, missed, fault, delay).write(luck)


def _pairs(script: Script, host: int, epoch: int, talks: Talks) -> tuple[Ints, Ints]:
    """Every member on this host with every talk of others in its group while it is there."""
    mine = np.flatnonzero((script.home == host) & (script.epoch == epoch) & (script.group % SPEAKS == 1))
    place = talks.group * ROOM + talks.begins
    longest = STEPS_MAX * STEP
    first = np.searchsorted(place, script.group[mine] * ROOM + script.joined[mine])
    until = np.minimum(script.until[mine], ROOM - 1) - longest
    last = np.searchsorted(place, script.group[mine] * ROOM + np.maximum(until, script.joined[mine]))
    many = last - first
    receiver = np.repeat(mine, many)
    talk = np.arange(len(receiver)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
    others = talks.speaker[talk] != receiver
    return receiver[others], talk[others]


class Heard(Struct, frozen=True):
    """Members of one host, each with the talks that it could have heard, by member, speaker and time."""

    pages: Pages
    stage: Stage
    host: int
    talks: Talks
    receiver: Ints
    talk: Ints
    missed: Bools
    fault: Ints
    delay: Ints

    def write(self, luck: np.random.Generator) -> None:
        speaker, talks = self.talks.speaker[self.talk], self.talks
        new = np.concatenate(
            ([True], (self.receiver[1:] != self.receiver[:-1]) | (speaker[1:] != speaker[:-1]))
        )
        heard = np.flatnonzero(~self.missed)
        if not len(heard):
            return
        story = np.cumsum(new)
        before = np.concatenate(([-1], heard[:-1]))
        goes_on = np.concatenate(([False], story[heard[1:]] == story[heard[:-1]]))
        owed = np.where(goes_on, talks.end[self.talk[before]], 0)
        at = self._at(heard)
        first = talks.first[self.talk[heard]]
        torn = goes_on & (owed != first)
        self._say("stream-gap", heard[torn], at[torn] - 2, first=owed[torn], last=first[torn] - 1)
        begun = ~goes_on | torn
        self._say("stream-started", heard[begun], at[begun] - 1, first=first[begun])
        self._deliveries(heard, luck)
        self._ends(story, heard)

    def _at(self, which: Ints) -> Ints:
        """When the first of a talk arrived."""
        return self.stage.script.clock(self.talks.begins[self.talk[which]]) + self.delay[which]

    def _say(self, kind: str, which: Ints, at: Ints, **columns: object) -> None:
        talks = self.talks
        self.pages.add(
            kind,
            at,
            group=self.stage.groups[talks.group[self.talk[which]]],
            member=talks.speaker[self.talk[which]],
            observers=Pages.named(self.receiver[which]),
            told=1,
            **columns,
        )

    def _deliveries(self, heard: Ints, luck: np.random.Generator) -> None:
        """A row for every few seconds, and one before it for what was lost of it."""
        talks, places = self.talks, self.stage.script.places
        steps = talks.steps[self.talk[heard]]
        which = np.repeat(heard, steps)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)
        each = talks.each[self.talk[which]]
        first = talks.first[self.talk[which]] + nth * each
        at = self._at(which) + (nth + 1) * STEP
        far = places.distances(self.host, self.stage.script.home[talks.speaker[self.talk[which]]])
        usual = LATE_US[far] * np.exp(0.8 * luck.standard_normal(len(which)))
        late = np.minimum(usual, LATE_MAX_US)
        lost = luck.random(len(which)) < LOST
        waited = (0.03 + luck.exponential(0.2, len(which))) * SECOND
        late = np.where(lost, np.maximum(late, waited), late).astype(np.int64)
        number = np.flatnonzero(lost)
        many = np.minimum(each[number], luck.geometric(0.4, len(number)))
        words, script = self.stage.words, self.stage.script
        clusters = words.numbers(script.places.clusters)
        speaker = talks.speaker[self.talk[which[number]]]
        self.pages.add(
            "recovered",
            at[number],
            group=self.stage.groups[talks.group[self.talk[which[number]]]],
            member=speaker,
            first=first[number],
            last=first[number] + many - 1,
            count=many,
            number=1,
            answered_by=clusters[script.places.cluster_of[script.home[speaker]]],
            latency_us=waited[number].astype(np.int64),
        )
        self._say(
            "delivered",
            which,
            at,
            first=first,
            last=first + each - 1,
            count=each,
            bytes=each * (40 + 300 * (talks.speaker[self.talk[which]] % 5)),
            latency_us=late,
        )

    def _ends(self, story: Ints, heard: Ints) -> None:
        """Each stream that was heard ends: with its speaker or its receiver, or when the speaker is lost."""
        script, words, talks = self.stage.script, self.stage.words, self.talks
        is_last = np.concatenate((story[heard[1:]] != story[heard[:-1]], [True]))
        # Whatever is missed after something was heard begins with an end, one for each time.
        turned = np.flatnonzero(self.missed[1:] & ~self.missed[:-1] & (story[1:] == story[:-1])) + 1
        self._lost(turned, turned - 1)
        last = heard[is_last]
        stays = np.isin(last, turned - 1, invert=True)
        last = last[stays]
        speaker, receiver = talks.speaker[self.talk[last]], self.receiver[last]
        until = np.minimum(script.until[speaker], script.until[receiver])
        fault = script.broken_at(np.minimum(until, int(script.breaks[-1])))
        apart = self.stage.around[fault, script.home[speaker]] != self.stage.around[fault, self.host]
        over = (until < NEVER) & ~apart
        by_receiver = script.until[receiver] <= script.until[speaker]
        dies = np.where(by_receiver, script.says[receiver], script.says[speaker]) < 0
        over &= ~dies
        gone = last[over]
        delay = np.where(by_receiver[over], 0, self.delay[gone])
        cause = np.where(
            by_receiver[over],
            words["the receiver left"],
            np.where(script.says[speaker[over]] == 1, words["crash"], words["leave"]),
        )
        at = script.clock(until[over]) + delay
        self._say("stream-ended", gone, at, last=talks.end[self.talk[gone]] - 1, cause=cause)

    def _lost(self, missed: Ints, before: Ints) -> None:
        at = np.array([self._given_up(int(fault)) for fault in self.fault[missed]], dtype=np.int64)
        self._say(
            "stream-ended",
            missed,
            at,
            last=self.talks.end[self.talk[before]] - 1,
            cause=self.stage.words["lost"],
        )

    def _given_up(self, fault: int) -> int:
        """When this host was told of it; a little later, so that what was under way has arrived."""
        script = self.stage.script
        notice = self.stage.notices(script.faults[fault], self.host)[0]
        return self.stage.gives_up_at(fault, notice.accuser, notice.accused) + 200 * MS


__all__ = ["Talks", "hear", "write_talks"]
