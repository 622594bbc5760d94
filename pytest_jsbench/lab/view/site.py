"""Render the pages about a directory of runs; the pages have no scripts and load only their style sheet."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import LinesByPlace
from pytest_jsbench.lab.view.shelf import ListedAttempt, Shelf
from pytest_jsbench.records.facts import open_lines, record_at
from pytest_jsbench.records.records import Record
from pytest_jsbench.reports.comparison_report import labels, pairs, side_by_side, table_of_runs
from pytest_jsbench.reports.html.case_list import details_of, reason_of
from pytest_jsbench.reports.html.comparison import pictures_of_comparison, with_templates
from pytest_jsbench.reports.html.report import page_environment, page_part
from pytest_jsbench.reports.run_json import read

_PACKAGE = "pytest_jsbench.lab.view"
#: Maximum number of attempts on a page.
_PAGE = 100
_COOKIE = "jsbench-view"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_site(shelf: Shelf, token: str) -> Starlette:
    """Return the web application, which serves the runs of a shelf to clients that have the token."""
    site = _Site(shelf)
    # the cookie is not the token, since a browser sends cookies to every port of this address
    session = secrets.token_urlsafe(24)

    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        shown = request.query_params.get("token", "")
        cookie = f"{_COOKIE}-{request.scope['server'][1]}"
        if shown and hmac.compare_digest(shown.encode(), token.encode()):
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            # a path that starts with two slashes, or a slash and a backslash, would redirect to another server
            path = "/" + quote(request.scope["path"].lstrip("/\\"))
            response: Response = RedirectResponse(f"{path}{f'?{rest}' if rest else ''}", 303)
            response.set_cookie(cookie, session, httponly=True, samesite="strict")
        elif hmac.compare_digest(request.cookies.get(cookie, "").encode(), session.encode()):
            response = await answer(request)
        else:
            response = Response("open the link that jsbench view printed\n", 403, media_type="text/plain")
        response.headers.update(_HEADERS)
        return response

    return Starlette(
        routes=[
            Route("/", site.runs),
            Route("/style.css", site.style),
            Route("/run/{run}", site.run),
            Route("/run/{run}/{number}", site.attempt),
            Route("/compare", site.compare),
            Route("/beside", site.compare_case),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(BaseHTTPMiddleware, dispatch=guard),
        ],
        exception_handlers={JSBenchError: _unreadable, TimeoutError: site.render_waiting_page},
    )


def _unreadable(_: Request, error: Exception) -> Response:
    return Response(_utf8(f"{error}\n"), 404, media_type="text/plain; charset=utf-8")


def _utf8(text: str) -> bytes:
    """Encode a text that may contain file names that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace")


