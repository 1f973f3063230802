"""The operator in the source of a test that opsdk writes."""

from __future__ import annotations

from typing import NamedTuple

from opsdk.errors import UsageError

__all__ = ["OperatorReference"]


class OperatorReference(NamedTuple):
    """An operator, or a function that returns one, in a module.

    >>> OperatorReference.parse("shop.operator:make").import_line
    'from shop.operator import make'
    """

    module: str
    attribute: str

    @classmethod
    def parse(cls, text: str) -> OperatorReference:
        """Return the reference in ``MODULE:NAME``. Raises `UsageError` for another form, such as a file."""
        module, _, attribute = text.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise UsageError(
                f"{text!r} does not name an operator that a test can import: write MODULE:NAME, such as "
                "shop.operator:operator"
            )
        return cls(module, attribute)

    @property
    def import_line(self) -> str:
        """The statement that imports it."""
        return f"from {self.module} import {self.attribute}"

    @property
    def expression(self) -> str:
        """The expression that is the operator. It needs the name ``Operator``."""
        return f"{self.attribute} if isinstance({self.attribute}, Operator) else {self.attribute}()"
