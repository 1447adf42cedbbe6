"""The page in a real browser: no error, no request, a picture that can be read, moved and asked."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import io
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stories import random_story
from tenure.audit.measures import measure
from tenure.core.words import End, Happened
from tenure.report.comparison import write_comparison
from tenure.report.page import write_report
from test_report_page import HOSTILE, hostile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here: the page is not tried in a browser"
)

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
WAIT_S = 180.0


class Browser:
    """One tab, spoken to through the browser's debugging pipe (messages of JSON, ended by a zero byte)."""

    def __init__(self, profile: str) -> None:
        to_read, self.writes = os.pipe()
        self.reads, to_write = os.pipe()

        def wired() -> None:
            high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
            for fixed, end in zip((3, 4), high, strict=True):  # the numbers the browser speaks through
                os.dup2(end, fixed)

        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdin=quiet, stdout=quiet, stderr=quiet, preexec_fn=wired, close_fds=False
        )
        os.close(to_read)
        os.close(to_write)
        self.events: list[dict[str, Any]] = []
        self.rest = b""
        self.last = 0
        self.session = ""
        page = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attach = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attach["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.last += 1
        message: dict[str, Any] = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = os.read(self.reads, 1 << 20)
            assert part, "the browser has gone"
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, file: Path, *, width: int = 1280, dark: bool = False) -> None:
        self.events.clear()
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                 {"name": "prefers-reduced-motion", "value": "reduce"}]  # fmt: skip
        self.ask("Emulation.setEmulatedMedia", media="screen", features=media)
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=file.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        end = time.monotonic() + WAIT_S
        while not self.run(script):
            assert time.monotonic() < end, f"never became true: {script}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Two frames later."""
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def bring(self, selector: str) -> dict[str, float]:
        """Scroll an element to the middle; its x, y, width, height on the screen."""
        found: dict[str, float] = json.loads(
            self.run(
                f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
                f"return JSON.stringify(e.getBoundingClientRect()); }})(document.querySelector('{selector}'))"
            )
        )
        return found

    def key(self, key: str) -> None:
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def move(self, x: float, y: float) -> None:
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def complaints(self) -> list[str]:
        """Errors of scripts and of the page's own policy."""
        found = []
        loud = ("error", "warning", "assert")
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] in loud:
                found.append(params["entry"]["text"])
            if event["method"] == "Runtime.consoleAPICalled" and params["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(json.dumps(params["args"])[:500])
        return found

    def requests(self) -> list[str]:
        """What was asked for besides the page itself."""
        urls = [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("data:")][1:]

    def pixels(self, selector: str) -> np.ndarray[Any, Any]:
        """(height, width, 4) of a canvas."""
        url = self.run(f"document.querySelector('{selector}').toDataURL('image/png')")
        from matplotlib.image import imread

        return np.asarray(imread(io.BytesIO(base64.b64decode(url.split(",", 1)[1])), format="png"))

    def close(self) -> None:
        with contextlib.suppress(AssertionError, BrokenPipeError):
            self.session = ""
            self.ask("Browser.close")
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.writes)
        os.close(self.reads)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        one = Browser(profile)
        try:
            yield one
        finally:
            one.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    story = random_story(11, turns=160)
    assert (story.events["code"][story.events["event"] == Happened.STOPPED] == End.PREEMPTED).any()
    file = tmp_path_factory.mktemp("report") / "page.html"
    write_report(story, measure(story).to_dict(), file)
    return file


def ready(browser: Browser) -> None:
    browser.until("document.getElementById('picture').dataset.ready === 'yes'")
    browser.settle()


def view(browser: Browser) -> str:
    """What the picture shows, as one word: changes when it moves."""
    browser.settle()
    return str(browser.run("document.querySelector('canvas.main').toDataURL().length + ''"))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (375, False)])
