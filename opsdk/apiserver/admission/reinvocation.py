"""State for the second mutating round: which webhooks and policies run again.

Upstream: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go (v1.36).
"""

from __future__ import annotations

import msgspec

from opsdk.apiserver.admission.attributes import Attributes
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.value import JsonObject


class Reinvocation(msgspec.Struct):
    """The reinvocation state of mutating webhooks for one request.

    Attributes:
        last: the object as it was left.
        invoked: the keys of those that were called, and have reinvocationPolicy IfNeeded.
        again: the keys of those that are called in the second round.
    """

    last_output: JsonObject | None = None
    previously_invoked: set[str] = msgspec.field(default_factory=set)
    to_reinvoke: set[str] = msgspec.field(default_factory=set)

    @classmethod
    def of(cls, attributes: Attributes, plugin: str) -> Reinvocation:
        """Return a plugin's state; a change of the object since its last round counts."""
        rounds: Reinvocation = attributes.notes.setdefault(plugin, cls())
        if attributes.is_reinvoke and not deep_equal(rounds.last_output, attributes.obj):
            rounds.changed()
        return rounds

    def changed(self) -> None:
        """Mark the webhooks that ran and allow reinvocation, because the object has changed."""
        self.to_reinvoke |= self.previously_invoked
        self.previously_invoked.clear()
