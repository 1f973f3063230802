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
        """The answer, if there is one yet."""
        for known_attributes, decision in self._known:
            if known_attributes == attributes:
                return decision
        raise _UnansweredError(attributes)

    async def run(self, evaluate: Callable[[], T]) -> T:
        """What `evaluate` gives once all its questions are answered; it runs anew for each that has no answer yet."""
        while True:
            try:
                return evaluate()
            except _UnansweredError as asked:
                self._known.append((asked.attributes, await self.authorizer.authorize(asked.attributes)))
