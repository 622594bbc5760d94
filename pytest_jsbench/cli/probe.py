"""`jsbench probe`: does a server hold its answers to their schemas, and in which ways of asking does it not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

from pytest_jsbench.cli.arguments import add_option, flag_of, reading
from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.text import counted, json_text
from pytest_jsbench.runner.probe_questions import KEYWORDS
from pytest_jsbench.settings.options import BY_NAME, respelled

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.runner.limits import Admission
    from pytest_jsbench.runner.probe import ProbePlan, ProbeSettings

_LEVELS = (1, 8, 32)
#: seconds without any answer after which a probe gives up on the server
_PATIENCE = 60.0


def add_probe(commands: Any) -> None:
    """Declare `jsbench probe`."""
    probe = commands.add_parser(
        "probe",
        help="whether a server holds its answers to their schemas, and when it does not",
        description="Ask a server a few hundred short questions whose schemas hold random words and whose prompts ask "
        "for something else: streamed and not, in each response format, alone and many at once, and keyword by "
        "keyword. One line for each way of asking. 0 when all that was asked is enforced.",
    )
    _add_whom(probe)
    _add_what(probe)
    probe.add_argument("-v", "--verbose", action="store_true", help="the counts of every level and keyword")
    probe.add_argument("--json", action="store_true", help="the same as JSON, and nothing else")
    probe.set_defaults(command=_probe)


def _add_whom(probe: argparse.ArgumentParser) -> None:
    whom = probe.add_argument_group("whom is asked")
    add_option(whom, "engine", required=True)
    for name in ("model", "base_url", "api_key_env"):
        add_option(whom, name)
    streams = "as --jsbench-engine-option; with stream=true or stream=false only that is asked"
    add_option(whom, "engine_option", help=streams)
    for name in ("rpm", "tpm", "max_cost", "max_tokens", "temperature", "retries"):
        add_option(whom, name)
    add_option(whom, "timeout", default=60.0, help="seconds for one call (default: 60)")


def _add_what(probe: argparse.ArgumentParser) -> None:
    what = probe.add_argument_group("what is asked")
    what.add_argument(
        "--response-format",
        "--format",
        metavar="A,B",
        type=_known_names(("json_schema", "tool", "json_object")),
        help="only these of json_schema, tool and json_object (default: all that the engine knows)",
    )
    what.add_argument(
        "--concurrency",
        metavar="A,B",
        type=reading(_levels),
        help="calls in flight, each number in turn (default: 1,8,32; local: 1,8)",
    )
    add_option(what, "limit", "--calls", dest="calls", default=5, help="fewest questions at each (default: 5)")
    what.add_argument(
        "--keywords",
        metavar="A,B",
        type=_known_names((*KEYWORDS, "none")),
        help=f"only these of {', '.join(KEYWORDS)}, or none (default: those that the provider documents, or all)",
    )
    what.add_argument(
        "--reasoning",
        metavar="JSON",
        type=reading(_fields),
        help="fields of the request that ask for reasoning: each way is asked with them and without",
    )
    what.add_argument(
        "--no-reasoning",
        metavar="JSON",
        type=reading(_fields),
        help="fields that turn reasoning off (default: none are sent)",
    )


def _probe(options: argparse.Namespace, out: TextIO) -> bool:
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.registry import find

    config = EngineConfig(
        name=options.engine,
        model=options.model,
        base_url=options.base_url,
        api_key_env=options.api_key_env,
        options=dict(options.engine_option),
    )
    try:
        return _run(options, find(options.engine), config, out)
    except JSBenchError as error:  # the options have shorter names here
        error.args = (respelled(str(error), flag_of),)
        raise


def _run(options: argparse.Namespace, factory: EngineFactory, config: EngineConfig, out: TextIO) -> bool:
    from pytest_jsbench.engines.secrets import check, describe
    from pytest_jsbench.metrics.enforcement import Probed
    from pytest_jsbench.reports import enforcement
    from pytest_jsbench.runner.probe import Probe

    check(factory, config)
    info = describe(factory, config)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with factory.prepare(config) as prepared, _settings(options, factory, info, started_at) as settings:
        plan = _plan(options, factory, prepared, info)
        probe = Probe(plan, settings, SystemRandom())
        if not options.json:
            out.write(_announced(info, plan))
            out.flush()
        control = probe.ask_control()
        if control is not None and not options.json:
            out.write(f"{enforcement.control_line(control)}\n\n")
            out.flush()
        findings = []
        for finding in probe.findings():
            findings.append(finding)
            if not options.json:
                out.write(f"{enforcement.line_of(finding)}\n")
                out.writelines(f"{line}\n" for line in enforcement.evidence_of(finding, verbose=options.verbose))
                out.flush()
        probed = Probed(findings=tuple(findings), control=control, calls=probe.calls)
    if options.json:
        out.write(json_text(enforcement.to_dict(probed, info, started_at=started_at), indent=2) + "\n")
    else:
        out.write(f"\n{enforcement.last_line(probed)}\n")
    return probed.passed


def _announced(info: EngineInfo, plan: ProbePlan) -> str:
    ways, calls = counted(len(plan.ways), "way"), counted(plan.most_calls, "call")
    return f"{info.engine} {info.model}: {ways} of asking, at most {calls}, {max(plan.levels)} at once\n"


def _plan(options: argparse.Namespace, factory: EngineFactory, config: EngineConfig, info: EngineInfo) -> ProbePlan:
    from pytest_jsbench.runner.probe import ProbePlan, control_of, documented_subset, keywords_within, ways_of

    formats = None if options.response_format is None else [ResponseFormat(name) for name in options.response_format]
    ways = ways_of(factory, config, formats, reasoning=options.reasoning, no_reasoning=options.no_reasoning)
    if not ways:
        message = f"engine '{config.name}' has no response format that could be enforced: nothing to probe"
        raise EngineError(message, found=config.name, option="engine")
    levels = options.concurrency or (tuple({1, 2 * factory.concurrency}) if factory.shared else _LEVELS)
    keywords = options.keywords
    if keywords is None:
        keywords = keywords_within(documented_subset(info))
    return ProbePlan(
        ways=ways,
        levels=tuple(sorted(levels)),
        keywords=tuple(keyword for keyword in keywords if keyword != "none"),
        calls=options.calls,
        control=control_of(factory, config),
    )


@contextmanager
def _settings(
    options: argparse.Namespace, factory: EngineFactory, info: EngineInfo, started_at: str
) -> Iterator[ProbeSettings]:
    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.runner.probe import POLICY, ProbeSettings
    from pytest_jsbench.verdicts import Judge

    params = GenerationParams(
        max_tokens=options.max_tokens or factory.max_tokens, temperature=options.temperature, timeout=options.timeout
    )
    with ExitStack() as resources:
        folder = Path(resources.enter_context(TemporaryDirectory(prefix="jsbench-probe-", ignore_cleanup_errors=True)))
        admission = _admission(options, info, folder, started_at)
        resources.callback(admission.close)
        judge = resources.enter_context(Judge(POLICY))
        judge.start()
        yield ProbeSettings(factory=factory, judge=judge, admission=admission, params=params, retries=options.retries)


def _admission(options: argparse.Namespace, info: EngineInfo, folder: Path, started_at: str) -> Admission:
    """The limits of a run, for this process alone."""
    from pytest_jsbench.metrics.prices import price_at
    from pytest_jsbench.runner.limits import Admission, LimitsFile
    from pytest_jsbench.runs.records import AnsweredBy
    from pytest_jsbench.settings.plan import RateLimits

    limits = RateLimits(
        requests_per_minute=options.rpm,
        tokens_per_minute=options.tpm,
        max_cost=options.max_cost,
        patience=_PATIENCE,
    )
    who = AnsweredBy(engine=info.engine, model=info.model, provider=info.provider)
    return Admission(
        LimitsFile(folder / "limits", limits),
        price=None if options.max_cost is None else price_at(started_at, who),
        provider=f"{info.engine} {info.model}",
        concurrency=max(options.concurrency or _LEVELS),
    )


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
    return tuple(sorted({BY_NAME["concurrency"].read(part.strip()) for part in text.split(",")}))


def _known_names(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        named = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        if unknown := [name for name in named if name not in known]:
            message = f"found {unknown[0]!r}; expected one of {', '.join(known)}"
            raise ValueError(message)
        return named

    return reading(read)
