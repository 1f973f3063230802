"""What an applier remembers of its last apply of an object. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from opsdk.children.comparison import ApplyComparison, ApplyDifference, DifferenceKind
from opsdk.structured_merge.fieldpath import FieldSet


class RemainingDifferences(msgspec.Struct, frozen=True):
    """Digests of the differences that remained after an apply.

    Attributes:
        all: of all differences; b"" if there are none.
        values: of the value differences, the only detectable ones if a cache strips managedFields.
    """

    all: bytes = b""
    values: bytes = b""

    @classmethod
    def of(cls, comparison: ApplyComparison) -> RemainingDifferences:
        """Return the digests of a comparison."""
        differences = comparison.differences
        values = [d for d in differences if d.kind in (DifferenceKind.VALUE, DifferenceKind.ORDER)]
        return cls(_differences_digest(differences), _differences_digest(values))


def _differences_digest(differences: Sequence[ApplyDifference]) -> bytes:
    if not differences:
        return b""
    text = repr([(d.kind.value, d.path, d.live, d.desired) for d in differences])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


NO_DIFFERENCES: Final = RemainingDifferences()


class ApplyOutcome(msgspec.Struct, frozen=True):
    """The result of an apply, or of a comparison that made none necessary.

    Attributes:
        remaining: the differences that remained after the last apply.
        owned: the fields of the last apply.
    """

    remaining: RemainingDifferences
    owned: FieldSet


class ApplyRecord(msgspec.Struct, frozen=True):
    """The outcome of the last apply or comparison of one object.

    Attributes:
        uid: of the live object.
        resource_version: at which the live object needed no write.
        source: digest of the arguments of the call, or b"" if it is unknown.
        digest: of the desired object.
        remaining: see `ApplyOutcome`.
        owned: see `ApplyOutcome`.
        previous_digest: of the desired object before, or b"".
    """

    uid: str
    resource_version: str
    source: bytes
    digest: bytes
    remaining: RemainingDifferences
    owned: FieldSet
    previous_digest: bytes = b""

    def weight(self) -> int:
        """Return the bytes of the record, roughly."""
        return 1000 + self.owned.weight()

    def is_at(self, uid: str, resource_version: str) -> bool:
        """Whether the live object has not changed since."""
        return self.resource_version == resource_version and self.uid == uid
