"""The error of a workload that cannot be generated."""

from __future__ import annotations

from opsdk.errors import OpsdkError
from opsdk.structured_merge.paths import FieldPath


class NoCustomResourceError(OpsdkError):
    """No custom resource was generated: the schema admits none, or refuses an example of the author.

    Attributes:
        path: the field without a possible value, such as ``spec.size``.
        reason: why the schema refuses each value.

    >>> print(NoCustomResourceError(FieldPath("spec", "size"), "minimum 5 is above maximum 3"))
    spec.size has no value that the schema admits (minimum 5 is above maximum 3): add an example with this field
    """

    def __init__(self, path: FieldPath, reason: str, advice: str = "add an example with this field") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path or 'the custom resource'} has no value that the schema admits ({reason}): {advice}")
