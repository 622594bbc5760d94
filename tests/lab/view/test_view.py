from __future__ import annotations

import io
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.cli import main
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.lab.view import shelf
from pytest_jsbench.lab.view.shelf import Shelf
from pytest_jsbench.metrics.gates import Ending, Gate, check, decide
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.run_json import read_run, run_to_dict, write_run
from tests.support import examples
from tests.support.run_files import store_run

if TYPE_CHECKING:
    from starlette.testclient import TestClient

for needed in ("starlette", "uvicorn", "jinja2", "httpx2"):
    pytest.importorskip(needed, reason="needs the extra view")

TOKEN = "the-token"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    answers = [
        examples.record("a", task="orders"),
        examples.record("b", task="orders", verdict=examples.VIOLATED),
        examples.record("c", task="talk", verdict=examples.VIOLATED, generation=examples.completion(HOSTILE)),
    ]
    store_run(tmp_path / "first", examples.run(*answers))
    store_run(tmp_path / "second", examples.run(answers[0], examples.record("b", task="orders"), answers[2]))
    store_run(tmp_path / "third", examples.run(*answers[:1]), ended=False)
    return tmp_path


def stranger(folder: Path, host: str = "127.0.0.1") -> TestClient:
    """Return a browser that has not opened the link."""
    from starlette.testclient import TestClient

    from pytest_jsbench.lab.view.site import make_site

    return TestClient(make_site(Shelf(folder, patience=60), TOKEN), base_url=f"http://{host}")


def opened(folder: Path) -> TestClient:
    client = stranger(folder)
    client.get("/", params={"token": TOKEN})
    return client


@pytest.fixture
def client(folder: Path) -> TestClient:
    return opened(folder)