class _Site:
    """
    The request handlers that render the pages.

    `make_site` creates one object, which starlette calls in several threads at once; its only state is the shelf.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._pages = page_environment("jsbench view needs jinja2", _PACKAGE)

    def style(self, _: Request) -> Response:
        """Return the style sheet of all pages: the style sheet of report.html with additional rules."""
        text = page_part("report.css") + page_part("view.css", _PACKAGE)
        return Response(text, media_type="text/css")

    def runs(self, _: Request) -> Response:
        """Render the list of runs with their figures."""
        listed = list(self._shelf.list_runs())
        with_figures = [(run.name, run.evaluation) for run in listed if run.evaluation is not None]
        table = table_of_runs(with_figures) if with_figures else None
        verdicts = {name: evaluation.verdict for name, evaluation in with_figures}
        going = [run for run in listed if run.evaluation is None and not run.pending]
        pending = sum(run.pending for run in listed)
        return self._page("runs.html", table=table, verdicts=verdicts, going=going, pending=pending)

    def run(self, request: Request) -> Response:
        """Render a run: its verdict, tables, facts, and the attempts that match the filters in the address."""
        name = request.path_params["run"]
        run = self._shelf.run(name)
        wanted = {key: request.query_params.get(key, "") for key in ("text", "task", "outcome", "keyword", "variant")}
        chosen = [attempt for attempt in run.attempts if _matches(attempt, wanted)]
        start = _parse_number(request.query_params.get("start", "")) or 0
        with open_lines() as lines:
            part = [(attempt, reason_of(_record(attempt, lines))) for attempt in chosen[start : start + _PAGE]]
        return self._page(
            "run.html",
            name=name,
            run=run,
            going=not (self._shelf.path(name) / "run.json").is_file(),
            blocks=with_templates(run.blocks),
            wanted=wanted,
            attempts=part,
            found=len(chosen),
            start=start,
            earlier=_address(wanted, start - _PAGE) if start else "",
            later=_address(wanted, start + _PAGE) if start + _PAGE < len(chosen) else "",
        )

    def attempt(self, request: Request) -> Response:
        """Render an attempt: its request, its answer and its failures."""
        name = request.path_params["run"]
        number = _parse_number(request.path_params["number"])
        attempt = next((attempt for attempt in self._shelf.run(name).attempts if attempt.number == number), None)
        if attempt is None:
            raise HTTPException(404)
        return self._attempts(str(attempt.attempt.key), [(name, attempt)])

    def compare(self, request: Request) -> Response:
        """Render a comparison of two or more runs, with the cases that changed between the first and the last."""
        names = request.query_params.getlist("run")
        if len(names) < 2:
            raise HTTPException(400, "choose two runs or more")
        runs = [(name, read(self._shelf.path(name))) for name in names]
        evaluations = [replace(part, source=name) for name, run in runs for part in run.each]
        run_labels = labels(evaluations)
        changes: Mapping[str, Sequence[Any]] = {}
        if not any(evaluation.variant for evaluation in evaluations):
            for pair in pairs([evaluations[0], evaluations[-1]], [run_labels[0], run_labels[-1]]):
                changes = pair.comparison.changes
        return self._page(
            "compare.html",
            names=names,
            pictures=pictures_of_comparison(evaluations, run_labels),
            blocks=with_templates(side_by_side(evaluations, run_labels)),
            changes=changes,
        )

    def compare_case(self, request: Request) -> Response:
        """Render one case in several runs, side by side."""
        case = request.query_params.get("case", "")
        names = request.query_params.getlist("run")
        runs = [(name, sorted(self._shelf.run(name).attempts, key=lambda attempt: attempt.number)) for name in names]
        sides = [(name, attempt) for name, run in runs for attempt in run if str(attempt.attempt.key) == case]
        if not sides:
            raise HTTPException(404)
        return self._attempts(case, sides)

    def render_waiting_page(self, *_: object) -> Response:
        """Render the page that is shown while a run is being read, and that reloads itself."""
        return self._page("reading.html")

    def _attempts(self, title: str, attempts: Iterable[tuple[str, ListedAttempt]]) -> Response:
        """Render attempts from several runs side by side."""
        with open_lines() as lines:
            sides = [(name, attempt, details_of(_record(attempt, lines))) for name, attempt in attempts]
        return self._page("attempt.html", title=title, sides=sides)

    def _page(self, template: str, **values: Any) -> Response:
        return HTMLResponse(_utf8(self._pages.get_template(template).render(**values)))


def _matches(listed: ListedAttempt, wanted: Mapping[str, str]) -> bool:
    attempt = listed.attempt
    return (
        wanted["text"].lower() in str(attempt.key).lower()
        and wanted["task"] in {"", attempt.key.task}
        and wanted["outcome"] in {"", listed.ending, *([] if listed.passed else ["!"])}
        and (not wanted["keyword"] or wanted["keyword"] in listed.broken)
        and wanted["variant"] in {"", attempt.variant}
    )


def _record(attempt: ListedAttempt, lines: LinesByPlace) -> Record:
    return record_at(attempt.source, attempt.attempt, lines)


def _address(wanted: Mapping[str, str], start: int) -> str:
    return "?" + urlencode({**{key: value for key, value in wanted.items() if value}, "start": max(0, start)})


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None
