"""Longer runs of opsdk's runtime alone: ``python -m benchmarks.runtime NAME [ARGUMENTS]``.

``attacks`` sends requests that were expensive once. ``failover [ROUNDS]`` plays failovers with real processes, about
15 s a round. ``churn [SECONDS]`` lets an operator follow a server that changes and breaks; ``churn --names NAMES``
prints its memory while as many objects come and go.
``certificates [ROTATIONS]`` replaces the CA of webhook servers under load.
``children`` compares declared children with live ones. ``page [OBJECTS]`` loads the web page of Norman.
``secrets [SECRETS]`` prints what an operator holds that references 50 of many Secrets.
``sharding [OBJECTS]`` shares one cluster between 1, 2 and 4 processes. ``stalls`` measures the event loop.
``storage [WRITES]`` puts memory, SQLite and etcd side by side.
``tls [CONNECTIONS]`` compares connections with and without TLS. ``websites [COUNT [WORKERS]]`` runs the sample, which
must be on the path: ``PYTHONPATH=samples/website``.
"""

from __future__ import annotations

import asyncio
import importlib
import sys

_DEFAULTS: dict[str, list[int]] = {
    "attacks": [],
    "failover": [20],
    "churn": [3600],
    "certificates": [100],
    "children": [],
    "page": [10_000],
    "secrets": [33_000],
    "sharding": [4000],
    "stalls": [],
    "storage": [4000],
    "tls": [200],
    "websites": [500, 8],
}
_WITH_LOOPS_OF_THEIR_OWN = ("certificates", "stalls")


def main() -> None:
    """Run what the command line names; numbers replace the defaults from the left."""
    name, arguments = "".join(sys.argv[1:2]), sys.argv[2:]
    by_names = name == "churn" and arguments[:1] == ["--names"]
    numbers = [int(text) for text in arguments[1:] or ["100000"]] if by_names else [int(text) for text in arguments]
    if name not in _DEFAULTS:
        sys.exit(__doc__)
    # Only this one: others need extras, or a sample on the path.
    module = importlib.import_module(f"benchmarks.runtime.{name}")
    if name in _WITH_LOOPS_OF_THEIR_OWN:
        module.main(*numbers, *_DEFAULTS[name][len(numbers) :])
    elif by_names:
        asyncio.run(module.run_names(*numbers))
    else:
        asyncio.run(module.run(*numbers, *_DEFAULTS[name][len(numbers) :]))


if __name__ == "__main__":
    main()
