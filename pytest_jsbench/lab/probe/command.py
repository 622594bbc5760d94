"""The command `jsbench probe`: find out whether a server enforces schemas, and in which modes it does not."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cli.arguments import add_option, flag_names_in_errors, flag_of, to_argparse_type
from pytest_jsbench.cli.output import Output
from pytest_jsbench.cli.signals import handle_sigterm
from pytest_jsbench.core.errors import EngineError, nearest
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.text import format_count
from pytest_jsbench.lab.probe.check_names import CHECK_NAMES
from pytest_jsbench.lab.probe.questions import KEYWORDS, SHAPES, Words
from pytest_jsbench.settings.options import BY_NAME

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.lab.probe.calls import ProbeCalls
    from pytest_jsbench.lab.probe.check import CheckPlan
    from pytest_jsbench.lab.probe.probe import ProbePlan
    from pytest_jsbench.lab.probe.probed import Probed
    from pytest_jsbench.run.session import RunSession
    from pytest_jsbench.run.variants import Variant

#: Options that select the engine and model, and how answers are sampled.
_ENGINE_OPTIONS = (
    "engine",
    "model",
    "base_url",
    "api_key_env",
    "engine_option",
    "max_tokens",
    "temperature",
    "timeout",
)
_LEVELS = (1, 2, 8, 32)
#: Response format and numbers of concurrent calls of the demo, with which each planted fault is found.
_DEMO_FORMAT, _DEMO_LEVELS = ("json_schema",), (1, 4, 8)
_NEXT = "jsbench probe --engine=openai --base-url=URL --model=MODEL probes your own server"
#: Maximum number of tokens in an answer: conforming answers are shorter, and an unconstrained model may never stop.
_MOST_TOKENS = 256
#: Seconds without any answer after which the probe is aborted.
_PATIENCE = 60.0


def add_probe(commands: Any) -> None:
    """Declare `jsbench probe`."""
    probe = commands.add_parser(
        "probe",
        help="check whether a server enforces schemas, and when it does not",
        description="Send a server a few hundred short requests. Each schema contains random words, and each prompt "
        "requests an answer that does not conform to the schema. There are requests for each keyword. They are sent "
        "in each response format, with and without streaming, and one at a time and concurrently. Print one line per "
        "mode. Then check tools, streaming, parameters and load, and print one line per check. Exit with 0 if the "
        "server enforces the schema in all modes and for all keywords that were probed, and all checks are ok. With "
        "--demo, probe a built-in server that has three planted faults; this needs no model and no API key.",
    )
    _add_engine_options(probe)
    _add_question_options(probe)
    probe.add_argument(
        "-v", "--verbose", action="store_true", help="print the counts for each keyword and concurrency level"
    )
    probe.add_argument("--json", action="store_true", help="print the findings as JSON only")
    probe.set_defaults(command=_probe)


def _add_engine_options(probe: argparse.ArgumentParser) -> None:
    group = probe.add_argument_group("Engine and model")
    whom = group.add_mutually_exclusive_group(required=True)
    add_option(whom, "engine")
    whom.add_argument("--demo", action="store_true", help="probe a built-in server that has three planted faults")
    for name in ("model", "base_url", "api_key_env"):
        add_option(group, name)
    streams = "like --jsbench-engine-option; stream=true or stream=false probes only with or only without streaming"
    add_option(group, "engine_option", help=streams)
    for name in ("rpm", "tpm", "max_cost", "temperature", "retries"):
        add_option(group, name)
    add_option(group, "max_tokens", default=_MOST_TOKENS, help=f"maximum tokens of an answer (default: {_MOST_TOKENS})")
    add_option(group, "timeout", default=60.0, help="timeout of a call in seconds (default: 60)")


def _add_question_options(probe: argparse.ArgumentParser) -> None:
    what = probe.add_argument_group("Questions")
    what.add_argument(
        "--response-format",
        "--format",
        metavar="A,B",
        type=_names_among(("json_schema", "tool", "json_object")),
        help="response formats: json_schema, tool, json_object (default: all that the engine supports)",
    )
    what.add_argument(
        "--concurrency",
        metavar="A,B",
        type=to_argparse_type(_levels),
        help="numbers of concurrent calls to probe in turn (default: 1,2,8,32; local: 1,2,8)",
    )
    add_option(
        what,
        "limit",
        "--calls",
        dest="calls",
        help="minimum number of calls at each concurrency level (default: 5; at 32 concurrent calls or more: 176, "
        "to find rare faults)",
    )
    what.add_argument(
        "--keywords",
        metavar="A,B",
        type=_names_among((*KEYWORDS, *SHAPES, "none")),
        help=f"keywords and shapes of schemas to probe: {', '.join(KEYWORDS)}, {', '.join(SHAPES)}, or none (default: "
        "all, or those that the provider documents as supported)",
    )
    what.add_argument(
        "--checks",
        metavar="A,B",
        type=_names_among((*CHECK_NAMES, "none")),
        help=f"checks of tools, streaming, parameters and load: {', '.join(CHECK_NAMES)}, or none (default: all that "
        "the engine supports)",
    )
    what.add_argument(
        "--reasoning",
        metavar="JSON",
        type=to_argparse_type(_fields),
        help="request fields that turn reasoning on; each mode is probed with and without them",
    )
    what.add_argument(
        "--no-reasoning",
        metavar="JSON",
        type=to_argparse_type(_fields),
        help="request fields that turn reasoning off (default: none)",
    )


def _probe(options: argparse.Namespace, out: Output) -> bool:
    from pytest_jsbench.run.variants import Variant
    from pytest_jsbench.settings.call_options import Ask
    from pytest_jsbench.settings.options import RecordingOptions

    with flag_names_in_errors(options):
        if options.demo:
            with _demo(options) as (demo, faults):
                base = Variant.of("", Ask(demo), RecordingOptions())
                passed = _run(options, replace(base, engine=replace(base.engine, api_key="none")), out)
            if not options.json:
                out.lines([f"planted in the demo server: {faults}", f"next: {_NEXT}"])
            return passed
        ask = Ask({name: getattr(options, name) for name in _ENGINE_OPTIONS})
        return _run(options, Variant.of("", ask, RecordingOptions()), out)


@contextmanager
def _demo(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """Run the demo's server; yield the option values that select this server, and a description of its faults."""
    from pytest_jsbench.lab.probe.demo_chat import MODEL
    from pytest_jsbench.lab.probe.demo_server import FAULTS, serve_demo

    for name in ("model", "base_url", "api_key_env"):
        if getattr(options, name) is not None:
            message = f"--demo probes a built-in server; remove {flag_of(name)}, or replace --demo with --engine"
            raise EngineError(message, option=name)
    options.response_format = options.response_format or _DEMO_FORMAT
    options.concurrency = options.concurrency or _DEMO_LEVELS
    with serve_demo() as url, _without_proxies():
        chosen = {name: getattr(options, name) for name in _ENGINE_OPTIONS}
        yield {**chosen, "engine": "openai", "model": MODEL, "base_url": url}, FAULTS


