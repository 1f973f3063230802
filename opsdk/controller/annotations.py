"""Names of the annotations in which a controller keeps a record on its objects. Pure."""

from __future__ import annotations

import hashlib
import re

_DOMAIN = "opsdk.dev"
# The part of an annotation's name after the slash has at most 63 characters.
_CONTROLLER = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,45}[A-Za-z0-9])?")


def controller_annotation(record: str, controller: str) -> str:
    """Return the annotation of a controller's record. Two controllers of one kind have one each.

    Args:
        record: what the annotation keeps, in at most 15 characters.
        controller: name of the controller.

    >>> controller_annotation("applied-fields", "site")
    'opsdk.dev/applied-fields.site'
    """
    if not _CONTROLLER.fullmatch(controller):
        controller = hashlib.sha256(controller.encode()).hexdigest()[:32]
    return f"{_DOMAIN}/{record}.{controller}"