def test_the_page_opens_without_error_or_request(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width=width, dark=dark)
    ready(browser)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
    shown = browser.pixels("canvas.main")
    assert len(np.unique(shown.reshape(-1, 4), axis=0)) > 10, "the picture is blank"
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == dark


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    story = hostile(random_story(11, turns=160))
    write_report(story, measure(story).to_dict(), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    ready(browser)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.run("document.images.length") == 0
    browser.run("document.querySelector('canvas.main').focus()")
    browser.key("n")
    assert HOSTILE in browser.run("document.querySelector('.spoken').textContent")
    assert browser.complaints() == []


def test_keys_move_the_picture_and_home_brings_it_back(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    browser.run("document.querySelector('canvas.main').focus()")
    whole = view(browser)
    browser.key("+")
    near = view(browser)
    assert near != whole
    browser.key("ArrowRight")
    assert view(browser) != near
    browser.key("Home")
    assert view(browser) == whole


def test_stepping_through_attempts_reads_them_out(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    browser.run("document.querySelector('canvas.main').focus()")
    browser.key("s")
    told = browser.run("document.querySelector('.spoken').textContent")
    assert "ended preempted" in told
    assert "account" in told


@pytest.mark.slow
def test_a_bar_tells_its_job_under_the_pointer(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    box = browser.bring("canvas.main")
    texts = []
    for part in np.linspace(0.1, 0.95, 30):
        browser.move(box["x"] + part * box["width"], box["y"] + 12)
        texts.append(browser.run("document.querySelector('.tip').textContent"))
    assert any(text.startswith("job") and "protection" in text for text in texts)
    browser.move(5, 5)
    assert browser.run("document.querySelector('.tip').hidden")


def test_the_wheel_zooms_only_what_has_been_clicked(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    box = browser.bring("canvas.main")
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    whole = view(browser)
    browser.ask("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-1)
    assert view(browser) == whole
    for kind in ("mousePressed", "mouseReleased"):
        browser.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    browser.key("Escape")
    assert view(browser) == whole
    browser.ask("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-60)
    assert view(browser) != whole


def test_a_chart_tells_its_values_under_the_pointer(browser: Browser, page: Path) -> None:
    browser.open(page)
    box = browser.bring(".plot.tall")
    browser.move(box["x"] + box["width"] / 2, box["y"] + 30)
    told = browser.run("document.querySelector('.plot.tall .read').textContent")
    for layer in ("budgeted", "unbudgeted", "idle", "down"):
        assert layer in told
    browser.move(3, 3)
    assert browser.run("document.querySelector('.plot.tall .read') === null")


def test_the_legend_lights_one_account(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    before = browser.pixels("canvas.main")
    browser.run("document.querySelector('.legend button').click()")
    browser.settle()
    assert browser.run("document.querySelector('.legend button').getAttribute('aria-pressed')") == "true"
    assert (browser.pixels("canvas.main") != before).any()


def test_a_job_is_found_by_its_id(browser: Browser, page: Path) -> None:
    browser.open(page)
    ready(browser)
    job = browser.run("JSON.parse(document.getElementById('picture-data').textContent).jobs[0]")
    browser.run(
        f"document.querySelector('.tools input').value = {json.dumps(job)};"
        "document.querySelector('.tools form').requestSubmit()"
    )
    assert browser.run("document.querySelector('.tools output').textContent") == job
    assert browser.run("document.querySelector('.spoken').textContent").startswith(f"job {job},")


def test_tables_sort_and_filter(browser: Browser, page: Path) -> None:
    browser.open(page)
    values = "[...document.querySelectorAll('#ledger tbody tr')].map(r => +r.cells[5].dataset.v)"
    browser.run("document.querySelectorAll('#ledger th button')[5].click()")
    lost = browser.run(values)
    assert lost == sorted(lost, reverse=True)
    browser.run("document.querySelectorAll('#ledger th button')[5].click()")
    assert browser.run(values) == sorted(lost)
    browser.run(
        "const i = document.querySelector('form.filter input'); i.value = 'no such word';"
        "i.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert browser.run("document.querySelectorAll('#ledger tbody tr:not([hidden])').length") == 0


def test_a_comparison_opens_without_error_or_request(browser: Browser, tmp_path: Path) -> None:
    runs = []
    for policy in ("budget", "window"):
        measures = measure(random_story(2)).to_dict()
        runs.append({**measures, "policy": policy, "seed": 1, "set": {}})
    write_comparison(runs, tmp_path / "compare.html")
    for width in (1280, 375):
        browser.open(tmp_path / "compare.html", width=width)
        assert browser.complaints() == []
        assert browser.requests() == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
