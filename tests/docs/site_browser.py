"""The built site in a browser of a phone's width: what does not fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_TOO_WIDE = """() => {
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const isHidden = (element) => {
    if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let parent = element.parentElement; parent; parent = parent.parentElement) if (scrolls(parent)) return false;
    return true;
  };
  const hidden = [...document.querySelectorAll(".md-content *")].filter(isHidden).map((element) => element.outerHTML);
  const width = document.documentElement.scrollWidth;
  return width > innerWidth ? [`the page is ${width} px wide`] : hidden.map((html) => html.slice(0, 100)).slice(0, 3);
}"""


def too_wide(site: Path, pages: Iterable[str], width: int = 390) -> Iterator[str]:
    """Yield what of each page a reader cannot see or scroll to. Needs playwright and `CHROMIUM`."""
    from playwright.sync_api import sync_playwright  # only machines with a browser have it

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": width, "height": 844})
        for page in pages:
            tab.goto((site / page).as_uri())
            yield from (f"{page}: {element}" for element in tab.evaluate(_TOO_WIDE))
        browser.close()
