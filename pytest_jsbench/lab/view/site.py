"""The pages over a folder of runs; each is made on the server, holds no script, and loads its style alone."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.lab.view.shelf import Shelf
from pytest_jsbench.records.outcomes import AttemptOutcome, Run, open_lines
from pytest_jsbench.records.records import Record
from pytest_jsbench.reports import run_report
from pytest_jsbench.reports.blocks import Block, TableBlock
from pytest_jsbench.reports.comparison_report import labels, side_by_side, table_of_runs
from pytest_jsbench.reports.evaluations import evaluation_of
from pytest_jsbench.reports.html.case_list import details_of, ending_of, rank, reason_of
from pytest_jsbench.reports.html.report import page_environment

#: attempts on a page
_PAGE = 100
_COOKIE = "jsbench-view"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_site(folder: Path, token: str) -> Starlette:
    """The application that serves the runs of a folder to whoever shows the token, on this machine."""
    site = _Site(Shelf(folder))

    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        shown = request.query_params.get("token", "")
        if shown and hmac.compare_digest(shown.encode(), token.encode()):
            rest = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != "token"])
            response: Response = RedirectResponse(f"{request.url.path}{f'?{rest}' if rest else ''}", 303)
            response.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        elif hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), token.encode()):
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
            Route("/beside", site.beside),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(BaseHTTPMiddleware, dispatch=guard),
        ],
        exception_handlers={JSBenchError: _unreadable},
    )


def _unreadable(_: Request, error: Exception) -> Response:
    return Response(f"{error}\n", 404, media_type="text/plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """An attempt in the list of a run."""

    number: int
    name: str
    ending: str
    reason: str


class _Site:
    """
    Makes the pages.

    `make_site` makes one; starlette calls it in threads of its own, several at once. It keeps nothing but the shelf.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._pages = page_environment("jsbench view needs jinja2")
        self._pages.loader = _loader()

    def style(self, _: Request) -> Response:
        """The style of all pages: that of report.html, and a few lines more."""
        text = _text("pytest_jsbench.reports.html", "report.css") + _text("pytest_jsbench.lab.view", "view.css")
        return Response(text, media_type="text/css")

    def runs(self, _: Request) -> Response:
        """The list of runs, with their figures."""
        listed = list(self._shelf.listed())
        with_figures = [(run.name, run.evaluation) for run in listed if run.evaluation is not None]
        table = table_of_runs("Run", with_figures) if with_figures else None
        verdicts = {name: evaluation.verdict for name, evaluation in with_figures}
        going = [run for run in listed if run.evaluation is None]
        return self._page("runs.html", table=table, verdicts=verdicts, going=going)

    def run(self, request: Request) -> Response:
        """A run: its verdict, tables and facts, and its attempts as the address filters them."""
        name = request.path_params["run"]
        run = self._find(name)
        wanted = {key: request.query_params.get(key, "") for key in ("text", "task", "outcome", "keyword", "variant")}
        chosen = [pair for pair in _ranked(run) if _meets(pair[1], wanted)]
        start = _whole(request.query_params.get("start", "")) or 0
        with open_lines() as opened:
            part = [(number, outcome, outcome.read(opened)) for number, outcome in chosen[start : start + _PAGE]]
        return self._page(
            "run.html",
            name=name,
            run=run,
            going=not (self._shelf.path(name) / "run.json").is_file(),
            heading=run_report.heading(run.metadata),
            blocks=_drawn(run_report.report(run, run.summary)),
            wanted=wanted,
            choices={
                "task": sorted({outcome.key.task for outcome in run.outcomes}),
                "outcome": sorted({ending_of(outcome) for outcome in run.outcomes}),
                "keyword": sorted({keyword for outcome in run.outcomes for keyword in outcome.broken}),
                "variant": list(run.variants),
            },
            lines=[_line(*attempt) for attempt in part],
            found=len(chosen),
            start=start,
            earlier=_address(wanted, start - _PAGE) if start else "",
            later=_address(wanted, start + _PAGE) if start + _PAGE < len(chosen) else "",
        )

    def attempt(self, request: Request) -> Response:
        """An attempt: what was asked, what came, and what is wrong with it."""
        name, number = request.path_params["run"], _whole(request.path_params["number"])
        run = self._find(name)
        if number is None or number >= len(run.outcomes):
            raise HTTPException(404)
        outcome = run.outcomes[number]
        return self._page("attempt.html", title=str(outcome.key), sides=[_side(name, number, outcome)])

    def compare(self, request: Request) -> Response:
        """Two runs or more beside each other, and the cases that changed between the first and the last."""
        names = request.query_params.getlist("run")
        if len(names) < 2:
            raise HTTPException(400, "choose two runs or more")
        runs = [self._find(name) for name in names]
        evaluations = [evaluation_of(run, run.summary, source=name) for name, run in zip(names, runs, strict=True)]
        changes: Mapping[str, Sequence[Any]] = {}
        if not any(run.variants for run in runs):
            changes = runs[-1].compare(runs[0]).changes
        return self._page(
            "compare.html",
            names=names,
            blocks=_drawn(side_by_side(evaluations, labels(evaluations))),
            changes=changes,
        )

    def beside(self, request: Request) -> Response:
        """One case in each of several runs, side by side."""
        case, sides = request.query_params.get("case", ""), []
        for name in request.query_params.getlist("run"):
            run = self._find(name)
            for number, outcome in enumerate(run.outcomes):
                if str(outcome.key) == case:
                    sides.append(_side(name, number, outcome))
        if not sides:
            raise HTTPException(404)
        return self._page("attempt.html", title=case, sides=sides)

    def _find(self, name: str) -> Any:
        try:
            return self._shelf.run(name)
        except KeyError:
            raise HTTPException(404) from None

    def _page(self, template: str, **values: Any) -> Response:
        return HTMLResponse(self._pages.get_template(template).render(**values))


