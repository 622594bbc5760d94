"""Test `jsbench comment` with servers that answer as GitHub and GitLab do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pytest_jsbench.engines import engine_options
from tests.support.commands import failed, run, shown

pytest.importorskip("urllib3", reason="needs the extra calls")

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
US = {"user": {"login": "github-actions[bot]"}}
MARKER = "<!-- jsbench:gate -->"


class Api(ThreadingHTTPServer):
    """A server with the comments of one request; it keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = []
        self.calls: list[tuple[str, str, Any]] = []
        self.tokens: set[str | None] = set()
        self.refuses: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api"


class _Handler(BaseHTTPRequestHandler):
    server: Api
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        parts = urlsplit(self.path)
        self.server.calls.append((self.command, parts.path, body))
        self.server.tokens.add(self.headers.get("authorization") or self.headers.get("private-token"))
        status, value = 200, {"html_url": "https://example.com/pull/7#1"}
        if self.server.refuses is not None:
            status, value = 403, {"message": self.server.refuses}
        elif parts.path.endswith("/user"):
            value = {"id": 5}  # type: ignore[dict-item]
        elif self.command == "GET":
            page = int(parse_qs(parts.query)["page"][0])
            value = self.server.comments[100 * (page - 1) : 100 * page]  # type: ignore[assignment]
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(server: Api) -> Iterator[Api]:
    """Serve in a thread until the block ends."""
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """Serve the API of GitHub in the environment of a job for pull request 7."""
    for name in ("GITLAB_CI", "GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "JSBENCH_GITLAB_TOKEN", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(Api()) as server:
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "us/app")
        monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield server


@pytest.fixture
def gitlab(api: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """Serve the API of GitLab in the environment of a job for merge request 7."""
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("CI_API_V4_URL", api.url)
    monkeypatch.setenv("CI_PROJECT_ID", "31")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "7")
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
    return api


@pytest.fixture
def comment(tmp_path: Path) -> Path:
    """Write the comment of a run that is worse than the one before."""
    before, after = run(tmp_path / "a.json", "m", 18), run(tmp_path / "b.json", "m", 6)
    arguments = ("compare", before, after, "--labels", "before", "after", "--comment=gate")
    (tmp_path / "comment.md").write_text(shown(*arguments, "--link=https://example.com/artifacts/7"))
    return tmp_path / "comment.md"


def test_first_run_creates_the_comment(api: Api, comment: Path) -> None:
    said = shown("comment", comment)

    (_, (method, path, body)) = api.calls
    assert (method, path) == ("POST", "/api/repos/us/app/issues/7/comments")
    assert body == {"body": comment.read_text()}
    assert body["body"].startswith(f"{MARKER}\n### jsbench: `after`\n\n**worse, by more than chance**: `after` ")
    assert "\n[Files of this run](https://example.com/artifacts/7)\n" in body["body"]
    assert said == "comment created: https://example.com/pull/7#1\n"
    assert api.tokens == {f"Bearer {TOKEN}"}


def test_later_run_updates_its_own_comment_on_the_second_page(api: Api, comment: Path) -> None:
    foreign = {"id": 1, "body": f"{MARKER}\nfake", "user": {"login": "mallory"}}
    quoting = {"id": 2, "body": f"> {MARKER}", **US}
    other = {"id": 3, "body": "<!-- jsbench:other -->\n", **US}
    api.comments = [foreign, quoting, other, *[{"id": 4, "body": None, "user": None}] * 100]
    api.comments += [{"id": 99, "body": f"{MARKER}\r\nold", **US}, {"id": 100, "body": f"{MARKER}\nolder", **US}]

    assert shown("comment", comment).startswith("comment updated")

    assert [(method, path) for method, path, _ in api.calls[2:]] == [("PATCH", "/api/repos/us/app/issues/comments/99")]


def test_merge_request_of_gitlab_gets_one_note(gitlab: Api, comment: Path) -> None:
    assert shown("comment", comment) == "comment created: https://example.com/pull/7#1\n"
    gitlab.comments = [{"id": 3, "body": MARKER, "author": {"id": 6}}, {"id": 8, "body": MARKER, "author": {"id": 5}}]
    shown("comment", comment)

    notes = "/api/projects/31/merge_requests/7/notes"
    changes = [(method, path) for method, path, body in gitlab.calls if body is not None]
    assert changes == [("POST", notes), ("PUT", f"{notes}/8")]
    assert gitlab.tokens == {TOKEN}


def test_refusal_is_one_line_without_the_token(api: Api, comment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api.refuses = f"Resource not accessible\x1b[31m by {TOKEN}"

    error = failed(capsys, "comment", comment)

    assert "GitHub: GET /repos/us/app/issues/7/comments: status 403; check the permissions of the token" in error
    assert TOKEN not in error
    assert "\x1b" not in error


def test_missing_token_is_named_and_outside_of_a_pull_request_nothing_is_done(
    api: Api, comment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "set GITHUB_TOKEN" in failed(capsys, "comment", comment)

    monkeypatch.setenv("GITHUB_REF", "refs/heads/main")
    assert shown("comment", comment) == "this job does not run for a pull request: no comment written\n"
    assert api.calls == []


def test_missing_package_names_the_command_that_needs_it(
    api: Api, comment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_options, "is_installed", lambda _package: False)

    install = "pip install 'pytest-jsbench[calls]'"
    assert failed(capsys, "comment", comment) == f"jsbench: jsbench comment needs the package urllib3: {install}\n"
    assert api.calls == []


@pytest.mark.parametrize("text", ["@everyone look\n", f"{MARKER} @everyone\n", f"{MARKER}\n{'x' * 70_000}"])
def test_text_that_is_not_the_comment_is_never_sent(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "other.md").write_text(text)

    assert "expected the output of `jsbench compare --comment=NAME`" in failed(capsys, "comment", tmp_path / "other.md")
    assert api.calls == []
