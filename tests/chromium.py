"""A headless Chromium that watches what a page complains of and what it asks for."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-zygote", "--single-process", "--headless=shell"]


def chromium() -> str | None:
    """One that can be started: the one that $NUMCOKE_CHROMIUM names, or one on the path."""
    names = (os.environ.get("NUMCOKE_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


needs_chromium = pytest.mark.skipif(
    chromium() is None, reason="there is no Chromium; $NUMCOKE_CHROMIUM may name one"
)


class Tab(NamedTuple):
    """A page (of playwright), lines of its console and errors in it, and the addresses it has asked for."""

    page: Any
    complaints: list[str]
    requests: list[str]


@contextlib.contextmanager
def opened(url: str, width: int, scheme: str) -> Iterator[Tab]:
    """The page at an address, on a screen of that width, in the "light" or the "dark" scheme."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright drives Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab = Tab(page, [], [])
        page.on("console", lambda message: tab.complaints.append(message.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("request", lambda request: tab.requests.append(request.url))
        page.goto(url)
        yield tab
        browser.close()
