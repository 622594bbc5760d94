"""Define the figures that are measured, and not judged: times, tokens and cost."""

from __future__ import annotations

from functools import cached_property

from pytest_jsbench.core.generations import Usage, tpot_ms
from pytest_jsbench.metrics.attempt_groups import timings
from pytest_jsbench.metrics.figure import (
    COUNT,
    DOLLARS,
    GRAMMAR_RUNS,
    GRAMMARS,
    RUNS,
    SUM,
    TASKS,
    TIME,
    VARIANTS,
    Better,
    FigureSet,
    metric,
)
from pytest_jsbench.metrics.statistics import Distribution

_UNREPORTED = ("errors", "unreported")


class Measurements(FigureSet):
    """Times, tokens and cost of a set of attempts."""

    @cached_property
    def tokens(self) -> Usage:
        """Sums of the token counts; an application's answers without a schema are not judged, but also cost tokens."""
        return Usage.total([attempt.usage for attempt in self._groups.attempts if attempt.usage is not None])

    @cached_property
    def without_cost(self) -> int:
        """Number of answered and declined attempts whose cost is unknown, from any engine."""
        known = self._groups.costs.attempts
        ended = (each for each in self._groups.attempts if each.answered or each.generation_type == "declined")
        return sum(attempt.attempt not in known for attempt in ended)

    # Times; files contain all parts of their distributions, and tables only the medians.

    @metric(TIME, words="Time to first token", unit="s", is_main=True, heading="TTFT (s)", tables=TASKS | VARIANTS)
    def ttft(self) -> Distribution:
        """Time from the request to the first token."""
        return timings(self._groups.completions, "ttft")

    @metric(TIME, words="Lateness of the first token", unit="s")
    def ttft_lateness(self) -> Distribution:
        """Part of `ttft` after the first token could have been read; null if not measured."""
        return timings(self._groups.completions, "ttft_lateness")

    @metric(TIME, words="Time per output token", unit="ms", is_main=True, heading="TPOT (ms)", tables=TASKS)
    def tpot(self) -> Distribution:
        """Time per output token after the first."""
        measured = (tpot_ms(attempt.timing, attempt.usage) for attempt in self._groups.completions)
        return Distribution.of(value for value in measured if value is not None)

    @metric(TIME, words="Total time", unit="s", is_main=True, heading="TGT (s)", tables=TASKS | VARIANTS | RUNS)
    def tgt(self) -> Distribution:
        """Time from the request to the end of the answer."""
        return timings(self._groups.completions, "tgt")

    @metric(TIME, words="First to last token", unit="s", heading="GCT (s)", tables=TASKS)
    def gct(self) -> Distribution:
        """Time from the first token to the end of the answer."""
        return timings(self._groups.completions, "gct")

    @metric(TIME, words="Time of reasoning", unit="s", heading="Reasoning (s)", short="Reas. (s)", tables=TASKS)
    def reasoning_time(self) -> Distribution:
        """Time from the first token of the reasoning to the first token of the answer."""
        return timings(self._groups.completions, "reasoning_time")

    @metric(
        TIME,
        words="Grammar compilation",
        unit="s",
        is_main=True,
        heading="Compile (ms)",
        scale=1e3,
        tables=GRAMMARS | GRAMMAR_RUNS,
    )
    def grammar_compilation(self) -> Distribution:
        """Time to compile the schema to a grammar and to compute the first mask."""
        return timings(self._groups.answered, "grammar_compilation")

    @metric(
        TIME,
        words="Grammar compilation without its first mask",
        unit="s",
        heading="without a mask (ms)",
        scale=1e3,
        wide_only=GRAMMARS,
    )
    def compile_time(self) -> Distribution:
        """Part of `grammar_compilation` before the first mask is computed."""
        return timings(self._groups.answered, "compile_time")

    @metric(
        TIME,
        words="Time per mask",
        unit="s",
        heading="Mask (µs)",
        scale=1e6,
        digits=1,
        tables=GRAMMAR_RUNS,
        wide_only=GRAMMARS,
    )
    def mask_time(self) -> Distribution:
        """Seconds from accepting a token to the mask for the next token, for each token of labelled answers."""
        timed = [attempt.timing for attempt in self._groups.answered if attempt.timing is not None]
        return Distribution.of(seconds for timing in timed for seconds in timing.masks)

    @metric(TIME, words="Time in the queue", unit="s")
    def queue(self) -> Distribution:
        """Seconds that an attempt waited in the queue before it was sent."""
        waited = (attempt.queue_s for attempt in self._groups.counted)
        return Distribution.of(seconds for seconds in waited if seconds is not None)

    # Sums over the attempts that reported the quantity.

    @metric(SUM, counted_open=_UNREPORTED)
    def input_tokens(self) -> int | None:
        """Tokens in the prompts."""
        return self.tokens.input_tokens

    @metric(
        SUM, counted_open=_UNREPORTED, is_main=True, heading="Tokens out", digits=0, per="reported", tables=VARIANTS
    )
    def output_tokens(self) -> int | None:
        """Tokens in the answers."""
        return self.tokens.output_tokens

    @metric(SUM, counted_open=_UNREPORTED)
    def total_tokens(self) -> int | None:
        """Tokens in the prompts and in the answers."""
        return self.tokens.total_tokens

    @metric(SUM, counted_open=_UNREPORTED)
    def cached_tokens(self) -> int | None:
        """Input tokens that were read from the provider's cache."""
        return self.tokens.cached_tokens

    @metric(SUM, counted_open=_UNREPORTED)
    def cache_write_tokens(self) -> int | None:
        """Input tokens that were written to the provider's cache."""
        return self.tokens.cache_write_tokens

    @metric(SUM, counted_open=_UNREPORTED)
    def reasoning_tokens(self) -> int | None:
        """Output tokens that are reasoning."""
        return self.tokens.reasoning_tokens

    @metric(SUM, counted_open=_UNREPORTED, better_when=Better.LOWER, heading="Runaway tokens", digits=0, tables=RUNS)
    def runaway_tokens(self) -> int | None:
        """
        Tokens in long runs of white space and in repetitions, estimated by their share of each answer's characters;
        None if no answer has any.
        """
        lost = [
            attempt.runaway_share * (attempt.usage.output_tokens - (attempt.usage.reasoning_tokens or 0))
            for attempt in self._groups.reporting
            if attempt.runaway_share and attempt.usage is not None and attempt.usage.output_tokens is not None
        ]
        return round(sum(lost)) if lost else None

    @metric(
        SUM,
        unit=DOLLARS,
        better_when=Better.LOWER,
        counted_open=("errors", "without_cost"),
        is_main=True,
        heading="Cost of 1,000",
        per="priced",
        many=1000,
        tables=VARIANTS | RUNS,
    )
    def cost(self) -> float | None:
        """
        Cost in US dollars over the attempts whose cost is known, at the prices published on the day of the run; None if
        no cost is known.
        """
        costs = self._groups.known_costs
        return sum(costs) if costs else None

    # Counts of what was reported.

    @metric(COUNT)
    def reported(self) -> int:
        """Number of attempts that reported their number of tokens."""
        return len(self._groups.reporting)

    @metric(COUNT)
    def unreported(self) -> int:
        """Number of answers that did not report their number of tokens."""
        answered = sum(attempt.answered for attempt in self._groups.attempts)
        return answered - sum(attempt.answered for attempt in self._groups.reporting)

    @metric(COUNT)
    def priced(self) -> int:
        """Number of attempts whose cost is known."""
        return len(self._groups.known_costs)

    @metric(COUNT)
    def unpriced(self) -> int:
        """Number of answers from a paid provider whose cost is unknown."""
        groups = self._groups
        return sum(attempt.attempt in groups.costs.unknown for attempt in groups.attempts)

    @metric(COUNT, better_when=Better.LOWER)
    def retries(self) -> int:
        """Number of failed calls that were retried."""
        return sum(attempt.retries for attempt in self._groups.counted)
