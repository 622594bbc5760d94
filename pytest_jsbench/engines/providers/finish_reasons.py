"""
Finish reasons in each wire format, with their meanings, the servers that send them, and sources.

A finish reason that is not in a table, or that is listed as unknown, does not show whether the answer is complete. An
answer with an unknown finish reason is judged only if it is a complete document; otherwise, it does not count as the
model's failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_jsbench.core.generations import DeclineReason, FaultKind, FinishReason
from pytest_jsbench.core.text import printable

#: Meaning of a finish reason: why the text ended, the kind of fault if there is no answer, or a refusal.
Meaning = FinishReason | FaultKind | DeclineReason
#: Placeholder for a missing finish reason.
NOT_GIVEN = "(none)"
#: Maximum length of an unknown finish reason in records, in characters.
_LONGEST_WORD = 60
#: Month in which the sources were read.
DATE = "2026-11"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRow:
    """Finish reasons with the same meaning, and the servers that send them."""

    words: tuple[str, ...]
    meaning: Meaning
    servers: str
    source: str


@dataclass(frozen=True, kw_only=True)
class FinishReasons:
    """The finish reasons of a wire format, with their meanings."""

    #: Name of the wire format in the documentation.
    title: str
    #: Name of the field with the finish reason.
    field: str
    rows: tuple[FinishRow, ...]

    @cached_property
    def _meanings(self) -> dict[str, Meaning]:
        return {_normalize_word(word): row.meaning for row in self.rows for word in row.words}

    def meaning(self, word: str) -> Meaning:
        """Return the meaning of a finish reason, or UNKNOWN if it is not listed; case, `-` and `_` are ignored."""
        return self._meanings.get(_normalize_word(word), FinishReason.UNKNOWN)

    def with_additions(self, own: Mapping[str, Meaning], *, server: str, source: str) -> FinishReasons:
        """Return these finish reasons, with additions and replacements for one server."""
        rows = (
            FinishRow(words=(word,), meaning=meaning, servers=server, source=source) for word, meaning in own.items()
        )
        return FinishReasons(title=self.title, field=self.field, rows=(*self.rows, *rows))


def _normalize_word(word: str) -> str:
    return word.strip().lower().replace("-", "_")


def format_word(word: object) -> str:
    """Return a server's finish reason for printing: one line, of limited length."""
    return printable(word if isinstance(word, str) else str(word), _LONGEST_WORD)


def read_meaning(text: str) -> Meaning:
    """Parse the name of a meaning; raise ValueError for any other text."""
    for kind in (FinishReason, FaultKind):
        if text in list(kind):
            return kind(text)
    if text == DeclineReason.REFUSAL:
        return DeclineReason.REFUSAL
    raise ValueError(f"'{text}' is not a known meaning of a finish reason")


_OPENAI = "openai 3.57, chat_completion.Choice"
_VLLM = "vllm-project/vllm, vllm/v1/engine/__init__.py"
_SGLANG = "sgl-project/sglang, managers/schedule_batch.py"
_MISTRAL = "mistralai 3.7, ChatCompletionChoice"
_DEEPSEEK = "https://api-docs.deepseek.com/api/create-chat-completion"
_TGI = "huggingface/text-generation-inference, FinishReason"
_GATEWAYS = "BerriAI/litellm, map_finish_reason"

