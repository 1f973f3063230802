"""Types of decoded JSON.

mypy cannot follow a recursive union through ``obj["spec"]["replicas"]`` without a check at each level. Both names are
therefore unchecked types; they document which values are JSON, and which are objects.
"""

from typing import Any, TypeAlias

JsonValue: TypeAlias = Any
"""Any value that ``json.loads`` returns: dict, list, str, int, float, bool, or None."""

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; Go's ``map[string]interface{}``."""
