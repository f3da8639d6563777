"""What every audit needs to know of the events, made once for all of them and kept: it is small.

The events themselves are read anew by every audit, and only in the columns that it looks at.
"""

from functools import cached_property

from pyspark.sql import DataFrame

from rostra.history.audits.findings import doubts, known_lives, simulated
from rostra.history.audits.truth import faults, informed, moments


class Evidence:
    """Events, and what can be trusted of them. Keep one for several audits of the same events."""

    def __init__(self, events: DataFrame) -> None:
        self.events = events
        self._moments: dict[float, DataFrame] = {}

    @cached_property
    def simulated(self) -> DataFrame:
        """Worlds whose truth a simulator wrote down."""
        return simulated(self.events).persist()

    @cached_property
    def lived(self) -> DataFrame:
        """The lives of all writers, with the crashes that somebody saw."""
        return known_lives(self.events).persist()

    @cached_property
    def doubts(self) -> DataFrame:
        return doubts(self.events, self.simulated).persist()

    @cached_property
    def faults(self) -> DataFrame:
        return faults(self.events, self.simulated, self.lived).persist()

    @cached_property
    def informed(self) -> DataFrame:
        """Who followed which group, from the first list on."""
        return informed(self.events, self.lived).persist()

    def moments(self, bound_s: float) -> DataFrame:
        if bound_s not in self._moments:
            self._moments[bound_s] = moments(self.events, self.simulated, bound_s).persist()
        return self._moments[bound_s]

    def release(self) -> None:
        """Forget what was kept."""
        kept = [
            frame for name, frame in vars(self).items() if name != "events" and isinstance(frame, DataFrame)
        ]
        for frame in (*kept, *self._moments.values()):
            frame.unpersist()
