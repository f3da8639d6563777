"""What a front reports to observers, besides the notices that it sends to watchers."""

from rostra.core.effects import Observation
from rostra.names import Endpoint, Group
from rostra.protocols.detect.programs import ProgramEvidence


class WatchBegan(Observation, frozen=True):
    watcher: Endpoint
    group: Group


class WatchEnded(Observation, frozen=True):
    watcher: Endpoint
    group: Group | None = None  # None: all that it watched


class NoticesMissed(Observation, frozen=True):
    """A program read too slowly: this many notices of these groups were dropped."""

    endpoint: Endpoint
    missed: int
    groups: tuple[Group, ...]


class EndpointsSuspected(Observation, frozen=True):
    """The endpoints of one program, which does not answer."""

    endpoints: tuple[Endpoint, ...]
    evidence: ProgramEvidence


class EndpointsTrusted(Observation, frozen=True):
    """The endpoints of one program, which answers again."""

    endpoints: tuple[Endpoint, ...]
    after_s: float
