"""What programs ask their agent about groups of led membership.

request     answer          notices that follow
JoinLed     Done, Denied    with `online`: Absolute, and again whenever the leader's list changes; PutOut
LeaveLed    Done, Denied

`Resolve` and `Watch` are those of relaxed membership: the agent sees that the group is led, and goes on to
its leader.
"""

from rostra.groups.kinds import DeliveryKind
from rostra.names import Group
from rostra.protocols.relaxed.requests import Request


class JoinLed(Request, frozen=True, tag=64):
    group: Group
    delivery: DeliveryKind = DeliveryKind.NONE
    online: bool = True  # is it told when the list changes?
    meta: bytes = b""


class LeaveLed(Request, frozen=True, tag=65):
    group: Group
