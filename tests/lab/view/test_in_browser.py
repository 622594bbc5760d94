from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_jsbench.lab.view.shelf import Shelf
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.runs import Run, RunStatus, RunVerdict
from pytest_jsbench.reports.html.report import render
from pytest_jsbench.reports.run_json import read_run
from tests.support import examples
from tests.support.browser import Browser, needs_chromium
from tests.support.run_files import store_run

pytestmark = [pytest.mark.slow, needs_chromium]
TOKEN = "the-token"
#: A run's name in the format of pytest-jsbench.
NAME = "2026-11-26T03-01-22Z-4f1c2a90"


@pytest.fixture
def readable() -> threading.Event:
    """Return the event without which no run is read; it is set, unless a test clears it."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def shelf(tmp_path: Path, readable: threading.Event) -> Shelf:
    def read(path: Path) -> Run:
        assert readable.wait(timeout=60)
        return read_run(path)

    return Shelf(tmp_path / "runs", patience=60, read=read)


@pytest.fixture
def address(tmp_path: Path, shelf: Shelf) -> Iterator[str]:
    """Serve the runs of the directory `runs`, and return the address."""
    import uvicorn

    from pytest_jsbench.lab.view.site import make_site

    records = [
        examples.record(f"case{number:03}", task="orders", verdict=examples.VIOLATED if number < 7 else examples.PASSED)
        for number in range(230)
    ]
    store_run(tmp_path / "runs" / NAME, examples.run(*records))
    store_run(tmp_path / "runs" / "second", examples.run(*records[:20]))
    server = uvicorn.Server(uvicorn.Config(make_site(shelf, TOKEN), log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=60)


@pytest.fixture
def browser(tmp_path: Path, address: str) -> Iterator[Browser]:
    """Return a mobile browser in which the printed link was opened."""
    with Browser(tmp_path / "profile") as phone:
        phone.open(f"{address}/?token={TOKEN}")
        yield phone


def fits(browser: Browser) -> bool:
    """Return whether the page fits the width of the screen, without splitting words."""
    narrow = "[...document.querySelectorAll('th, td, h1, a')].filter((each) => each.clientHeight > 110).length"
    within = browser.evaluate("document.documentElement.scrollWidth <= innerWidth && innerWidth === 390")
    return bool(within) and browser.evaluate(narrow) == 0


def test_a_phone_shows_the_list_and_a_run_without_scrolling_sideways(browser: Browser, address: str) -> None:
    assert fits(browser)
    assert "Pass rate" in browser.evaluate("getComputedStyle(document.querySelectorAll('td')[2], '::before').content")
    assert browser.evaluate("document.querySelector('.wide').scrollWidth <= innerWidth")
    assert browser.evaluate("document.querySelector('.runs tbody th').clientHeight") < 40

    browser.open(f"{address}/run/{NAME}")

    assert fits(browser)
    assert browser.evaluate("document.querySelector('.picture svg').getBoundingClientRect().bottom < innerHeight")
    boxes = "[...document.querySelectorAll('.picture text')].map((each) => each.getBoundingClientRect())"
    assert browser.evaluate(f"{boxes}.length") > 5
    assert browser.evaluate(f"{boxes}.every((box) => box.height >= 10 && box.right <= innerWidth)")
    browser.evaluate("document.querySelector('a[href=\"#attempts\"]').click()")
    assert browser.evaluate("document.querySelector('.attempts tbody tr').getBoundingClientRect().bottom < innerHeight")


def test_a_phone_shows_all_of_a_page_whose_reasons_are_long(browser: Browser, tmp_path: Path) -> None:
    name = "a_name_that_is_longer_than_the_screen_of_a_phone_is_wide"
    verdict = RunVerdict.of(RunStatus.FAILED, 1, [f"1 test failed: jsbench::simple::{name}"])
    run = examples.replace(examples.run(examples.record(name, verdict=examples.VIOLATED)), verdict=verdict)
    (tmp_path / "report.html").write_text("".join(render(run, summarize(run))), "utf-8")

    browser.open((tmp_path / "report.html").as_uri())

    assert fits(browser)


def test_filter_is_a_link_with_the_same_result_for_everyone(browser: Browser, address: str) -> None:
    rows = "document.querySelectorAll('.attempts tbody tr').length"
    browser.open(f"{address}/run/{NAME}")
    browser.evaluate("document.querySelector('[name=outcome]').value = '!'")
    browser.evaluate("document.querySelector('[name=text]').value = 'CASE00'")
    browser.evaluate("document.querySelector('form button').click()")
    browser.wait_for(f"location.search && document.readyState === 'complete' && {rows} === 7")
    link = browser.evaluate("location.href")

    browser.open(f"{address}/")
    browser.open(link)

    assert "outcome=%21" in link
    assert browser.evaluate(rows) == 7
    assert browser.evaluate("document.querySelector('[name=outcome]').value") == "!"


def test_run_that_takes_long_to_read_shows_a_page_that_reloads_itself(
    browser: Browser, address: str, shelf: Shelf, readable: threading.Event
) -> None:
    readable.clear()
    shelf.patience = 0.1
    browser.open(f"{address}/run/{NAME}")
    assert "being read" in browser.evaluate("document.body.innerText")

    readable.set()
    browser.wait_for("document.querySelectorAll('.attempts tbody tr').length === 100")
    assert "230 of 230 attempts, 1 to 100" in browser.evaluate("document.body.innerText")