def shown(client: TestClient, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.text


def names(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', page)


def test_only_who_shows_the_token_on_this_machine_may_look(folder: Path) -> None:
    browser = stranger(folder)
    assert browser.get("/").status_code == 403
    assert browser.get("/", params={"token": "another"}).status_code == 403
    assert browser.get("/", headers={"cookie": "jsbench-view=another"}).status_code == 403
    assert stranger(folder, "evil.example").get("/", params={"token": TOKEN}).status_code == 400
    response = browser.get("/run/first", params={"token": TOKEN, "task": "talk"}, follow_redirects=False)
    assert response.headers["location"] == "/run/first?task=talk"
    assert "httponly" in response.headers["set-cookie"].lower()
    assert "samesite=strict" in response.headers["set-cookie"].lower()


def test_every_page_runs_no_script_and_loads_its_style_alone(client: TestClient) -> None:
    for address in ("/", "/run/first", "/run/first/2", "/compare?run=first&run=second", "/style.css", "/nothing"):
        response = client.get(address)
        assert response.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in response.text


def test_the_list_has_each_run_with_its_figures_and_those_that_go_on(client: TestClient) -> None:
    page = shown(client, "/")

    assert names(page) == ["second", "first"]
    assert ">0.667<" in page
    assert "third</a>: in progress or interrupted; 1 record so far" in page
    assert 'http-equiv="refresh"' in page


def test_a_run_shows_what_failed_first_and_is_filtered_by_its_address(client: TestClient) -> None:
    assert names(shown(client, "/run/first")) == ["orders::b", "talk::c", "orders::a"]
    assert names(shown(client, "/run/first?outcome=!&task=talk")) == ["talk::c"]
    assert names(shown(client, "/run/first?outcome=passed")) == ["orders::a"]
    assert names(shown(client, "/run/first?text=B")) == ["orders::b"]
    assert names(shown(client, "/run/first?keyword=nothing")) == []


def test_run_page_opens_with_verdict_gates_and_pictures(tmp_path: Path) -> None:
    run = examples.run(examples.record("a"), examples.record("b", verdict=examples.VIOLATED))
    summary = summarize(run)
    gates = [check(Gate.parse(text), summary) for text in ("pass_rate>=0.9", "pass_rate>=0.1")]
    run = examples.replace(run, verdict=decide(Ending(), summary.total, gates))
    store_run(tmp_path / "gated", run)
    write_run(tmp_path / "gated" / "run.json", run_to_dict(run, summary, config_path="unknown", gates=gates))

    page = shown(opened(tmp_path), "/run/gated")

    marks = ("<strong>FAILED</strong>", "Gate not met: pass_rate", "Gate met: pass_rate", "<svg ", 'class="attempts"')
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "<desc>simple: 1/2 = 0.50 (0.01 to 0.99); total: " in page


def test_comparison_draws_the_paired_difference(client: TestClient) -> None:
    page = shown(client, "/compare?run=first&run=second")

    assert "<strong>Differences, case by case</strong>" in page
    assert "+0.333 (-" in page


def test_a_run_that_goes_on_says_how_far_it_is_and_is_read_again(client: TestClient, folder: Path) -> None:
    assert "This run is in progress or was interrupted: 1 of 1 attempts" in shown(client, "/run/third")

    run = examples.run(examples.record("a", task="orders"), examples.record("z", task="orders"))
    journal.write(folder / "third" / "records.jsonl", run.metadata, run.records)

    assert "orders::z" in names(shown(client, "/run/third"))


def test_attempt_page_shows_all_parts_and_escapes_untrusted_markup(
    client: TestClient,
) -> None:
    page = shown(client, "/run/first/2")

    assert HOSTILE not in page
    assert HOSTILE in unescape(page)
    assert "<h3>Next step</h3><pre>the engine received keyword minimum, but did not enforce it: " in page
    for heading in ("Verdict", "Answer", "Prompt", "Schema"):
        assert f"<h3>{heading}</h3>" in page


def test_two_runs_of_variants_or_one_without_attempts_are_compared_too(tmp_path: Path) -> None:
    store_run(tmp_path / "one", examples.compared(gpt="pppppp", mini="vvvvvv"))
    store_run(tmp_path / "two", examples.compared(gpt="vvvvvv", mini="vvvvvv"))
    store_run(tmp_path / "none", examples.run(planned=()))
    client = opened(tmp_path)

    page = shown(client, "/compare?run=one&run=two")
    assert "6 fewer of 6 cases pass" in page
    assert "the same verdict on each of 6 cases" in page
    assert "without outcomes of cases" in shown(client, "/compare?run=one&run=none")


def test_two_runs_are_compared_and_a_case_that_changed_stands_side_by_side(client: TestClient) -> None:
    page = shown(client, "/compare?run=first&run=second")
    (link,) = re.findall(r'href="(/beside[^"]*)"', page)

    beside = shown(client, unescape(link))

    assert "orders::b" in page
    assert re.findall(r'<h2><a href="/run/(\w+)/1">', beside) == ["first", "second"]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/run/nothing", 404),
        ("/run/..%2f..%2fetc", 404),
        ("/run/first/99", 404),
        ("/run/first/one", 404),
        (f"/run/first/{'1' * 5000}", 404),
        ("/beside?case=orders::b", 404),
        ("/compare?run=first", 400),
        ("/run/first?start=-5", 200),
        ("/run/first?start=99999999999999999999", 200),
    ],
)
def test_an_address_of_nothing_is_no_page(client: TestClient, address: str, status: int) -> None:
    assert client.get(address).status_code == status


def test_a_run_that_cannot_be_read_is_named_with_its_fault(client: TestClient, folder: Path) -> None:
    (folder / "broken").mkdir()
    (folder / "broken" / "records.jsonl").write_text("{}\n")
    (folder / "broken" / "run.json").write_text("[]")

    assert "is not a JSON object" in shown(client, "/")


def test_a_hundred_attempts_are_a_page(tmp_path: Path) -> None:
    store_run(tmp_path / "many", examples.run(*(examples.record(f"c{n:03}", task="t") for n in range(120))))
    client = opened(tmp_path)
    page = shown(client, "/run/many?task=t")
    (later,) = re.findall(r'href="(\?[^"]*)">later', page)
    rest = shown(client, f"/run/many{unescape(later)}")

    assert len(names(page)) == 100
    assert names(rest) == [f"t::c{n:03}" for n in range(100, 120)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no runs to view: nowhere is not a directory; pass "),
        ([], "none of runs, jsbench-runs, .pytest_cache/d/jsbench exists; pass "),
    ],
)
def test_a_folder_without_runs_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main.main(["view", *arguments], out=io.StringIO()) == 2
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_or_is_none_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port, message in (
            (taken.getsockname()[1], "choose another with --port"),
            (99_999, "from 0 to 65535, found"),
        ):
            assert main.main(["view", str(folder), f"--port={port}"], out=io.StringIO()) == 2
            assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_view_prints_its_link_serves_and_ends_silently_on_ctrl_c(folder: Path) -> None:
    import httpx2

    command = [sys.executable, "-m", "pytest_jsbench", "view", str(folder)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=buffered, **pipes) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 30)[0]
            link = process.stdout.readline().strip()
            with httpx2.Client(follow_redirects=True) as client:
                assert "second" in client.get(link).text
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (process.returncode, errors) == (0, "")


