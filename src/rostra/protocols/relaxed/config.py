"""Every timer and bound of relaxed membership."""

from msgspec import Struct


class RelaxedConfig(Struct, frozen=True):
    """The settings of local and domain servers. The defaults are those of `wan`.

    The bounds protect an agent's neighbours and its other programs from one program that asks for too
    much; what exceeds them is answered TOO_LARGE and changes nothing. How soon a silent server is given
    up is no setting of this layer: see `LinkConfig`.
    """

    meta_bytes_max: int = 256
    """An attachment's size (C-151). Raising it makes every member record bigger, in every list,
    everywhere."""

    ns_message_bytes_max: int = 65_536
    """The size of a message sent through the servers (C-152). Raising it makes membership notices wait longer
    behind such messages, because they share the control links."""

    destinations_max: int = 1_024
    """Destinations of one message. Raising it lets one program put that many copies on the links at once."""

    endpoints_max: int = 100_000
    """Endpoints open on one host. Raising it costs about 1 KB of the agent's memory for each."""

    groups_of_host_max: int = 200_000
    """Groups in which a cluster's server takes a host to be, or to watch. A row costs it about 700 bytes;
    what a host names beyond that is ignored. A server of domains takes ten times as many from each server
    below it. Keep it above what agents let their programs join (`memberships_max`)."""

    questions_of_host_max: int = 65_536
    """Questions that a server has open for one host at a time; ten times as many for a server."""

    lives_asked_max: int = 100_000
    """Lives of its endpoints that an agent reports by itself, over all who ask. Those who ask in vain are
    answered, and ask again every `life_refresh_s`: they hear of a death later."""

    lives_watched_max: int = 1_000
    """Remote endpoints that one endpoint may watch for life (C-157). Each costs one message there and one
    back every `life_refresh_s`."""

    life_refresh_s: float = 10.0
    """How often a watched life is asked about again. The dead endpoint's own agent reports a death at once;
    this bounds how long it takes to notice that this agent itself is gone or cut off, unless a failure
    notice comes first: `life_missed_max + 2` times `life_refresh_s` at most. Raising it saves
    messages and notices later."""

    life_missed_max: int = 1
    """Questions about a life that may go unanswered before it is reported down. Raising it forgives
    longer delays and notices later."""

    life_forget_s: float = 60.0
    """An agent that has not asked again about a life for this long gets no more reports of it. Keep it above
    twice the largest `life_refresh_s` in the world; raising it keeps a crashed agent's questions longer."""

    inquiry_deadline_s: float = 2.0
    """How long another server may take to say what it remembers. Raising it: `rostra why` waits longer for
    servers that will not answer."""

    inquiries_max: int = 256
    """Memories that one host's programs may ask for at once. Each answer is up to 32 KB on the control
    links."""

    resolve_deadline_s: float | None = None
    """When a resolve gives up if its caller named no deadline (C-185); None waits until the servers have
    answered or the failure detector has given them up. Setting it turns slow answers into none: nothing
    partial is ever returned."""

    share_collections: bool = True
    """Let equal resolves that meet at a domain server share what one of them collects (C-174). Turning it off
    costs one request per resolve and link, and lets tests and measurements count them."""

    deadline_max_s: float = 3_600.0
    """The longest deadline that a caller may name. Raising it lets forgotten questions stay open longer."""

    watch_changes_max: int = 1_024
    """Changes of a watched group that its agent remembers, for watchers that come back. Raising it lets
    them be away for longer without a gap, and costs memory for each group that is watched."""

    watch_records_max: int = 8_192
    """Member records in those changes. A record is about 200 bytes."""

    watch_linger_s: float = 30.0
    """How long a group is followed and remembered after its last watcher has gone. Raising it gives programs
    more time to come back, while changes without a reader are still sent to this host."""

    watch_idle_max: int = 256
    """Groups that are remembered without a watcher; the one that has been waiting longest goes first."""

    @classmethod
    def wan(cls) -> "RelaxedConfig":
        """Sites far apart: fewer refreshes."""
        return cls()

    @classmethod
    def lan(cls) -> "RelaxedConfig":
        """One site, or a few close ones: refreshes are cheap, so lives are known sooner."""
        return cls(life_refresh_s=1.0)
