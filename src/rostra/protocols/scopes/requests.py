"""What programs ask their agent about groups of open scope.

request     answer          notices that follow
JoinOpen    Done, Denied    with `online`: Absolute, and again whenever the list changes
LeaveOpen   Done, Denied

The scope of such a group is `OPEN` wherever a program sees it. `Resolve` of a scope that the host is not in
is that of relaxed membership.
"""

from rostra.names import Group
from rostra.protocols.relaxed.requests import Request


class JoinOpen(Request, frozen=True, tag=96):
    group: Group
    online: bool = True
    meta: bytes = b""


class LeaveOpen(Request, frozen=True, tag=97):
    group: Group


AnyScopeRequest = JoinOpen | LeaveOpen
