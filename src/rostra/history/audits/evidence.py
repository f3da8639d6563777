"""What every audit needs to know of the events, made once for all of them and kept: it is small.

The events themselves are read anew by every audit, and only in the columns that it looks at.
"""

from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.findings import doubts, known_lives, simulated
from rostra.history.audits.truth import at_fault, calm, faults, informed, span


class Evidence:
    """Events, and what can be trusted of them. Keep one for several audits of the same events."""

    def __init__(self, events: DataFrame) -> None:
        self.events = events
        self._calm: dict[float, DataFrame] = {}

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
    def times(self) -> DataFrame:
        """When each world's journals begin and end."""
        return span(self.events).persist()

    @cached_property
    def faults(self) -> DataFrame:
        return faults(self.events, self.simulated, self.lived).persist()

    @property
    def at_fault(self) -> DataFrame:
        return at_fault(self.faults, self.times)

    @cached_property
    def informed(self) -> DataFrame:
        """Who followed which group, from the first list on."""
        return informed(self.events, self.lived).persist()

    @cached_property
    def speaking(self) -> DataFrame:
        """Groups that speak: world, group. Their members are told of without stamps, and twice: by the
        servers and among what is said. So what was told of them cannot be matched with what happened."""
        told = self.events.where(F.col("kind").isin("absolute", "joined") & (F.col("change") == "joined"))
        return told.where(F.col("stamp").isNull()).select("world", "group").distinct().persist()

    def calm(self, bound_s: float) -> DataFrame:
        """When everything must be right."""
        if bound_s not in self._calm:
            found = calm(self.events, self.simulated, self.times, self.faults, bound_s)
            self._calm[bound_s] = found.persist()
        return self._calm[bound_s]

    @cached_property
    def homes(self) -> DataFrame:
        """Hosts whose journals are here: world, home. Of members of others nobody says if they are there."""
        agents = self.lived.where(F.col("role") == "agent")
        return agents.select("world", F.col("writer").alias("home")).distinct().persist()

    def release(self) -> None:
        """Forget what was kept."""
        kept = [
            frame for name, frame in vars(self).items() if name != "events" and isinstance(frame, DataFrame)
        ]
        for frame in (*kept, *self._calm.values()):
            frame.unpersist()
