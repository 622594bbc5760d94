"""An evaluation file as Pydantic models, for programs that read and write such files; needs the extra `pydantic`."""

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

from pydantic import (  # noqa: E402  where it is not there, the line above says how to get it
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

#: the greatest whole number that every JSON reader keeps, and the greatest figure
_MOST, _GREATEST = 2**53 - 1, 1e15


def _whole(value: object) -> object:
    """A number such as 32.0 is whole in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[Annotated[int, Field(ge=0, le=_MOST)] | None, BeforeValidator(_whole)]
Share = Annotated[float, Field(ge=0, le=1)] | None
Figure = Annotated[float, Field(ge=-_GREATEST, le=_GREATEST)]
#: a metric of another name: a figure, a group of them, the bounds of an interval (of a metric <name>_ci), or words
OtherMetric = (
    Figure | dict[str, Figure | None] | Annotated[list[Figure], Field(min_length=2, max_length=2)] | str | bool | None
)
#: metrics that are there together, where a file has one of them that is a count
_TOGETHER = ("num_episodes", "num_steps", "action_type_accuracy", "coord_error_count", "episode_success_rate")


def _publish(schema: dict[str, Any]) -> None:
    """Add to the JSON Schema of metrics what is checked by that and not by the fields, so that all else is kept."""
    schema["additionalProperties"] = TypeAdapter(OtherMetric).json_schema()
    schema["minProperties"] = 1
    counts = ("num_episodes", "num_steps", "coord_error_count")
    schema["dependentRequired"] = {name: [other for other in _TOGETHER if other != name] for name in counts}


class EvalMetrics(BaseModel):
    """
    The metrics of an evaluation, as `evaluation.schema.json` publishes them; None means not applicable.

    Metrics of other names are kept as they are, and are attributes too: `metrics.pass_rate`. A metric that its project
    has retired, written as -1, is read as None. One that counts episodes, steps or clicks has all that is always there.
    """

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True, json_schema_extra=_publish)

    num_episodes: Count = None
    """Episodes that were evaluated."""
    num_steps: Count = None
    """Steps of all episodes."""
    action_type_accuracy: Share = None
    """Steps with the right kind of action."""
    mean_coord_error: Annotated[float, Field(ge=0, le=_GREATEST)] | None = None
    """Mean distance of a click from its target."""
    coord_error_count: Count = None
    """Clicks with a place."""
    episode_success_rate: Share = None
    """Episodes of which every step was right."""
    click_hit_rate: Share = None
    """Clicks near their target."""
    bbox_hit_rate: Share = None
    """Clicks inside their element."""
    mean_episode_progress: Share = None
    """Right steps of an episode, on average."""
    mean_episode_step_score: Share = None
    """Wholly right steps of an episode, on average."""
    weak_episode_success_rate: Share = None
    """Episodes that reached every milestone."""
    state_success_rate: Share = None
    """Episodes that ended in the right state."""
    element_accuracy: Share = None
    """Elements that were chosen rightly."""

    @model_validator(mode="before")
    @classmethod
    def _read_retired(cls, data: Any) -> Any:
        return run_json.without_retired(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_as_published(self) -> EvalMetrics:
        """Check the metrics of other names, and that those are there which always are: the fields do not say it."""
        if problems := run_json.metric_problems(self.model_dump(exclude_unset=True)):
            raise ValueError("; ".join(problems))
        return self


class EvalOutput(BaseModel):
    """
    The stable evaluation JSON that any project may write, and that jsbench compare, plot and migrate read.

    Metrics are added, never removed; null means not applicable, and is not 0. run.json is one, with more beside. What
    else a file holds is kept.
    """

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)

    schema_version: str = "1.0"
    """Which shape; 1.0 where it is missing."""
    config_path: str
    """The configuration of the evaluation; 'unknown' where it was not kept."""
    backend: str
    """What answered; 'unknown' where it was not kept."""
    dsl_mode: str = "coord"
    """How actions are given: `coord`, also where it is missing, or `som`; of other projects, not used here."""
    metrics: EvalMetrics
    """Figures by name; an object of figures is a group. A name that stands here holds what it says; any other is left
    to its project."""


@arguments(path=a_path)
def load_evaluation(path: str | Path) -> EvalOutput:
    """
    The evaluation in a file, a run's folder, or the newest in a folder of runs; JSBenchError names what is wrong.

    A file of bare metrics is read as `jsbench migrate` would write it.
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
