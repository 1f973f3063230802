"""Types of decoded JSON.

mypy cannot follow a recursive union through ``obj["spec"]["replicas"]`` without a check at each level. Both names are
therefore unchecked types; they document which values are JSON, and which are objects.
"""

from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["JsonObject"]

JsonValue: TypeAlias = Any
"""Any value that ``json.loads`` returns: dict, list, str, int, float, bool, or None."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; Go's ``map[string]interface{}``."""

JSON_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What ``msgspec.json.decode`` raises: for malformed text, numbers of 4,300 digits, deep nesting."""
