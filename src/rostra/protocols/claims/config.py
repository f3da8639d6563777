"""The bounds of claims."""

from typing import Final

CLAIMS_MAX: Final = 65_536
"""Claims of one scope. Each is a record on the disks of its server, about 300 bytes."""

CLAIMS_OF_CHILD_MAX: Final = 16_384
"""Of one child of the scope's server: claims of hosts behind it, counted host by host. What a child claims
beyond that is refused, so one site cannot take the room of the others."""

CLAIMS_OF_HOST_MAX: Final = 2_048
"""Groups that one host may claim in all scopes, as its cluster's server counts. For one of its users its
agent claims as many as are free: half of them, for the only one."""

GONE_S: Final = 120.0
"""A host that its cluster's server has given up still holds its claims of groups with a monitor of their own:
it may be with the others, on the other side of a cut. After so long it does not."""

APART_S: Final = GONE_S / 2
"""And its agent has ended its part in such a group by then: after so long without its server."""

ASK_AGAIN_S: Final = 2.0
"""How often an agent repeats what was not answered. A takeover of the scope's server loses a question; this
is how long that costs."""

ASK_TIMES_MAX: Final = 4
"""How often a join's claim is sent before the join is given up. It is then released: it may have counted."""

LOOK_AGAIN_S: Final = 10.0
"""How often the holders of one claim are looked for, at most, while other hosts want it. Raising it: fewer
messages, and names that are locked for longer by hosts that have forgotten them."""

BEGUN_MAX: Final = 4_096
"""Groups with ``stable="disk"`` in one scope: their claims stand until they are deleted. Raising it: a host
can fill more of a scope's claims for good."""
