"""Names of objects.

Upstream: github.com/rancher/wrangler/pkg/name
"""

from __future__ import annotations

import hashlib

_MAX_NAME = 63


def safe_concat_name(*parts: str) -> str:
    """Return the parts joined with ``-``; if the name has more than 63 characters, a hash replaces its end.

    The same parts produce the same name, as with wrangler's ``SafeConcatName``.

    >>> safe_concat_name("cluster", "dns")
    'cluster-dns'
    >>> safe_concat_name("a" * 40, "b" * 30)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-0e567'
    """
    name = "-".join(parts)
    if len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    # The character before the hash must not be a separator; then the hash is one character longer.
    length = 57 if name[56].isascii() and (name[56].isdigit() or name[56].islower()) else 56
    return f"{name[:length]}-{digest[: _MAX_NAME - 1 - length]}"
