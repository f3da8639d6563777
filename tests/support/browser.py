"""A real Chromium, driven headless through chromedriver's own protocol: plain JSON over HTTP.

with Browser.open() as browser:
    browser.go("http://127.0.0.1:7780/")
    browser.click("#theme")
    browser.until("the theme is dark", "return document.documentElement.dataset.theme === 'dark'")
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
FONTS = Path("/usr/share/fonts")
START_TIMEOUT_S = 60.0
WAIT_S = 60.0
LOOK_S = 0.05
STICKING_OUT = """
  const page = document.documentElement, body = document.body;
  const scrolls = (e) => e !== body && ["auto", "hidden"].includes(getComputedStyle(e).overflowX);
  const found = page.scrollWidth > innerWidth ? [`the page: ${page.scrollWidth}`] : [];
  for (const e of body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || e.closest(".hidden, .skip")) continue;
    let around = e.parentElement;
    while (around !== body && !scrolls(around) && !around.matches(".card, .top, .lost"))
      around = around.parentElement;
    if (scrolls(around)) continue;
    const inside = around.getBoundingClientRect();
    const room = around === body ? { left: 0, right: innerWidth, bottom: Infinity } : inside;
    if (box.left < room.left - 1 || box.right > room.right + 1 || box.bottom > room.bottom + 1)
      found.push(`${e.tagName} ${e.id || e.getAttribute("class") || e.textContent.slice(0, 20)}: `
        + `${box.left.toFixed()} to ${box.right.toFixed()}, down to ${box.bottom.toFixed()}, in `
        + `${room.left.toFixed()} to ${room.right.toFixed()}, down to ${room.bottom.toFixed()}`);
  }
  return found"""
KEYS = {
    "Enter": "\ue007",
    "Tab": "\ue004",
    "ArrowDown": "\ue015",
    "ArrowRight": "\ue014",
    "ArrowUp": "\ue013",
}


def why_no_browser() -> str | None:
    packages = {"chromium": "chromium", "chromedriver": "chromium-driver"}
    missing = [package for name, package in packages.items() if shutil.which(name) is None]
    missing += [font.package for font in (WIDE, NARROW) if not font.find()]
    return (
        f"there is no browser, or not in two fonts: apt-get install -y {' '.join(missing)}"
        if missing
        else None
    )


@dataclass(frozen=True)
class Font:
    """What a browser may have as its only font."""

    family: str
    files: tuple[str, ...]
    package: str

    def find(self) -> list[Path]:
        found = [path for name in self.files for path in sorted(FONTS.rglob(name))[:1]]
        return found if len(found) == len(self.files) else []


WIDE = Font(
    "DejaVu Sans", ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf"), "fonts-dejavu-core"
)
NARROW = Font(
    "Roboto Condensed", ("RobotoCondensed-Regular.ttf", "RobotoCondensed-Bold.ttf"), "fonts-roboto-unhinted"
)


class BrowserError(AssertionError):
    pass


class Browser:
    def __init__(self, base: str, session: str) -> None:
        self._base = f"{base}/session/{session}"

    @classmethod
    @contextlib.contextmanager
    def open(cls, font: Font, width: int = 1280, height: int = 900) -> Iterator["Browser"]:
        """A fresh browser with nothing remembered and one font, closed at the end with all its processes."""
        with (
            tempfile.TemporaryDirectory(prefix="rostra-chromium-", ignore_cleanup_errors=True) as profile,
            _driver(_only(font, Path(profile) / "fonts")) as base,
        ):
            flags = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
            wanted = {
                "alwaysMatch": {
                    "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": flags},
                    "goog:loggingPrefs": {"browser": "ALL"},
                }
            }
            session = _ask("POST", f"{base}/session", {"capabilities": wanted})["sessionId"]
            browser = cls(base, session)
            try:
                browser.reset(width, height)
                yield browser
            finally:
                with contextlib.suppress(OSError, BrowserError):
                    _ask("DELETE", browser._base)

    def reset(self, width: int = 1280, height: int = 900) -> None:
        """Leave the page, and forget what pages wanted remembered, and what was complained about."""
        self.go("about:blank")
        self._devtools("Storage.clearDataForOrigin", origin="*", storageTypes="all")
        self.resize(width, height)
        self.set_dark(False)
        self.complaints()

    # Looking

    def go(self, address: str) -> None:
        self._post("url", url=address)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a function's body in the page."""
        return self._post("execute/sync", script=script, args=list(arguments))

    def until(self, what: str, script: str, *arguments: Any, wait_s: float = WAIT_S) -> Any:
        """Wait until the script gives something true; fail with `what` if it never does."""
        deadline = time.monotonic() + wait_s
        while not (answer := self.run(script, *arguments)):
            if time.monotonic() > deadline:
                raise BrowserError(f"not within {wait_s:g} s: {what}\n{self.text('main')[:3000]}")
            time.sleep(LOOK_S)
        return answer

    def until_served(self, address: str) -> None:
        """Wait until something answers there."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(address, timeout=1.0):
                    return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise BrowserError(f"nobody serves {address}: {error}") from None
                time.sleep(LOOK_S)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until_text(self, selector: str, text: str, *, wait_s: float = WAIT_S) -> None:
        script = "return document.querySelector(arguments[0])?.innerText.includes(arguments[1])"
        self.until(f"{text!r} in {selector}", script, selector, text, wait_s=wait_s)

    def shoot(self, path: Path, *, whole_page: bool = False) -> None:
        """A screenshot of the window, or of the page from top to bottom."""
        if whole_page:
            self.run("scrollTo(0, 0)")
            size = self.run("const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]")
            clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
            shot = self._devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        else:
            shot = _ask("GET", f"{self._base}/screenshot")
        path.write_bytes(base64.b64decode(shot))

    def fonts(self, selector: str) -> set[str]:
        """The families in which the text of the first such element is drawn."""
        self._devtools("DOM.enable")
        self._devtools("CSS.enable")
        page = self._devtools("DOM.getDocument")["root"]["nodeId"]
        node = self._devtools("DOM.querySelector", nodeId=page, selector=selector)["nodeId"]
        drawn = self._devtools("CSS.getPlatformFontsForNode", nodeId=node)["fonts"]
        return {each["familyName"] for each in drawn}

    def sticking_out(self) -> list[str]:
        """What does not fit into the window or into its card, except in boxes that scroll or shorten."""
        return list(self.run(STICKING_OUT))

    def complaints(self) -> list[str]:
        """What the browser wrote to its console about our pages, warnings included."""
        log = self._post("se/log", type="browser")
        return [line["message"] for line in log if line["level"] in ("WARNING", "SEVERE")]

    # Acting, as a person would

    def click(self, selector: str) -> None:
        """Click on it, as soon as it is there. A page that is live may draw it anew while we aim."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                found = self._post("element", using="css selector", value=selector)
                (element,) = found.values()
                self._post(f"element/{element}/click")
                return
            except BrowserError as error:
                missed = str(error).startswith(
                    ("no such element", "stale element", "element click intercepted")
                )
                if not missed or time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")
        ]
        self._post("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def choose(self, selector: str, value: str) -> None:
        script = (
            "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('change', {bubbles: true})); return s.value === arguments[1]"
        )
        assert self.run(script, selector, value), f"{selector} has no {value}"

    # The window

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", **metrics)

    def set_dark(self, dark: bool) -> None:
        """What the system's setting says."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._devtools("Emulation.setEmulatedMedia", features=features)

    def _devtools(self, method: str, **parameters: Any) -> Any:
        return self._post("goog/cdp/execute", cmd=method, params=parameters)

    def _post(self, path: str, **content: Any) -> Any:
        return _ask("POST", f"{self._base}/{path}", content)


def _only(font: Font, directory: Path) -> dict[str, str]:
    """The environment of a browser that has this font and no other."""
    directory.mkdir()
    for file in font.find():
        shutil.copy(file, directory)
    settings = directory / "fonts.conf"
    settings.write_text(
        f"<fontconfig><dir>{directory}</dir><cachedir>{directory}/cache</cachedir></fontconfig>"
    )
    return {**os.environ, "FONTCONFIG_FILE": str(settings)}


@contextlib.contextmanager
def _driver(environment: dict[str, str]) -> Iterator[str]:
    """A chromedriver of our own, on a free port that it chooses."""
    with subprocess.Popen(
        ["chromedriver", "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "started successfully on port" in line:
                    port = int("".join(char for char in line.rpartition("port")[2] if char.isdigit()))
                    break
            else:
                raise BrowserError("chromedriver did not start")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _ask(method: str, url: str, content: Any = None) -> Any:
    body = None if method == "GET" else json.dumps(content or {}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        said = json.load(error)["value"]
        raise BrowserError(f"{said['error']}: {said['message'].splitlines()[0]}") from None
