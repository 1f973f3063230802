"""Answers authorizer checks from synchronous expressions: it awaits missing decisions, then evaluates again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from opsdk.apiserver.auth.authorization import Authorizer, AuthorizerAttributes, Decision

T = TypeVar("T")


class _UnansweredError(Exception):
    def __init__(self, attributes: AuthorizerAttributes) -> None:
        self.attributes = attributes


@dataclass(slots=True)
class AuthorizerChecks:
    """The checks of some evaluations and their decisions; expressions call `ask`."""

    authorizer: Authorizer
    _known: list[tuple[AuthorizerAttributes, Decision]] = field(default_factory=list)

    def ask(self, attributes: AuthorizerAttributes) -> Decision:
        """Return the decision of a check, if it is known already."""
        for known_attributes, decision in self._known:
            if known_attributes == attributes:
                return decision
        raise _UnansweredError(attributes)

    async def run(self, evaluate: Callable[[], T]) -> T:
        """Run `evaluate` until all its checks are decided; it runs again after each missing one."""
        while True:
            try:
                return evaluate()
            except _UnansweredError as unanswered:
                self._known.append((unanswered.attributes, await self.authorizer.authorize(unanswered.attributes)))
