"""Provide evaluation files as Pydantic models, to read and write such files; needs the extra `pydantic`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pytest_jsbench.core.arguments import arguments
from pytest_jsbench.core.arguments import path as a_path
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.reports import run_json
from pytest_jsbench.schemas.python_types import require_pydantic

require_pydantic("an evaluation as a model")

from pydantic import (  # noqa: E402  the line above reports how to install it
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

#: Largest integer that every JSON parser represents exactly, and largest absolute value of other numbers.
_MOST = 2**53 - 1
_GREATEST = 1e15


def _to_integer(value: object) -> object:
    """Convert a number such as 32.0, which is an integer in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[Annotated[int, Field(ge=0, le=_MOST)] | None, BeforeValidator(_to_integer)]
Share = Annotated[float, Field(ge=0, le=1)] | None
Figure = Annotated[float, Field(ge=-_GREATEST, le=_GREATEST)]
#: Value of a metric without its own field: a number, a group of numbers, bounds of an interval (`<name>_ci`), or text.
OtherMetric = (
    Figure | dict[str, Figure | None] | Annotated[list[Figure], Field(min_length=2, max_length=2)] | str | bool | None
)
#: Metrics that a file must all contain if it contains one of the counts `num_…` or `coord_error_count`.
_TOGETHER = ("num_episodes", "num_steps", "action_type_accuracy", "coord_error_count", "episode_success_rate")


def _publish(schema: dict[str, Any]) -> None:
    """Add checks that the model's fields cannot express to its JSON Schema."""
    schema["additionalProperties"] = TypeAdapter(OtherMetric).json_schema()
    schema["minProperties"] = 1
    counts = ("num_episodes", "num_steps", "coord_error_count")
    schema["dependentRequired"] = {name: [other for other in _TOGETHER if other != name] for name in counts}


class EvalMetrics(BaseModel):
    """
    Metrics of an evaluation, as published in `evaluation.schema.json`; None means not applicable.

    Further metrics are kept, and are attributes too: `metrics.pass_rate`. A retired metric, written as -1, is read as
    None. Metrics that count episodes, steps or clicks require all metrics of their group.
    """

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True, json_schema_extra=_publish)

    num_episodes: Count = None
    """Number of evaluated episodes."""
    num_steps: Count = None
    """Number of steps of all episodes."""
    action_type_accuracy: Share = None
    """Share of steps with the right kind of action."""
    mean_coord_error: Annotated[float, Field(ge=0, le=_GREATEST)] | None = None
    """Mean distance of clicks from their targets."""
    coord_error_count: Count = None
    """Number of clicks with coordinates."""
    episode_success_rate: Share = None
    """Share of episodes in which every step was right."""
    click_hit_rate: Share = None
    """Share of clicks near their target."""
    bbox_hit_rate: Share = None
    """Share of clicks inside their element."""
    mean_episode_progress: Share = None
    """Mean share of right steps per episode."""
    mean_episode_step_score: Share = None
    """Mean share of completely right steps per episode."""
    weak_episode_success_rate: Share = None
    """Share of episodes that reached every milestone."""
    state_success_rate: Share = None
    """Share of episodes that ended in the right state."""
    element_accuracy: Share = None
    """Share of elements that were chosen correctly."""

    @model_validator(mode="before")
    @classmethod
    def _read_retired(cls, data: Any) -> Any:
        return run_json.without_retired(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_as_published(self) -> EvalMetrics:
        """
        Check rules that the fields cannot express: valid values of other metrics, and the presence of
        all metrics that belong together.
        """
        if problems := run_json.metric_problems(self.model_dump(exclude_unset=True)):
            raise ValueError("; ".join(problems))
        return self


class EvalOutput(BaseModel):
    """
    The stable evaluation JSON, which any project may write; jsbench compare, plot and migrate read it.

    Metrics are added, never removed; null means not applicable, and is not 0. run.json is such a file with additional
    content. Unknown content is kept.
    """

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)

    schema_version: str = "1.0"
    """Version of the format; 1.0 if missing."""
    config_path: str
    """Configuration of the evaluation; 'unknown' if it was not recorded."""
    backend: str
    """Backend that answered; 'unknown' if it was not recorded."""
    dsl_mode: str = "coord"
    """How actions are specified: `coord` (the default) or `som`; written by other projects, not used here."""
    metrics: EvalMetrics
    """Metrics by name; an object of numbers is a group. Documented names have a fixed meaning; other names depend on
    the project."""


@arguments(path=a_path)
def load_evaluation(path: str | Path) -> EvalOutput:
    """
    Load the evaluation from a file, a run's directory, or the newest run in a directory; raise JSBenchError if invalid.

    A file that contains only metrics is read as `jsbench migrate` would write it.
    """
    path = run_json.each_run(Path(path))[-1]
    data = run_json.load(path / "run.json" if path.is_dir() else path)
    try:
        return EvalOutput.model_validate(run_json.migrate(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{path}: {place}: {first['msg']} (found {first['input']!r:.40})"
        raise RecordError(message, found=first["input"], expected=first["msg"], where=f"{path}: {place}") from error
