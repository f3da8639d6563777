"""The kinds of explanations: it left, crashed, was lost, was refused, is there, or is not known."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rostra.client.why.grounds import GroundSetting, grounds, health, health_of_home, settings
from rostra.client.why.recalled import Break, NodeMemories, NodeMemory
from rostra.client.why.steps import Step, steps
from rostra.client.why.words import listed, refused_words, seconds
from rostra.names import Domain, parent

Verdict = Literal["there", "left", "crashed", "stalled", "lost", "refused", "unknown"]


class Explanation(Struct, frozen=True):
    about: str
    seen_from: Domain
    verdict: Verdict
    summary: str
    besides: str = ""  # what else belongs to it: it was out of sight then, or had left before
    at: float | None = None  # when it was removed
    accuser: Domain | None = None
    accused: Domain | None = None
    evidence: Mapping[str, Any] | None = None
    steps: tuple[Step, ...] = ()
    health: Mapping[Domain, str] = {}
    settings: tuple[GroundSetting, ...] = ()
    now: str = ""
    unseen: Mapping[Domain, str] = {}  # whose memory could not be asked, and why
    way: tuple[Domain, ...] = ()  # the unique path from here, whose nodes were asked
    directly: tuple[Domain, ...] = ()  # who was asked past the world's own links, which do not reach them
    earlier: tuple[str, ...] = ()  # others of that name that are remembered, the newest first
    closest: tuple[str, ...] = ()  # of an unknown name: what may have been meant


def tell(
    about: str,
    way: Sequence[Domain],
    memories: Mapping[Domain, NodeMemory],
    unseen: Mapping[Domain, str],
    known: Collection[Domain] = (),
) -> Explanation:
    """The story, from these memories. Pure: the same memories give the same story."""
    return _Story(NodeMemories(about, tuple(way), memories, unseen, known)).told()


class _Story:
    def __init__(self, recalled: NodeMemories) -> None:
        self.recalled = recalled
        self.about, self.way, self.unseen = recalled.about, recalled.way, recalled.unseen
        self.host, self.home = recalled.host, recalled.home

    def told(self) -> Explanation:
        return replace(self._told(), earlier=self.recalled.earlier)

    def _told(self) -> Explanation:
        is_endpoint = "/" in self.about
        breaks = self.recalled.breaks()
        broken = breaks[-1] if breaks else None
        departure = self.recalled.latest_departure() if is_endpoint else None
        is_there = self.recalled.present() is not None if is_endpoint else self.home is not None
        if departure is not None and not is_there:
            at, _, note = departure
            # Who has crashed or closed its endpoint never comes back under that number. Who is only known to
            # have left some groups may have been lost since.
            if note["gone"] or note["cause"] == "crash" or broken is None or at >= broken.at:
                return self._departed(*departure, self.recalled.behind(breaks, at))
        if not self.recalled.is_known():
            refusal = self.recalled.latest_refusal()
            return self._unheard_of(broken) if refusal is None else self._refused(*refusal)
        if broken is not None and self.home is None and self.recalled.back_at(broken) is not None:
            return self._unknown()  # that break has healed, so something else is wrong now
        if broken is not None and not (is_there and self.recalled.is_linked()):
            story = self._lost(broken)
            return story if departure is None or is_there else self._had_left(story, broken, departure)
        return self._there(broken) if is_there else self._unknown()

    def _departed(
        self, at: float, node: Domain, note: Mapping[str, Any], behind: Break | None
    ) -> Explanation:
        settings: tuple[GroundSetting, ...] = ()
        evidence = note["evidence"]
        verdict: Verdict
        if note["cause"] == "leave":
            how = "its program closed it" if note["gone"] else "its agent said so"
            verdict, summary = "left", f"{self.about} left: {how}"
        elif evidence is not None:
            verdict = "stalled"
            summary = (
                f"{self.about} was removed: its program left a ping unanswered for "
                f"{seconds(evidence['unanswered_s'])}, and {seconds(evidence['down_after_s'])} is allowed"
            )
            settings = (
                GroundSetting(
                    "detect.program_down_after_s",
                    evidence["down_after_s"],
                    f"above the time that the program stood still, it would have been kept; "
                    f"now {seconds(evidence['down_after_s'])}",
                ),
            )
        elif node == self.host:
            verdict = "crashed"
            summary = f"{self.about} is gone: its program ended without saying goodbye"
        else:
            verdict, summary = (
                "crashed",
                f"{self.about} is gone: its agent said that its program crashed",
            )
        groups = note["groups"]
        summary += f" ({listed(groups, note['groups_count'])})" if groups else ""
        story = Explanation(
            self.about,
            self.way[0],
            verdict,
            summary,
            at=at,
            evidence=evidence,
            steps=steps(self.recalled, at),
            health=health_of_home(self.recalled, at),
            settings=settings,
            now=self._now(),
            unseen=self.unseen,
            way=self.way,
        )
        return story if behind is None else self._while_out_of_sight(story, behind, at)

    def _while_out_of_sight(self, story: Explanation, broken: Break, at: float) -> Explanation:
        """What happened behind a break was not seen from here: both are reported."""
        evidence, silence_s, back_at = self.recalled.evidence(broken)
        moments = [broken.at, at, *([back_at] if back_at is not None else [])]
        return replace(
            story,
            besides=f"it was out of sight then: {grounds(self.recalled, broken, evidence)}",
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=story.evidence or evidence,
            steps=steps(self.recalled, *moments, broken=broken),
            health={**health(self.recalled, broken, evidence), **story.health},
            settings=(*story.settings, *settings(self.recalled, broken, evidence, silence_s)),
        )

    def _lost(self, broken: Break) -> Explanation:
        evidence, silence_s, _ = self.recalled.evidence(broken)
        return Explanation(
            self.about,
            self.way[0],
            "lost",
            f"{self.about} went out of sight: {grounds(self.recalled, broken, evidence)}",
            at=broken.at,
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=evidence,
            steps=steps(self.recalled, broken.at, broken=broken),
            health=health(self.recalled, broken, evidence),
            settings=settings(self.recalled, broken, evidence, silence_s),
            now=self._now(),
            unseen=self.unseen,
            way=self.way,
        )

    def _had_left(
        self, story: Explanation, broken: Break, departure: tuple[float, Domain, Mapping[str, Any]]
    ) -> Explanation:
        """It left some groups before; no node that can be asked knows whether it was in others."""
        at, _, note = departure
        before = f"{seconds(broken.at - at)} before that it had left {listed(note['groups'])} by itself"
        return replace(story, besides=before, steps=steps(self.recalled, at, broken.at, broken=broken))

    def _last_words(self) -> tuple[float, str] | None:
        """What happened to it lately, although it is there: it left a group, or was refused something; and on
        a host, who leads a led set changed."""
        said: list[tuple[float, str]] = []
        for at, note in self.home.notes("departures") if self.home is not None else ():
            if note["endpoint"] == self.about:
                said.append((at, f"it left {listed(note['groups'], note['groups_count'])} by itself"))
        for memory in self.recalled.memories.values():
            for at, note in memory.notes("views"):
                if self.about in note["endpoints"]:
                    how = "its agent" if note["what"] == "excluded" else "a view is without it:"
                    said.append((at, f"{how} {note['text']}"))
                elif memory is self.home and note["what"] == "led" and "/" not in self.about:
                    said.append((at, f"it {note['text']}"))
        refusal = self.recalled.latest_refusal()
        if refusal is not None:
            said.append((refusal[0], refused_words(refusal[1])))
        return max(said, default=None)

    def _there(self, broken: Break | None) -> Explanation:
        if broken is None:
            last = self._last_words()
            return Explanation(
                self.about,
                self.way[0],
                "there",
                f"{self.about} is there, and nothing removed it" + (f"; {last[1]}" if last else ""),
                at=last[0] if last else None,
                steps=steps(self.recalled, last[0]) if last else (),
                now=self._now(),
                unseen=self.unseen,
                way=self.way,
            )
        story = self._lost(broken)
        back = self.recalled.back_at(broken)
        for_s = f" for {seconds(back - broken.at)}" if back is not None else ""
        return Explanation(
            self.about,
            self.way[0],
            "there",
            f"{self.about} is there again; it was out of sight{for_s}: "
            f"{grounds(self.recalled, broken, story.evidence)}",
            at=broken.at,
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=story.evidence,
            steps=story.steps,
            health=story.health,
            settings=story.settings,
            now=story.now,
            unseen=self.unseen,
            way=self.way,
        )

    def _refused(self, at: float, note: Mapping[str, Any]) -> Explanation:
        step = Step(at, self.host, "refused", f"refused {note['asked']}: {note['what']} ({note['code']})")
        return Explanation(
            self.about,
            self.way[0],
            "refused",
            f"{self.about} was refused: {note['what']}",
            at=at,
            steps=(step,),
            now="nothing has changed since, as far as its agent remembers",
            unseen=self.unseen,
            way=self.way,
        )

    def _unheard_of(self, broken: Break | None) -> Explanation:
        """No node knows that name. A remembered break is not its story, but may hide a node that knows."""
        story = Explanation(
            self.about,
            self.way[0],
            "unknown",
            "",
            unseen=self.unseen,
            way=self.way,
            now=self._now(),
        )
        is_hidden = self.home is None and (
            self.recalled.is_path(self.host) or parent(self.host) not in self.recalled.memories
        )
        if is_hidden and broken is not None and self.recalled.back_at(broken) is None:
            evidence, silence_s, _ = self.recalled.evidence(broken)
            hidden = f"everything outside {broken.domain}" if broken.keep else f"all of {broken.domain}"
            return replace(
                story,
                summary=f"nobody in sight knows {self.about}; "
                f"but {hidden} is out of sight: {grounds(self.recalled, broken, evidence)}",
                accuser=broken.accuser,
                accused=broken.accused,
                evidence=evidence,
                steps=steps(self.recalled, broken.at, broken=broken),
                health=health(self.recalled, broken, evidence),
                settings=settings(self.recalled, broken, evidence, silence_s),
            )
        if self.home is not None:
            age = seconds(self.home.document["age_s"])
            why = f"the agent of {self.host} remembers no such name, and has been running for {age}"
        elif self.recalled.is_path(self.host):
            why = f"{self.host} could not be asked, and nobody else remembers such a name"
        else:
            why = f"nobody on the way has heard of {self.host}"
        return replace(story, summary=f"nobody knows {self.about}: {why}", now="")

    def _unknown(self) -> Explanation:
        """It was there, and no node remembers how it went."""
        if self.home is None:
            summary = (
                f"nothing is known of {self.about}: {self.host} is out of sight, and no link was given up"
            )
        else:
            age = seconds(self.home.document["age_s"])
            summary = (
                f"nobody on the way to {self.host} remembers how {self.about} went; "
                f"its agent has been running for {age}, and memories are bounded"
            )
        return Explanation(
            self.about,
            self.way[0],
            "unknown",
            summary,
            unseen=self.unseen,
            way=self.way,
            now=self._now(),
        )

    def _now(self) -> str:
        present = self.recalled.present()
        if present is not None:
            groups = present["groups"]
            where = f"in {listed(groups)}" if groups else "in no group that reaches here"
            return f"it is open, {where}" if self.recalled.is_linked() else f"it is open there, {where}"
        if self.home is None:
            return f"{self.host} is out of sight: {self.unseen.get(self.host, 'it was not asked')}"
        if "/" not in self.about:
            return f"it answers, and has been running for {seconds(self.home.document['age_s'])}"
        return f"its agent does not have it, and has been running for {seconds(self.home.document['age_s'])}"