@contextmanager
def _without_proxies() -> Iterator[None]:
    """Ignore the proxies in the environment, so that each connection is direct."""
    names = ("NO_PROXY", "no_proxy")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "*"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _run(options: argparse.Namespace, base: Variant, out: Output) -> bool:
    from pytest_jsbench.engines.engine_secrets import check, describe, prepare
    from pytest_jsbench.lab.probe import report
    from pytest_jsbench.lab.probe.probe_session import open_session
    from pytest_jsbench.run.plan import RateLimits

    check(base.factory, base.engine)
    info = describe(base.factory, base.engine)
    lines: Callable[[Iterable[str]], None] = (lambda _: None) if options.json else out.lines
    with handle_sigterm(), prepare(base.factory, base.engine) as prepared:
        base = replace(base, engine=prepared)
        plan = _plan(options, base, info)
        checks, obstacles = _plan_checks(options, _without_reasoning(options, base), plan, info)
        lines([_opening(info, plan, checks), *(f"not checked: {name}: {why}" for name, why in obstacles.items())])
        limits = RateLimits(
            requests_per_minute=options.rpm,
            tokens_per_minute=options.tpm,
            max_cost=options.max_cost,
            patience=_PATIENCE,
        )
        opened = open_session(base, plan, checks, limits=limits, retries=options.retries)
        with opened as session, _calls(session, max(plan.levels)) as made:
            probed = replace(_ask(plan, checks, made, lines, verbose=options.verbose), not_checked=obstacles)
            started_at = session.handover.metadata.started_at
    if options.json:
        out.json(report.report_of(probed, info, started_at=started_at))
    lines(["", report.summary_of(probed)])
    return probed.passed


def _opening(info: EngineInfo, plan: ProbePlan, checks: CheckPlan) -> str:
    """Return the first line: what is probed, and the number of calls."""
    from pytest_jsbench.lab.probe.registry import count_calls

    parts = [format_count(len(plan.ways), "mode")]
    if checks.names:
        parts[0] += f" and {format_count(len(checks.names), 'check')}"
    parts.append(f"{format_count(plan.max_calls + count_calls(checks), 'call')} if there are no faults")
    parts.append(f"up to {max(plan.levels)} at once")
    return f"{info.engine} {info.model}: {', '.join(parts)}"