def _loader() -> Any:
    from jinja2 import FunctionLoader

    room = {"macros.html": "pytest_jsbench.reports.html"}
    return FunctionLoader(lambda name: _text(room.get(name, "pytest_jsbench.lab.view"), name))


def _text(package: str, name: str) -> str:
    return files(package).joinpath("page", name).read_text("utf-8")


def _ranked(run: Run) -> list[tuple[int, AttemptOutcome]]:
    """The attempts with their places in the run, those that did not pass first."""
    return sorted(enumerate(run.outcomes), key=lambda pair: rank(pair[1]))


def _meets(outcome: AttemptOutcome, wanted: Mapping[str, str]) -> bool:
    return (
        wanted["text"].lower() in str(outcome.key).lower()
        and wanted["task"] in {"", outcome.key.task}
        and wanted["outcome"] in {"", ending_of(outcome), *([] if outcome.passed else ["!"])}
        and (not wanted["keyword"] or wanted["keyword"] in outcome.broken)
        and wanted["variant"] in {"", outcome.variant}
    )


def _side(run: str, number: int, outcome: AttemptOutcome) -> tuple[str, _Line, dict[str, Any]]:
    record = outcome.read()
    return run, _line(number, outcome, record), details_of(record)


def _line(number: int, outcome: AttemptOutcome, record: Record) -> _Line:
    return _Line(
        number=number,
        name=outcome.attempt.name(several=bool(outcome.repeat)),
        ending=ending_of(outcome),
        reason=reason_of(record),
    )


def _drawn(blocks: Iterable[Block]) -> list[tuple[str, Block]]:
    """Each block with the word by which a template knows how to draw it."""
    return [
        ("table" if isinstance(block, TableBlock) else "facts" if isinstance(block, list) else "heading", block)
        for block in blocks
    ]


def _address(wanted: Mapping[str, str], start: int) -> str:
    return "?" + urlencode({**{key: value for key, value in wanted.items() if value}, "start": max(0, start)})


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else None