CHAT_FINISH = FinishReasons(
    title="Chat Completions",
    field="finish_reason",
    rows=(
        FinishRow(
            words=("stop", "tool_calls", "function_call"), meaning=FinishReason.STOP, servers="all", source=_OPENAI
        ),
        FinishRow(words=("length",), meaning=FinishReason.LENGTH, servers="all", source=_OPENAI),
        FinishRow(
            words=("content_filter",),
            meaning=FinishReason.CONTENT_FILTER,
            servers="OpenAI, Azure, DeepSeek, OpenRouter",
            source=_OPENAI,
        ),
        FinishRow(words=("model_length",), meaning=FinishReason.LENGTH, servers="Mistral", source=_MISTRAL),
        FinishRow(
            words=("error",),
            meaning=FaultKind.SERVER,
            servers="Mistral, OpenRouter, Together AI, vLLM",
            source=f"{_MISTRAL}; {_VLLM}; togethercomputer/together-python#153",
        ),
        FinishRow(
            words=("abort", "aborted"),
            meaning=FaultKind.SERVER,
            servers="vLLM, SGLang",
            source=f"{_VLLM}; {_SGLANG}; vllm-project/vllm#57082",
        ),
        FinishRow(words=("repetition",), meaning=FinishReason.LENGTH, servers="vLLM", source=_VLLM),
        FinishRow(
            words=("insufficient_system_resource",), meaning=FaultKind.SERVER, servers="DeepSeek", source=_DEEPSEEK
        ),
        FinishRow(
            words=("load", "unload"),
            meaning=FaultKind.SERVER,
            servers="Ollama",
            source="ollama/ollama, server/routes.go: nothing was generated",
        ),
        FinishRow(
            words=("eos", "eos_token", "stop_sequence"),
            meaning=FinishReason.STOP,
            servers="Together AI, TGI",
            source=f"{_TGI}; Together's API reference for chat completions",
        ),
        FinishRow(
            words=("end_turn", "tool_use", "tool_call", "complete"),
            meaning=FinishReason.STOP,
            servers="gateways to Anthropic, Bedrock and Cohere",
            source=_GATEWAYS,
        ),
        FinishRow(
            words=("max_tokens", "max_output_tokens", "max_length", "model_context_window_exceeded"),
            meaning=FinishReason.LENGTH,
            servers="gateways to Anthropic, Bedrock, Cohere and Gemini",
            source=_GATEWAYS,
        ),
        FinishRow(
            words=("content_filtered", "guardrail_intervened", "safety", "recitation", "error_toxic"),
            meaning=FinishReason.CONTENT_FILTER,
            servers="gateways to Bedrock, Cohere and Gemini",
            source=_GATEWAYS,
        ),
        FinishRow(words=("refusal",), meaning=DeclineReason.REFUSAL, servers="gateways to Anthropic", source=_GATEWAYS),
        FinishRow(
            words=("malformed_function_call",),
            meaning=FinishReason.REJECTED,
            servers="gateways to Gemini",
            source="google-genai 3.6, FinishReason",
        ),
        FinishRow(
            words=("cancelled", "canceled", "user_cancel", "error_limit", "failed"),
            meaning=FaultKind.SERVER,
            servers="gateways to Cohere",
            source=_GATEWAYS,
        ),
        FinishRow(words=("timeout",), meaning=FaultKind.TIMEOUT, servers="gateways to Cohere", source=_GATEWAYS),
    ),
)

_RESPONSES = "openai 3.57, Response.status and IncompleteDetails.reason"
RESPONSES_FINISH = FinishReasons(
    title="Responses",
    field="incomplete_details.reason, or else status",
    rows=(
        FinishRow(words=("completed",), meaning=FinishReason.STOP, servers="all", source=_RESPONSES),
        FinishRow(
            words=("max_output_tokens", "max_tokens", "length"),
            meaning=FinishReason.LENGTH,
            servers="all; `max_tokens` and `length` only from gateways",
            source=_RESPONSES,
        ),
        FinishRow(
            words=("content_filter",), meaning=FinishReason.CONTENT_FILTER, servers="OpenAI, Azure", source=_RESPONSES
        ),
        FinishRow(words=("max_messages", "steered"), meaning=FinishReason.UNKNOWN, servers="OpenAI", source=_RESPONSES),
        FinishRow(
            words=("failed", "cancelled", "error", "abort"), meaning=FaultKind.SERVER, servers="all", source=_RESPONSES
        ),
        FinishRow(words=("in_progress", "queued"), meaning=FaultKind.BAD_RESPONSE, servers="all", source=_RESPONSES),
    ),
)

