"""Every benchmark, one after the other: ``make bench``. Trust the ratios; absolute times are this machine's."""

from __future__ import annotations

import asyncio
import sys

from tests.bench import decode, load, starts, websites

if __name__ == "__main__":
    decode.run()
    asyncio.run(websites.run(int(sys.argv[1]) if len(sys.argv) > 1 else 500, 8))
    asyncio.run(starts.run())
    asyncio.run(load.run())
