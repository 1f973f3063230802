"""Awaits the authorizer checks of synchronous expressions: each missing decision repeats the evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from opsdk.aio.large_work import attempt
from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes, Decision

T = TypeVar("T")


class _UnansweredError(Exception):
    def __init__(self, attributes: AuthorizerAttributes) -> None:
        self.attributes = attributes


@dataclass(slots=True)
class AuthorizerChecks:
    """The authorizer checks of several evaluations, with their decisions; expressions call `ask`."""

    authorizer: Authorizer
    _known: list[tuple[AuthorizerAttributes, Decision]] = field(default_factory=list)

    def ask(self, attributes: AuthorizerAttributes) -> Decision:
        """Return the decision of a check; stop the evaluation if it is missing."""
        for known_attributes, decision in self._known:
            if known_attributes == attributes:
                return decision
        raise _UnansweredError(attributes)

    async def run(self, evaluate: Callable[[], T]) -> T:
        """Run `evaluate` until all its checks are decided; it runs again after each missing one.

        A long evaluation runs outside the event loop.
        """
        while True:
            try:
                return await attempt(evaluate)
            except _UnansweredError as unanswered:
                self._known.append((unanswered.attributes, await self.authorizer.authorize(unanswered.attributes)))
