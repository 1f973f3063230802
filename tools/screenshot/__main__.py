"""Write the screenshot of ``opsdk top`` as SVG, from fixed debug pages.

usage: python -m tools.screenshot [FILE]
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from opsdk.cli.target import TargetCluster
from opsdk.cli.top.actions import Actions
from opsdk.cli.top.app import TopApp
from opsdk.cli.top.client import DebugClient
from opsdk.cli.top.monitor import Monitor
from opsdk.cli.top.targets import client_of, config_of
from tools.screenshot.pages import bad_night

_FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "top.svg"
_SIZE = (100, 24)


class FixedClient(DebugClient):
    """A client whose operator has a bad night. Each call is two seconds later."""

    def __init__(self) -> None:
        client = client_of("http://127.0.0.1:6060")
        super().__init__(client.name, client._open_url)  # noqa: SLF001 - nothing is opened
        self.calls = 0

    async def pages(self, names: object = None) -> dict[str, object]:
        """Return the fixed pages."""
        self.calls += 1
        return bad_night(later=self.calls > 1)


async def screenshot(size: tuple[int, int] = _SIZE) -> str:
    """Return the screen as SVG."""
    client = FixedClient()
    seconds = iter(range(0, 1000, 2))
    app = TopApp(
        Monitor(client, now=lambda: float(next(seconds))), Actions(client, config_of(TargetCluster())), interval=0
    )
    async with app.run_test(size=size) as pilot:
        await app.refresh_state()
        await app.refresh_state()
        await pilot.pause()
        return app.export_screenshot(title="opsdk top")


def main() -> None:
    """Write the file."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _FILE
    path.write_text(asyncio.run(screenshot()), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