def _ask(
    plan: ProbePlan, checks: CheckPlan, made: ProbeCalls, lines: Callable[[Iterable[str]], None], *, verbose: bool
) -> Probed:
    """Ask the questions and make the checks, and print each finding when it is known."""
    from pytest_jsbench.lab.probe import report
    from pytest_jsbench.lab.probe.check import Bench
    from pytest_jsbench.lab.probe.probe import Probe
    from pytest_jsbench.lab.probe.probed import Probed
    from pytest_jsbench.lab.probe.question_calls import QuestionCalls
    from pytest_jsbench.lab.probe.registry import make_checks

    words, questions = Words(SystemRandom()), QuestionCalls(made)
    probe = Probe(plan, made, questions, words)
    controls = probe.ask_controls()
    lines([*report.control_lines(controls), *([""] if controls else [])])
    findings = []
    for finding in probe.findings():
        findings.append(finding)
        lines([report.line_of(finding), *report.evidence_of(finding, verbose=verbose)])
    bench = Bench(checks, made, questions, words, controls=controls, ask_controls=probe.ask_controls_again)
    lines([""] if checks.names else [])
    checked = []
    for found in make_checks(bench):
        checked.append(found)
        lines(report.check_lines(found))
    return Probed(findings=tuple(findings), controls=controls, checks=tuple(checked), calls=made.made)


def _plan_checks(
    options: argparse.Namespace, base: Variant, plan: ProbePlan, info: EngineInfo
) -> tuple[CheckPlan, Mapping[str, str]]:
    """Return the plan of the checks that can be made, and why the others cannot; raise EngineError for a named one."""
    from pytest_jsbench.lab.probe.check_plan import plan_checks
    from pytest_jsbench.lab.probe.registry import find_obstacles

    named = CHECK_NAMES if options.checks is None else [name for name in options.checks if name != "none"]
    checks = plan_checks(named, base, plan, info)
    obstacles = find_obstacles(checks)
    if options.checks is not None and obstacles:
        name, why = next(iter(obstacles.items()))
        message = f"the check '{name}' cannot be made with engine '{info.engine}': {why}; remove it from --checks"
        raise EngineError(message, found=name, where="checks")
    return replace(checks, names=tuple(name for name in checks.names if name not in obstacles)), obstacles


@contextmanager
def _calls(session: RunSession, threads: int) -> Iterator[ProbeCalls]:
    """Return the calls of a probe, which are stopped after the block."""
    from pytest_jsbench.lab.probe.calls import ProbeCalls

    made = ProbeCalls(session, threads)
    try:
        yield made
    finally:
        made.stop()


def _plan(options: argparse.Namespace, base: Variant, info: EngineInfo) -> ProbePlan:
    from pytest_jsbench.lab.probe.probe import ProbePlan, control_of, documented_subset, select_fitting, ways_of

    factory = base.factory
    levels = options.concurrency or (tuple({1, 2, 2 * factory.concurrency}) if factory.shared else _LEVELS)
    base = replace(base, concurrency=max(levels))
    formats = None if options.response_format is None else [ResponseFormat(name) for name in options.response_format]
    ways = ways_of(base, formats, reasoning=options.reasoning, no_reasoning=options.no_reasoning)
    if not ways:
        message = f"engine '{base.engine.name}' has no response format that could be enforced; use another engine"
        raise EngineError(message, found=base.engine.name, option="engine")
    named = options.keywords
    if named is None:
        named = select_fitting((*KEYWORDS, *SHAPES), documented_subset(info))
    return ProbePlan(
        ways=ways,
        levels=tuple(sorted(levels)),
        keywords=tuple(name for name in named if name in KEYWORDS),
        shapes=tuple(name for name in named if name in SHAPES),
        calls=options.calls or 5,
        more_under_load=options.calls is None,
        control=control_of(_without_reasoning(options, base)),
    )


def _without_reasoning(options: argparse.Namespace, base: Variant) -> Variant:
    """Return the variant with the request fields that turn reasoning off, if there are any."""
    from pytest_jsbench.lab.probe.probe import with_body

    return replace(base, engine=with_body(base.engine, options.no_reasoning or {}))


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        message = 'expected a JSON object, such as {"reasoning_effort": "low"}'
        raise ValueError(message)
    return fields


def _levels(text: str) -> tuple[int, ...]:
    return tuple(sorted({BY_NAME["concurrency"].of_text(part.strip()) for part in text.split(",")}))


def _names_among(offered: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        named = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        if unknown := [name for name in named if name not in offered]:
            raise ValueError(f"found {unknown[0]!r}: {nearest(unknown[0], offered)}")
        return named

    return to_argparse_type(read)