_ANTHROPIC = "anthropic 2.14, StopReason and BetaStopReason"
MESSAGES_FINISH = FinishReasons(
    title="Messages",
    field="stop_reason",
    rows=(
        FinishRow(
            words=("end_turn", "stop_sequence", "tool_use"), meaning=FinishReason.STOP, servers="all", source=_ANTHROPIC
        ),
        FinishRow(
            words=("max_tokens", "model_context_window_exceeded"),
            meaning=FinishReason.LENGTH,
            servers="all",
            source=_ANTHROPIC,
        ),
        FinishRow(words=("refusal",), meaning=DeclineReason.REFUSAL, servers="Anthropic", source=_ANTHROPIC),
        FinishRow(
            words=("pause_turn", "compaction"), meaning=FinishReason.UNKNOWN, servers="Anthropic", source=_ANTHROPIC
        ),
        FinishRow(
            words=("abort", "error"),
            meaning=FaultKind.SERVER,
            servers="vLLM, SGLang and gateways",
            source=f"{_VLLM}; {_SGLANG}",
        ),
        FinishRow(
            words=("content_filtered", "guardrail_intervened"),
            meaning=FinishReason.CONTENT_FILTER,
            servers="gateways to Bedrock",
            source="Bedrock's StopReason",
        ),
        FinishRow(words=("stop",), meaning=FinishReason.STOP, servers="gateways to OpenAI", source=_GATEWAYS),
        FinishRow(words=("length",), meaning=FinishReason.LENGTH, servers="gateways to OpenAI", source=_GATEWAYS),
    ),
)

_GEMINI = "google-genai 3.6, FinishReason"
GEMINI_FINISH = FinishReasons(
    title="generateContent",
    field="finishReason",
    rows=(
        FinishRow(words=("STOP",), meaning=FinishReason.STOP, servers="Gemini", source=_GEMINI),
        FinishRow(
            # CONTINUATION means that the limit of one request is reached; the rest of the answer could be requested.
            words=("MAX_TOKENS", "CONTINUATION"),
            meaning=FinishReason.LENGTH,
            servers="Gemini",
            source=_GEMINI,
        ),
        FinishRow(
            words=(
                "SAFETY",
                "RECITATION",
                "LANGUAGE",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "ESCALATION",
                "MODEL_ARMOR",
                "IMAGE_SAFETY",
                "IMAGE_PROHIBITED_CONTENT",
                "IMAGE_RECITATION",
            ),
            meaning=FinishReason.CONTENT_FILTER,
            servers="Gemini",
            source=_GEMINI,
        ),
        FinishRow(
            # The model's text is not a valid tool call; the text is only in the error message, or not sent at all.
            words=("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"),
            meaning=FinishReason.REJECTED,
            servers="Gemini",
            source=_GEMINI,
        ),
        # The provider's own tool loop stopped before there was an answer.
        FinishRow(words=("TOO_MANY_TOOL_CALLS",), meaning=FaultKind.SERVER, servers="Gemini", source=_GEMINI),
        FinishRow(
            words=("MISSING_THOUGHT_SIGNATURE",), meaning=FaultKind.BAD_REQUEST, servers="Gemini", source=_GEMINI
        ),
        # The account is limited or disabled.
        FinishRow(words=("PUP_LIMITED_DISABLED",), meaning=FaultKind.AUTH, servers="Gemini", source=_GEMINI),
        FinishRow(
            words=("OTHER", "FINISH_REASON_UNSPECIFIED", "NO_IMAGE", "IMAGE_OTHER"),
            meaning=FinishReason.UNKNOWN,
            servers="Gemini",
            source=_GEMINI,
        ),
    ),
)

TABLES = (CHAT_FINISH, RESPONSES_FINISH, MESSAGES_FINISH, GEMINI_FINISH)
