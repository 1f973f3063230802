"""Longer runs of opsdk's runtime alone: ``python -m benchmarks.runtime NAME [ARGUMENTS]``.

``failover [ROUNDS]`` plays failovers with real processes, about 15 s a round. ``churn [SECONDS]`` lets an operator
follow a server that changes and breaks. ``certificates [ROTATIONS]`` replaces the CA of webhook servers under load.
``children`` compares declared children with live ones. ``stalls`` measures the event loop. ``websites [COUNT
[WORKERS]]`` runs the sample operator.
"""

from __future__ import annotations

import asyncio
import sys

from benchmarks.runtime import certificates, children, churn, failover, stalls, websites


def main() -> None:
    """Run what the command line names."""
    name, numbers = sys.argv[1] if len(sys.argv) > 1 else "", [float(text) for text in sys.argv[2:]]
    if name == "failover":
        asyncio.run(failover.run(int(numbers[0]) if numbers else 20))
    elif name == "churn":
        asyncio.run(churn.run(numbers[0] if numbers else 3600.0))
    elif name == "certificates":
        asyncio.run(certificates.run(int(numbers[0]) if numbers else 100))
    elif name == "children":
        asyncio.run(children.run())
    elif name == "stalls":
        stalls.main()
    elif name == "websites":
        count, workers = [int(number) for number in numbers + [500, 8][len(numbers) :]][:2]
        asyncio.run(websites.run(count, workers))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
