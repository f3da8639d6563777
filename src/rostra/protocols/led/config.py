"""Every timer and bound of led membership."""

from typing import Final

from msgspec import Struct

MEMBERS_OF_AGENT_MAX: Final = 65_536
"""Members of one set on one host."""

ORIGINS_MAX: Final = 65_536
"""Agents that one list names."""

META_BYTES_MAX: Final = 256
"""A member's attachment, as in relaxed membership."""

LETTER_BYTES_MAX: Final = 32 << 20
"""What servers carry at once: the list of a million members."""

LIST_BYTES_MAX: Final = LETTER_BYTES_MAX - (1 << 20)
"""A list. An agent takes no report that would make that of its subtree larger: it could not be sent on."""

NAMES_OF_AGENT_MAX: Final = 10_000
"""Sets that one agent may lead at one registrar, and sets that it keeps a record of."""

NAMES_MAX: Final = 262_144
"""Sets of one registrar. The agents of one cluster may lead as many as are free: a hostile server can invent
agents below it, and takes half of them at most."""

CIRCUITS_MAX: Final = 6_144
"""Agents that one agent is connected to."""

CIRCUITS_TAKEN_MAX: Final = 3_072
"""Those of them that it did not ask for: the others are left for its own programs. The agents of one cluster
may take as many as are free, for the same reason."""

QUERIES_MAX: Final = 8_192
"""Questions that one agent has open. A user's programs may have as many of them as are free, and so may the
hosts of a cluster that cause some (`core/room.py`)."""

FOLLOWERS_MAX: Final = 8_192
"""Agents that wait at one leader for the next change of a set; of one cluster, as many as are free."""

SETS_MAX: Final = 4_096
"""Transient sets whose owners are on one host; of one user, as many as are free."""

HOSTS_MAX: Final = 2_048
"""Hosts of the members of these sets, and of destinations of sequences: each takes a circuit, whether it
exists or not. They count for each user, who may have as many as are free."""

SETS_FROM_HOST_MAX: Final = 1_024
"""Transient sets of one host's owners that the endpoints of another host are in."""

SETS_WITH_ENDPOINT_MAX: Final = 4_096
"""Transient sets that one endpoint is in; of owners of one cluster, as many as are free."""

LOST_SETS_MAX: Final = 4_096
"""Transient sets whose owners are out of reach, of which a host remembers which endpoints were in them; and
as many that endpoints left."""

ROSTER_MAX: Final = 65_536
"""Members of a transient set."""

CHANGE_MAX: Final = 4_096
"""Endpoints that one change of a transient set names."""

SEQUENCES_MAX: Final = 4_096
"""Sequences that are open on one host; of one user, as many as are free."""

SEQUENCE_BYTES_MAX: Final = 64 << 10
"""One message of a sequence."""

SPREAD_BYTES_MAX: Final = SEQUENCE_BYTES_MAX + 2_048
"""With the names of the set and the source."""

CHECKED_MAX: Final = 4_096
"""Sources whose right to speak to a closed set is asked for, or remembered. Of one cluster, as many are
asked for as are free."""

CHECKED_OF_HOST_MAX: Final = 256
"""Sources of one host whose right is asked for."""

CHECKED_LETTERS_MAX: Final = 16
"""Letters of one source that wait for it."""

CHECKED_BYTES_MAX: Final = 8 << 20
"""What all sources said that wait for it; those of one cluster, as much as is free."""

STEPS_MAX: Final = 8
"""Agents that a query or an attachment is sent on to, one after the other (S-054)."""


class LedConfig(Struct, frozen=True, kw_only=True):
    """The settings of agents and registrars. All agents of a world have the same.

    `assert_s`, `assert_max_s`
        An `Assert` that is not answered is repeated after the first of these, then after twice that, up to
        the second. It is also how long a registrar waits for a leader that it probes. Raising the first:
        later elections where messages are lost.
    `lease_s`
        A registrar forgets a leader that did not assert for so long; leaders assert three times as often.
        Raising it: fewer messages, and two leaders may last longer.
    `attach_s`
        How long a child tries to reach its parent before it contends (three tries, in the paper's terms).
    `query_s`, `query_tries`
        How long an answer may take, and how often a question is asked.
    `calm_s`
        A better registrar must have been there for so long before leaders assert to it.
    `report_s`
        Changes within this time go up as one list.
    `flatten_s`
        A child that knows the root moves to it after this time. Raising it: deeper trees for longer.
    `settle_s`
        An agent that took over from a lost leader answers no questions for so long: the other children are
        still on their way to it. Raising it: later answers after a crash; lowering it: lists that are short.
    `grace_s`
        A parent keeps the list of a child whose circuit is lost for so long, marked as in doubt. Raising it:
        fewer changes where circuits break for a moment, and members listed for longer that are gone.
    `follow_s`
        A question for the next change of a list is answered after this time, changed or not.
    `circuit_idle_s`
        A circuit that no set needs is ended after this time. An endpoint that was added to a transient set,
        and whose host did not answer for so long, is given up, and the owner is told. Raising it: fewer
        circuits are made anew; lowering it: adds are refused after shorter cuts.
    `compressed`
        Report what changed since the last report, and not the whole list.
    """

    assert_s: float = 0.5
    assert_max_s: float = 8.0
    lease_s: float = 15.0
    attach_s: float = 3.0
    query_s: float = 2.0
    query_tries: int = 3
    calm_s: float = 2.0
    report_s: float = 0.02
    flatten_s: float = 10.0
    settle_s: float = 3.0
    grace_s: float = 0.0
    follow_s: float = 5.0
    circuit_idle_s: float = 60.0
    compressed: bool = False