def test_the_folder_of_a_run_that_one_stands_in_has_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "first")
    runs = Shelf(Path(), patience=60)

    assert [run.name for run in runs.list_runs()] == ["first"]
    assert len(runs.run("first").attempts) == 3


def test_run_is_read_once_for_all_requests_without_blocking_others(folder: Path) -> None:
    go_on, begun = threading.Event(), list[str]()

    def slowly(path: Path) -> Run:
        begun.append(path.name)
        assert threading.current_thread().daemon  # The command ends before it has been read.
        assert path.name != "first" or go_on.wait(timeout=60)
        return read_run(path)

    runs = Shelf(folder, patience=60, read=slowly)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(runs.run, "first") for _ in range(2)]
        assert len(runs.run("second").attempts) == 3
        go_on.set()
        first, again = (each.result(timeout=60) for each in waiting)

    assert first is again is runs.run("first")
    assert sorted(begun) == ["first", "second"]


def test_run_in_progress_is_shown_as_read_before_while_read_again(folder: Path) -> None:
    go_on = threading.Event()

    def slowly(path: Path) -> Run:
        assert go_on.wait(timeout=60)
        return read_run(path)

    runs = Shelf(folder, patience=60, read=slowly)
    go_on.set()
    first = runs.run("third")
    go_on.clear()
    runs.patience = 0.01
    run = examples.run(examples.record("a", task="orders"), examples.record("z", task="orders"))
    journal.write(folder / "third" / "records.jsonl", run.metadata, run.records)
    assert runs.run("third") is first

    go_on.set()
    runs.patience = 60
    assert len(runs.run("third").attempts) == 2


def test_unreadable_run_is_read_again_at_the_next_request(client: TestClient, folder: Path) -> None:
    whole = (folder / "first" / "run.json").read_bytes()
    (folder / "first" / "run.json").write_bytes(b" " * len(whole))
    assert client.get("/run/first").status_code == 404

    (folder / "first" / "run.json").write_bytes(whole)
    assert len(names(shown(client, "/run/first"))) == 3


def test_a_run_that_could_not_be_read_is_no_error_while_it_is_read_again(folder: Path) -> None:
    go_on, others = threading.Event(), {*threading.enumerate()}

    def torn(_: Path) -> Run:
        go_on.wait(timeout=60)
        raise RecordError("torn")

    runs = Shelf(folder, patience=0.01, read=torn)
    with pytest.raises(TimeoutError):
        runs.run("third")
    go_on.set()
    for thread in {*threading.enumerate()} - others:
        thread.join(timeout=60)
    go_on.clear()
    (folder / "third" / "more.jsonl").touch()
    try:
        with pytest.raises(TimeoutError):
            runs.run("third")
    finally:
        go_on.set()


@pytest.mark.slow
def test_a_run_of_many_attempts_keeps_a_few_words_of_each(tmp_path: Path) -> None:
    record = examples.record("a", task="t", generation=examples.completion("x" * 9_000))
    store_run(tmp_path / "many", examples.run(*(examples.replace(record, repeat=n) for n in range(800))))
    assert next(Shelf(tmp_path, patience=60).list_runs()).evaluation is not None
    assert Shelf(tmp_path, patience=60).run("many").attempts  # Import everything before memory is measured.
    runs = Shelf(tmp_path, patience=60)
    tracemalloc.start()
    try:
        assert next(runs.list_runs()).evaluation is not None
        run = runs.run("many")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(run.attempts) == 800
    assert kept < 800 * 800


