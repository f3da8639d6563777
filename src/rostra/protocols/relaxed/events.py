"""Events of an agent, besides those that every core shares."""

from rostra.core.effects import Event


class JoinsBegin(Event, frozen=True):
    """Several joins follow, of one turn: they share one notice."""


class JoinsEnd(Event, frozen=True):
    """That was all of them: now notices are sent."""
