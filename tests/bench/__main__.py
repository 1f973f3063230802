"""Every benchmark, one after the other: ``make bench``. Trust the ratios; absolute times are this machine's.

``python -m tests.bench failover [ROUNDS]`` plays failovers with real processes instead, about 15 s a round;
``churn [SECONDS]`` lets an operator follow a server that changes and breaks; ``stalls`` measures the event loop;
``children`` compares declared children with live ones; ``certificates [ROTATIONS]`` replaces the CA of webhook servers
under load.
"""

from __future__ import annotations

import asyncio
import sys

from tests.bench import certificates, children, churn, decode, failover, load, stalls, starts, websites

if __name__ == "__main__":
    if sys.argv[1:2] == ["failover"]:
        asyncio.run(failover.run(int(sys.argv[2]) if len(sys.argv) > 2 else 20))
    elif sys.argv[1:2] == ["churn"]:
        asyncio.run(churn.run(float(sys.argv[2]) if len(sys.argv) > 2 else 3600.0))
    elif sys.argv[1:2] == ["certificates"]:
        asyncio.run(certificates.run(int(sys.argv[2]) if len(sys.argv) > 2 else 100))
    elif sys.argv[1:2] == ["children"]:
        asyncio.run(children.run())
    elif sys.argv[1:2] == ["stalls"]:
        stalls.main()
    else:
        decode.run()
        asyncio.run(children.run())
        asyncio.run(websites.run(int(sys.argv[1]) if len(sys.argv) > 1 else 500, 8))
        asyncio.run(starts.run())
        asyncio.run(load.run())
