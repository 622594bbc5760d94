"""Implement `jsbench adapt --for`: name the schemas and requests that a provider rejects unchanged."""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation import Inexpressible
from pytest_jsbench.adaptation.adapter import Mode, adapt_within
from pytest_jsbench.adaptation.sizes import excess_of_request
from pytest_jsbench.adaptation.subsets import Subset
from pytest_jsbench.cli.arguments import flag_names_in_errors
from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema, safe_name
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.datasets.base import Listing, Selection
from pytest_jsbench.datasets.registry import open_dataset

if TYPE_CHECKING:
    from pytest_jsbench.run.provider_check import ProviderCheck

#: Options of the engine that calls the provider.
ENGINE_OPTIONS = ("engine", "model", "base_url", "api_key_env", "response_format", "max_tokens", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acceptance:
    """Whether the profile accepts a schema unchanged."""

    #: `accepted`, `refused` or `broken`.
    outcome: str
    #: Reason; empty if accepted. The reason for a broken schema names its file.
    reason: str = ""
    #: The schema that would be sent, and whether there is one.
    adapted: Schema | None = None
    expressible: bool = False


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Numbers of schemas by outcome, of rejected requests, and of calls by result."""

    schemas: Counter[str] = field(default_factory=Counter)
    rejected_requests: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def fits(self) -> bool:
        """Whether the profile, and the provider if it was called, accepts every schema and every request."""
        accepted = self.schemas.total() > 0 and self.schemas.keys() == {"accepted"} and not self.rejected_requests
        return accepted and self.calls.keys() <= {_BOTH_ACCEPT}


_BOTH_ACCEPT = "accepted by both"
_BOTH_REJECT = "rejected by both"
_ONLY_PROFILE = "rejected only by the profile"
_ONLY_PROVIDER = "rejected only by the provider"
_UNKNOWN = "unknown"


def name_refused(options: argparse.Namespace, subset: Subset, out: Output) -> bool:
    """
    List the schemas and requests that the provider rejects unchanged; return whether it accepts all of them.

    With --live, also send each schema to the provider, and list where profile and provider differ.
    """
    tally = _Tally()
    with ExitStack() as resources:
        provider = None
        if options.live:
            from pytest_jsbench.run.provider_check import open_provider

            values = {name: getattr(options, name) for name in (*ENGINE_OPTIONS, "engine_option")}
            resources.enter_context(flag_names_in_errors(options))
            provider = resources.enter_context(open_provider(values))
        for source in options.dataset:
            selection = Selection.from_sources([source], tasks=options.tasks, split=options.split, limit=options.limit)
            dataset = open_dataset(selection)
            keys = dataset.keys()
            report = _Report(options, subset, out, tally, source, keys[0] if len(keys) == 1 else None)
            for case in map(dataset.case, keys):
                report.add(case, provider)
        if not options.json:
            out.write(_total(subset, tally, provider))
    return tally.fits


def _total(subset: Subset, tally: _Tally, provider: ProviderCheck | None) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.schemas.items()))
    line = f"{subset.version}: {format_count(tally.schemas.total(), 'schema')}{counts and f': {counts}'}"
    if tally.rejected_requests:
        line += f"; {format_count(tally.rejected_requests, 'request')} refused"
    if provider is None:
        return f"{line}\n"
    info = provider.engine.info
    calls = ", ".join(f"{count} {result}" for result, count in sorted(tally.calls.items()))
    number = format_count(tally.calls.total(), "call")
    return f"{line}\n{subset.version} and {info.engine} {printable(info.model, 60)}: {number}{calls and f': {calls}'}\n"


class _Report:
    """The report on the schemas of one source."""

    def __init__(
        self,
        options: argparse.Namespace,
        subset: Subset,
        out: Output,
        tally: _Tally,
        source: str,
        only: CaseKey | None,
    ) -> None:
        self._options = options
        self._subset = subset
        self._out = out
        self._tally = tally
        self._source = source
        #: Key of the source's only case, which the source alone names; None if it has several.
        self._only = only

    def add(self, case: Case | BrokenCase, provider: ProviderCheck | None) -> None:
        """Report what the profile accepts, and whether the provider agrees."""
        parts = list(split_case(case))
        enforced = _are_enforced(case)
        acceptances = [
            _acceptance(part, self._subset, self._options.mode, is_enforced=is_enforced)
            for part, is_enforced in zip(parts, enforced, strict=True)
        ]
        for part, acceptance in zip(parts, acceptances, strict=True):
            self._tally.schemas[acceptance.outcome] += 1
            self._write(part, acceptance.outcome, acceptance.reason)
        if isinstance(case, BrokenCase):
            return
        problems = self._problems_of_request(case, acceptances, enforced)
        for problem in problems:
            self._write(case, "refused", f"{self._subset.version} rejects the request: {problem}")
        self._tally.rejected_requests += bool(problems)
        if provider is not None:
            accepted = not problems and all(acceptance.outcome == "accepted" for acceptance in acceptances)
            self._call(case, provider, accepted)

    def _problems_of_request(self, case: Case, acceptances: list[_Acceptance], enforced: list[bool]) -> list[str]:
        """Return the limits that the schemas of the case exceed together; empty if one of them cannot be sent."""
        if case.offer is None or not all(acceptance.expressible for acceptance in acceptances):
            return []
        schemas = [one.adapted for one, is_enforced in zip(acceptances, enforced, strict=True) if is_enforced]
        tools = sum(enforced[len(enforced) - len(case.offer.tools) :])
        return list(excess_of_request(schemas, tools, self._subset.per_request))

    def _call(self, case: Case, provider: ProviderCheck, accepted: bool) -> None:
        reply = provider.send(case)
        message = printable(reply.message, 300)
        if reply.accepted is None:
            result, text = _UNKNOWN, f"the call does not show whether the provider accepts the schema: {message}"
        elif accepted and reply.accepted:
            result, text = _BOTH_ACCEPT, ""
        elif accepted:
            result, text = _ONLY_PROVIDER, f"{self._subset.version} accepts it, but the provider rejects it: {message}"
        elif reply.accepted:
            result, text = _ONLY_PROFILE, f"the provider accepts it, although {self._subset.version} rejects it"
        else:
            result, text = _BOTH_REJECT, f"the provider rejects it too: {message}"
        self._tally.calls[result] += 1
        self._write(case, result, text)

    def _write(self, case: Case | BrokenCase, outcome: str, reason: str) -> None:
        if self._options.json:
            of_case = {"dataset": self._source, "task": case.key.task, "id": case.key.id}
            values = {**of_case, "subset": self._subset.version, "outcome": outcome, "reason": reason}
            self._out.json(values, indent=None)
        elif reason:
            place = self._source if case.key == self._only else f"{self._source}: {case.key}"
            self._out.lines([reason if outcome == "broken" else f"{printable(place, None)}: {reason}"])


def split_case(case: Case | BrokenCase) -> Iterator[Case | BrokenCase]:
    """Yield the case; in place of a case that offers tools, one for an answer in text, and one for each tool."""
    if isinstance(case, BrokenCase) or case.offer is None:
        yield case
        return
    if case.schema is not True:
        yield dataclasses.replace(case, offer=None)
    for tool in case.offer.tools:
        key = CaseKey(task=case.key.task, id=safe_name(f"{case.key.id}.{tool.name}"))
        yield dataclasses.replace(case, key=key, schema=tool.parameters, offer=None)


def _are_enforced(case: Case | BrokenCase) -> list[bool]:
    """Return whether the provider enforces the schema of each case that `split_case` yields."""
    if isinstance(case, BrokenCase) or case.offer is None:
        return [True]
    of_text = [True] if case.schema is not True else []
    return [*of_text, *(tool.strict is not False for tool in case.offer.tools)]


def cases_with_one_schema(dataset: Listing) -> Iterator[Case | BrokenCase]:
    """Yield the cases, with those that offer tools split."""
    for case in map(dataset.case, dataset.keys()):
        yield from split_case(case)


def format_place(keyword: str, path: str) -> str:
    """Return a keyword and its place for a message."""
    return f"{printable(keyword) or 'schema'} at {printable(path) or '/'}"


def _acceptance(case: Case | BrokenCase, subset: Subset, mode: Mode, *, is_enforced: bool) -> _Acceptance:
    if isinstance(case, BrokenCase):
        return _Acceptance(outcome="broken", reason=printable(case.problem, None))
    if not is_enforced:  # the profile is about schemas that the provider enforces
        return _Acceptance(outcome="accepted", adapted=case.schema, expressible=True)
    adapted = adapt_within(case.schema, subset.version, mode)
    if isinstance(adapted, Inexpressible):
        reason = f"{format_place(adapted.keyword, adapted.path)}: {printable(adapted.message)}"
        text = f"{subset.version} rejects the schema: {reason}; adaptation impossible"
        return _Acceptance(outcome="refused", reason=text)
    if adapted.schema == case.schema:
        return _Acceptance(outcome="accepted", adapted=adapted.schema, expressible=True)
    first, *more = adapted.changes
    others = f" (and {len(more)} more)" if more else ""
    reason = f"{format_place(first.keyword, first.path)}: {printable(first.note)}{others}"
    text = f"{subset.version} rejects the unchanged schema: {reason}; --jsbench-adapt={mode} sends it rewritten"
    return _Acceptance(outcome="refused", reason=text, adapted=adapted.schema, expressible=True)
