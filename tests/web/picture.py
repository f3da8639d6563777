"""The picture of the dashboard in the documentation: ``make picture``.

A real small world in a real browser: a host has crashed, then the link between the two regions was cut, and a
group is compared from both sides. With ``--also DIR``, the whole page at several widths, to be looked at.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.browser import Browser, Font

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
ROBOTO: Final = Font("Roboto", ("Roboto-Regular.ttf", "Roboto-Bold.ttf"), "fonts-roboto-unhinted")
WIDTH, HEIGHT = 1280, 1180
STATE: Final = "return document.querySelector(`[data-path='${arguments[0]}']`)?.dataset.state"
ENTRY: Final = (
    "return [...document.querySelectorAll('#entries .what')].some(e => e.textContent === arguments[0])"
)
GROUP: Final = (
    "[...document.querySelectorAll('#group-list button')]"
    ".find(e => e.innerText.startsWith(arguments[0])).click()"
)
LINK: Final = (
    "document.querySelector(`[data-link='eu|us']`).dispatchEvent(new MouseEvent('click', {bubbles: true}))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--also", type=Path, metavar="DIR", help="the whole page at 400 and 1280 pixels")
    also = parser.parse_args().also
    with tempfile.TemporaryDirectory(prefix="dash", dir="/tmp") as runtime:
        environ = {**os.environ, "XDG_RUNTIME_DIR": runtime}
        words = [sys.executable, "-m", "rostra", "up", "--quiet", "--port", "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as up:
            assert up.stdout is not None
            try:
                with Browser.open(ROBOTO, WIDTH, HEIGHT) as browser:
                    take(browser, up.stdout.readline().strip(), also)
            finally:
                up.send_signal(signal.SIGINT)


def take(browser: Browser, address: str, also: Path | None) -> None:
    browser.go(address)
    up = "return document.querySelectorAll('.tree .server[data-state=up]').length === 14"
    browser.until("all servers are up", up)
    browser.until_text("#group-list", "lounge")
    shoot_widths(browser, also, "calm")
    browser.click("[data-path='us.sf.h2']")
    browser.click("[data-act='crash']")
    browser.until("it is down", f"{STATE} === 'down'", "us.sf.h2")
    browser.run(LINK)
    browser.click("[data-act='cut-between']")
    for side in ("eu goes on without us", "us goes on without eu"):
        browser.until(side, ENTRY, side)
    browser.until("both are cut off", f"{STATE} === 'cut off'", "eu")
    browser.run(GROUP, "lounge")
    browser.until_text("#members", "difference")
    browser.click("#domains-title")  # leaves no button under the pointer
    browser.run("document.activeElement.blur(); scrollTo(0, 0)")
    browser.shoot(IMAGES / "dashboard.png")
    shoot_widths(browser, also, "cut")


def shoot_widths(browser: Browser, directory: Path | None, name: str) -> None:
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    for width in (400, WIDTH):
        browser.resize(width, 860)
        browser.shoot(directory / f"{name}-{width}.png", whole_page=True)
    browser.resize(WIDTH, HEIGHT)


if __name__ == "__main__":
    main()