def test_a_run_that_is_deleted_while_it_is_looked_at_hides_no_other(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [*journal.find_runs(folder), folder / "deleted"]
    monkeypatch.setattr("pytest_jsbench.lab.view.shelf.journal.list_runs", lambda _: runs)

    assert len(names(shown(client, "/"))) == 2
    assert "no run at" in shown(client, "/")
    assert client.get("/run/deleted").status_code == 404


def test_a_file_that_goes_while_it_is_looked_at_hides_no_run(client: TestClient, folder: Path) -> None:
    (folder / "third" / "gone.json").symlink_to("nowhere")

    assert len(names(shown(client, "/"))) == 2
    assert "third" in shown(client, "/")
    assert "orders" in shown(client, "/run/third")


def test_view_names_a_run_it_must_not_read_and_lists_the_rest(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    store_run(outside / "run", examples.run(examples.record("a", task="orders")))
    (folder / "linked").symlink_to(outside / "run")
    store_run(folder / "piped", examples.run(examples.record("a", task="orders")), ended=False)
    os.mkfifo(folder / "piped" / "records.gw0.jsonl")
    store_run(folder / "borrowed", examples.run(examples.record("a", task="orders")), ended=False)
    (folder / "borrowed" / "run.json").symlink_to(outside / "run" / "run.json")
    client = opened(folder)

    page = unescape(shown(client, "/"))

    assert names(page) == ["second", "first"]
    assert "linked is not read: it is a symbolic link out of" in page
    assert "records.gw0.jsonl is not read: it is not a regular file" in page
    assert "run.json is not read: it is a symbolic link out of" in page
    assert client.get("/run/first").status_code == 200
    for name in ("linked", "piped", "borrowed"):
        assert client.get(f"/run/{name}").status_code == 404
        assert client.get(f"/compare?run=first&run={name}").status_code == 404


def test_view_shows_a_run_whose_name_is_not_utf8(folder: Path) -> None:
    store_run(folder / "odd\udcff", examples.run(examples.record("a", task="orders")))
    client = opened(folder)

    assert "odd\\xff" in unescape(shown(client, "/"))
    assert client.get("/run/odd%5Cxff").status_code == 200


def test_view_of_a_deleted_folder_is_one_line(folder: Path) -> None:
    client = opened(folder)
    shutil.rmtree(folder)

    response = client.get("/")

    assert response.status_code == 404
    assert "cannot be read: No such file or directory" in response.text
    assert client.get("/run/first").status_code == 404


def test_view_shows_runs_as_they_are_read(folder: Path) -> None:
    read = threading.Event()

    class SlowShelf(Shelf):
        def read_listed(self, path: Path) -> shelf.Listed:
            assert path.name == "second" or read.wait(30)
            return super().read_listed(path)

    listing = SlowShelf(folder, patience=0.2)

    rows = {run.name: run.pending for run in listing.list_runs()}
    read.set()

    assert rows["first"]
    assert len(rows) == 3
    for _ in range(300):
        if not any(run.pending for run in listing.list_runs()):
            break
    assert not any(run.pending for run in listing.list_runs())


def test_view_redirects_to_its_own_paths_only(folder: Path) -> None:
    browser = stranger(folder)
    for path in ("//evil.example/", "/%5C%5Cevil.example/", "///evil.example"):
        response = browser.get(f"http://127.0.0.1{path}?token={TOKEN}", follow_redirects=False)
        assert response.status_code == 303
        assert response.headers["location"].startswith("/evil.example")


def test_view_cookie_is_not_the_token_and_names_its_port(folder: Path) -> None:
    from starlette.testclient import TestClient

    from pytest_jsbench.lab.view.site import make_site

    cookies = []
    for port in (8001, 8002):
        browser = TestClient(make_site(Shelf(folder, patience=60), TOKEN), base_url=f"http://127.0.0.1:{port}")
        response = browser.get("/", params={"token": TOKEN}, follow_redirects=False)
        cookies.append(response.headers["set-cookie"].partition(";")[0])
        assert browser.get("/").status_code == 200
    assert [cookie.partition("=")[0] for cookie in cookies] == ["jsbench-view-8001", "jsbench-view-8002"]
    assert not any(TOKEN in cookie for cookie in cookies)
    assert cookies[0].partition("=")[2] != cookies[1].partition("=")[2]
