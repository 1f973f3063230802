"""The error of a request to a Norman API."""

from __future__ import annotations

from opsdk.errors import OpsdkError

__all__ = ["NormanError"]


class NormanError(OpsdkError):
    """A request to a Norman API failed. A handler, formatter or store raises it; the server writes it as the body.

    Args:
        message: what is wrong; may be empty if the code is enough.
        status: the HTTP status.
        code: the code of the body, such as ``MissingRequired``; `opsdk.norman.codes.ErrorCode` has them all.
        field_name: the field that is wrong, or empty.
    """

    def __init__(
        self, message: str = "", *, status: int = 500, code: str = "ServerError", field_name: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.field_name = field_name

    def __str__(self) -> str:
        return ": ".join(filter(None, (f"{self.code} {self.status}", self.field_name, self.message)))
