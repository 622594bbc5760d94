"""Define what a run asks for: the values of all its options, and of the options that its variants have separately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.load_options import LoadOptions
from pytest_jsbench.settings.option import Values
from pytest_jsbench.settings.options import (
    CaseOptions,
    ExecutionOptions,
    GateOptions,
    JudgingOptions,
    LimitOptions,
    OutputOptions,
    RecordingOptions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The values of all options of a run, for every entry point."""

    #: Options of each variant by its name; a run without variants has one entry, without a name.
    asks: Mapping[str, Ask] = field(default_factory=dict)
    cases: CaseOptions = field(default_factory=CaseOptions)
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    load: LoadOptions = field(default_factory=LoadOptions)
    recordings: RecordingOptions = field(default_factory=RecordingOptions)
    judging: JudgingOptions = field(default_factory=JudgingOptions)
    gates: GateOptions = field(default_factory=GateOptions)
    outputs: OutputOptions = field(default_factory=OutputOptions)

    @classmethod
    def of(cls, values: Values, variants: Mapping[str, Values]) -> RunSpec:
        """Return the spec of a run with these option values, by name, for the run and for each variant."""
        return cls(
            asks={name: Ask(of_variant) for name, of_variant in variants.items()},
            cases=CaseOptions(values),
            execution=ExecutionOptions(values),
            limits=LimitOptions(values),
            load=LoadOptions(values),
            recordings=RecordingOptions(values),
            judging=JudgingOptions(values),
            gates=GateOptions(values),
            outputs=OutputOptions(values),
        )

    def recorded_options(self, variant: str) -> dict[str, str | int | float | bool]:
        """
        Return the options that are set for a variant and affect the run, but have no field of their own in its
        metadata: numbers, switches and texts by name.
        """
        ask = [self.asks[variant]] if variant in self.asks else []
        shared = (self.cases, self.execution, self.limits, self.load, self.recordings, self.judging)
        recorded: dict[str, str | int | float | bool] = {}
        for group in (*ask, *shared, self.gates, self.outputs):
            for name, option in group.options.items():
                value = getattr(group, name)
                if option.affects is not None and not option.recorded and value != option.default:
                    recorded[name] = value if isinstance(value, bool | int | float) else str(value)
        return recorded
