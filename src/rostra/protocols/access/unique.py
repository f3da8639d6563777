"""Unique names: one endpoint in the whole scope founds a group, and every other attempt is refused.

    JoinUnique ──▶ claim rostra/unique/<name>, of a kind that names us ──▶ Resolve ── empty ──▶ Join
                        │ another's claim stands                             │ it has members
                        └──────────────▶ NAME_IN_USE ◀── release ◀───────────┘
    the founder left ──▶ release        its claim was lost while its host was away ──▶ it leaves (PutOut)

The claim is the lock of C-165. The server of the scope, with its replicas, decides between two: the first one
stands. It is held for as long as the founder is in the group. Locks count against the claims of a host, so
that no program can lock names without bound.

Where we differ from the paper, and why: it sends the lock to every agent in the scope and counts votes, so
two parts of a partition may both succeed. Here the part without the server of the scope is refused. Only a
host that was given up, and comes back after another founded the group, can meet a second founder: its own
leaves. A plain join that comes meanwhile counts as a later one, which C-165 allows.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from rostra.core.asking import AskingService
from rostra.core.effects import Answer, Asked, Effect, EndpointGone, Event, Instant, Send, Tell
from rostra.core.stack import ServiceName
from rostra.errors import (
    REFUSALS,
    AlreadyMember,
    BadInput,
    NameInUse,
    NotAllowed,
    RostraError,
    TooLarge,
    Unreachable,
)
from rostra.groups.kinds import DeliveryKind, GroupKind
from rostra.names import Endpoint, Group
from rostra.protocols.access.events import MemberListed, MemberUnlisted
from rostra.protocols.access.requests import JoinUnique
from rostra.protocols.claims.agent import CLAIM_AGENT, JoinClaimed
from rostra.protocols.claims.config import CLAIMS_OF_HOST_MAX, LOCKS
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import Absolute, Close, Denied, Join, Leave, PutOut, Resolve, denied

UNIQUE_AGENT: Final = ServiceName["UniqueAgent"]("access unique")

RESOLVE_S: Final = 10.0
"""How long the servers may take to say who is in the group."""

Founding = tuple[Endpoint, Group]


class Founder(Struct, frozen=True):
    """`token` is the request of a program that waits for its answer; None: it is in the group."""

    join: JoinUnique
    token: int | None


class UniqueQuestion(Struct, frozen=True):
    """A request of ours: for the lock, or (`locked`) for the member list, once we have the lock."""

    founding: Founding
    locked: bool


class UniqueAgent(AskingService[UniqueQuestion]):
    name = UNIQUE_AGENT
    hears = (Answer, Tell, Send)
    first_token = -(1 << 59)  # above those of authorities
    takes = (JoinUnique, Close, EndpointGone)

    def __init__(self) -> None:
        super().__init__()
        self.founders: dict[Founding, Founder] = {}
        self.engaged = (self.founders, self._own)
        self._counter = 0  # of the agent's joins and leaves, when we looked last

    @property
    def _agent(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self._begin(now)
        match event:
            case Asked(me, token, JoinUnique() as join):
                try:
                    self._found(me, token, join)
                except REFUSALS as refusal:
                    self._out.append(Answer(token, denied(refusal)))
            case EndpointGone(me) | Asked(me):  # to close it
                for founding in [each for each in self.founders if each[0] == me]:
                    del self.founders[founding]
                is_gone = isinstance(event, EndpointGone)  # else the directory answers its questions
                self._drop_questions(lambda about: about.founding[0] == me and (is_gone or not about.locked))
        return self._end()

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        self._begin(now)
        self._sift(effects)
        return self._end()

    def _end(self) -> list[Effect]:
        if self._counter != self._agent.counter:  # else no member of ours joined or left since
            inside = [each for each, founder in self.founders.items() if founder.token is None]
            for founding in sorted([each for each in inside if not self._is_in(each)]):
                del self.founders[founding]
                self._unlock(founding)
            self._counter = self._agent.counter
        return self._finish()

    # Founding

    def _found(self, me: Endpoint, token: int, join: JoinUnique) -> None:
        group, founding = join.group, (me, join.group)
        if me not in self._agent.endpoints:
            raise BadInput(f"no endpoint {me} is open here", fix="open it first")
        self._agent.check_may_join(group)
        if group in self._agent.endpoints[me].groups or founding in self.founders:
            raise AlreadyMember(f"{me} is in {group} already, or joins it", fix="leave first")
        if len(self.founders) >= CLAIMS_OF_HOST_MAX:
            raise TooLarge(
                f"this host holds or asks for {CLAIMS_OF_HOST_MAX} unique names",
                fix="leave one of them first",
            )
        self.founders[founding] = Founder(join, token)
        kind = GroupKind(delivery=DeliveryKind.ATOMIC, within=me)
        lock = Join(lock_of(group), online=False, group_kind=kind)
        token = self._own_token(UniqueQuestion(founding, locked=False))
        self._call(CLAIM_AGENT, JoinClaimed(me, token, lock))

    def _answered(self, about: UniqueQuestion, result: object) -> None:
        if about.locked:
            self._listed(about.founding, result)
        else:
            self._locked(about.founding, result)

    def _locked(self, founding: Founding, result: object) -> None:
        me, group = founding
        if founding not in self.founders or me not in self._agent.endpoints:
            self._give_up(founding, None)
        elif isinstance(result, Denied):
            is_taken = result.code == NotAllowed.code
            taken = NameInUse(f"{group} has a founder", fix="choose another name, or join it plainly")
            self._give_up(founding, denied(taken) if is_taken else result, locked=False)
        else:
            token = self._own_token(UniqueQuestion(founding, locked=True))
            self._call(AGENT, Asked(me, token, Resolve(group.name, group.scope, RESOLVE_S)))

    def _listed(self, founding: Founding, result: object) -> None:
        me, group = founding
        founder = self.founders.get(founding)
        if founder is None or founder.token is None or me not in self._agent.endpoints:
            self._give_up(founding, None)
        elif not isinstance(result, Absolute):
            self._give_up(founding, result if isinstance(result, Denied) else None)
        elif result.isolated:
            cut_off = Unreachable(f"who is in {group} is not known: this host is cut off", fix="ask again")
            self._give_up(founding, denied(cut_off))
        elif result.members:
            taken = NameInUse(
                f"{group} has {len(result.members)} members", fix="choose another name, or join it plainly"
            )
            self._give_up(founding, denied(taken))
        else:
            join = founder.join
            effects = self.stack.call(
                self._now, self, AGENT, Asked(me, founder.token, Join(group, join.online, False, join.meta))
            )
            self.founders[founding] = Founder(join, None)
            if not self._is_in(founding):  # the directory refused it
                self._give_up(founding, None)
            else:
                stamp = self._agent.groups[group].members[me].stamp
                self._out.append(MemberListed(me, group, stamp, join.online))
            self._sift(effects)

    def _give_up(self, founding: Founding, refusal: Denied | None, *, locked: bool = True) -> None:
        founder = self.founders.pop(founding, None)
        if locked:
            self._unlock(founding)
        if founder is not None and founder.token is not None and refusal is not None:
            self._out.append(Answer(founder.token, refusal))

    def _unlock(self, founding: Founding) -> None:
        me, group = founding
        lock = lock_of(group)
        if me in self._agent.endpoints and lock in self._agent.endpoints[me].groups:
            self._call(AGENT, Asked(me, self._own_token(), Leave(lock)))

    def _lost(self, founding: Founding, refusal: RostraError) -> None:
        """Another founded it while our host was away."""
        me, group = founding
        founder = self.founders.pop(founding)
        if founder.token is not None:
            self._out.append(Answer(founder.token, denied(refusal)))
            return
        if self._is_in(founding):
            self._call(AGENT, Asked(me, self._own_token(), Leave(group)))
            self._out.append(MemberUnlisted(me, group, (self._agent.incarnation, self._agent.counter)))
        self._out.append(Tell((me,), PutOut(group, denied(refusal))))

    def _is_in(self, founding: Founding) -> bool:
        me, group = founding
        table = self._agent.groups.get(group)
        return table is not None and me in table.members

    # What other services order

    def _is_for_us(self, tell: Tell) -> bool:
        notice = tell.notice
        if type(notice) is not PutOut or not is_lock(notice.group):
            return False
        [me], group = tell.endpoints, named_by(notice.group)
        if (me, group) in self.founders:
            refusal = NameInUse(f"{group} has another founder by now", fix="join it plainly")
            self._lost((me, group), refusal)
        return True


def lock_of(group: Group) -> Group:
    return Group(f"{LOCKS}{group.name}", group.scope)


def is_lock(group: Group) -> bool:
    return group.name.startswith(LOCKS)


def named_by(lock: Group) -> Group:
    return Group(lock.name.removeprefix(LOCKS), lock.scope)
