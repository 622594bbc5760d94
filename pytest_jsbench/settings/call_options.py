"""Define the options of what is sent to an engine, and how; each variant of a run may have its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.arguments import join_names, number, numeral, path, whole
from pytest_jsbench.settings import parsers
from pytest_jsbench.settings.option import Bearing, FileUse, HiddenPart, Option, OptionGroup, PerVariant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_jsbench.core.generations import ResponseFormat

#: Options of an engine that a run does not record completely, so that they are given again to call it later.
CONNECTION_OPTIONS = ("engine", "model", "base_url", "api_key_env", "response_format")
_SECONDS = number("seconds above 0", above=0)


class EngineOptions(OptionGroup, heading="Engine and model"):
    """Which engine is called, and how; each variant of a run may have its own."""

    engine: Option[str | None] = Option(
        "Engine to test, one test per JSON Schema. Engines: local, openai, anthropic, gemini, llguidance, outlines, "
        "xgrammar, replay, application, scripted, the engine of an installed package, or package.module:Factory. "
        "Without an engine, the plugin does nothing.",
        "NAME",
        variants=PerVariant.OWN,
        affects=Bearing.ANSWERS,
        recorded=("engine",),
    )
    model: Option[str | None] = Option(
        "Model name; for local, a GGUF file (default: the engine's default model).",
        "ID",
        argument=path,
        file=FileUse.MAYBE,
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("model",),
    )
    base_url: Option[str | None] = Option(
        "Base URL of a server that is compatible with the engine's API.",
        "URL",
        hidden=HiddenPart.CREDENTIALS,
        variants=PerVariant.MULTIPLIED,
    )
    api_key_env: Option[str | None] = Option(
        "Environment variable with the API key (default: the provider's usual variable).",
        "VAR",
        variants=PerVariant.OWN,
    )
    response_format: Option[ResponseFormat | None] = Option(
        "How to pass the schema to the engine (default: the strictest format that the engine supports).",
        choices=("text", "json_object", "json_schema", "tool"),
        parse=parsers.response_format,
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("response_format",),
    )
    tool_choice: Option[str | None] = Option(
        "Which of its tools a case that offers tools lets the model call: auto (the model decides), required (at "
        "least one), none, or the name of a tool (default: the case's own choice, or auto).",
        "CHOICE",
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("params.tool_choice",),
    )
    temperature: Option[float | None] = Option(
        "Sampling temperature (default: not sent; local: 0).",
        "T",
        check=number("a number of at least 0", least=0),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("params.temperature",),
    )
    max_tokens: Option[int | None] = Option(
        "Maximum number of tokens of an answer (default: 2048; local: 192).",
        "N",
        check=whole(1),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("params.max_tokens",),
    )
    seed: Option[int | None] = Option(
        "Sampling seed of the first attempt; attempt n of a case uses seed + n - 1 (default: not sent).",
        "N",
        check=whole(0),
        variants=PerVariant.OWN,
        affects=Bearing.ANSWERS,
        recorded=("params.seed",),
    )
    engine_option: Option[Sequence[tuple[str, Any]]] = Option(
        "Any other option of the engine; repeatable. VALUE is parsed as JSON if possible.",
        "KEY=VALUE",
        parse=parsers.assignment,
        hidden=HiddenPart.VALUE,
        file=FileUse.MAYBE,
        repeated=True,
        default=(),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("details",),
    )
    timeout: Option[float] = Option(
        "Timeout of one call in seconds, without retries (default: 120).",
        "S",
        check=_SECONDS,
        default=120.0,
        affects=Bearing.TIMES,
        recorded=("params.timeout",),
    )
    concurrency: Option[int | None] = Option(
        "Maximum number of calls in flight per process (default: 16 or the engine's own; local: 4 over all processes).",
        "N",
        check=whole(1),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.TIMES,
        recorded=("concurrency",),
    )


class PromptOptions(OptionGroup, heading="Prompt and schema"):
    """What is sent for a case; each variant of a run may have its own."""

    adapt: Option[tuple[str, str]] = Option(
        "verbatim (default): send the schema unchanged. narrow: rewrite the schema into the provider's subset of JSON "
        "Schema, so that each answer that conforms to the result also conforms to the original; if this is "
        "impossible, report unsupported_schema without a call. relax: omit constraints that the subset cannot "
        "express, and record the changes. SUBSET: a subset such as openai, anthropic or gemini (default: the subset "
        "of the engine). The judge always uses the original schema.",
        "MODE[:SUBSET]",
        parse=parsers.adaptation,
        default=("verbatim", ""),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("adapt",),
    )
    rewrite: Option[tuple[str, ...] | None] = Option(
        "Also run each case with its schema rewritten into one that accepts the same answers, as another variant: "
        "order[:SEED] (properties, required names and enum values in another order) or inline (definitions in place of "
        "$ref). A case that cannot be rewritten is skipped in that variant. Repeatable.",
        "order|inline,…",
        parse=parsers.rewritings,
        argument=join_names,
        variants=PerVariant.OWN,
        affects=Bearing.ANSWERS,
        recorded=("rewrite",),
    )
    prompt: Option[Any] = Option(
        "Name of a prompt: schema (default), fields, chat, or a prompt from an installed package; a Jinja2 file; or "
        "package.module:function, which takes a case and returns text, messages or a Prompt.",
        "NAME",
        default="schema",
        file=FileUse.MAYBE,
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("prompt",),
    )
    shots: Option[int] = Option(
        "Number of examples before the case's prompt, chosen by task, up to 3 (default: 0).",
        "N",
        check=whole(0),
        default=0,
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("shots",),
    )
    context: Option[int | None] = Option(
        "Context length of the model in tokens, for prompt and answer together. A case whose prompt alone fills "
        "it counts as unsupported_schema, without a call (default: unknown, every prompt is sent; local: the model's).",
        "N",
        check=whole(1),
        variants=PerVariant.OWN,
        affects=Bearing.ANSWERS,
    )
    repairs: Option[tuple[int, str] | None] = Option(
        "Ask again for a wrong answer, up to N times in the same conversation, with what the judge found (errors) or, "
        "as a control, without it (blind). The first answer alone decides the verdict; the summary shows the pass rate "
        "after each try, with tokens, cost and time (default: 0; errors).",
        "N[:errors|blind]",
        parse=parsers.repairs,
        argument=numeral,
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("repairs",),
    )


class Ask(EngineOptions, PromptOptions):
    """What is sent to which engine, and how; each variant of a run has its own."""
