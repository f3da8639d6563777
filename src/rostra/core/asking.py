"""Base of services that make requests to services after them in the list, and take the answers out of the
effects.

    step, hear ──▶ _begin ──▶ _call ──▶ a service after this one
                                │ its effects
                              _sift ──▶ Answer to a question of ours ──▶ _answered
                                ├─────▶ Tell ──▶ _is_for_us: consumed
                                └─────▶ all others leave with our own ──▶ _finish

The tokens of its questions are negative and in a range of its own, so that they are never those of programs.
An answer may also come in a later step, and then passes `hear`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rostra.core.effects import Answer, Effect, Event, Instant, Tell
from rostra.core.stack import Service, ServiceName

About = TypeVar("About")


class AskingService(Service, Generic[About]):
    """`About` is kept with each request, for its answer; the answer to a request without one is dropped."""

    first_token: ClassVar[int]

    def __init__(self) -> None:
        self._own: dict[int, About | None] = {}
        self._token = self.first_token
        self._now: Instant = 0.0
        self._out: list[Effect] = []

    @abstractmethod
    def _answered(self, about: About, result: object) -> None:
        """The answer to a question of ours."""

    def _is_for_us(self, tell: Tell) -> bool:
        """Handle a notice of another service. True if it is for this service, and not for a program."""
        return False

    def _begin(self, now: Instant) -> list[Effect]:
        self._now, self._out = now, []
        return self._out

    def _finish(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _call(self, service: ServiceName[Any], event: Event) -> None:
        self._sift(self.stack.call(self._now, self, service, event))

    def _sift(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Answer and effect.token in self._own:
                about = self._own.pop(effect.token)
                if about is not None:
                    self._answered(about, effect.result)
            elif type(effect) is not Tell or not self._is_for_us(effect):
                self._out.append(effect)

    def _drop_questions(self, is_over: Callable[[About], bool]) -> None:
        """Questions for a program that is gone, which nothing answers any more."""
        for token in [token for token, about in self._own.items() if about is not None and is_over(about)]:
            del self._own[token]

    def _own_token(self, about: About | None = None) -> int:
        self._token -= 1
        self._own[self._token] = about
        return self._token
