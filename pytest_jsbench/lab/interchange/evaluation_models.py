"""An evaluation file as Pydantic models, for programs that read and write such files; needs the extra `pydantic`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pytest_jsbench.core.arguments import arguments
from pytest_jsbench.core.arguments import path as a_path
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.lab.interchange import evaluation_files
from pytest_jsbench.reports import evaluations
from pytest_jsbench.schemas.python_types import require_pydantic

require_pydantic("an evaluation as a model")

from pydantic import (  # noqa: E402  where it is not there, the line above says how to get it
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
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


class EvalMetrics(BaseModel):
    """
    The metrics of an evaluation, as `evaluation.schema.json` publishes them; None means not applicable.

    Metrics of other names are kept as they are, and are attributes too: `metrics.pass_rate`. A metric that its project
    has retired, written as -1, is read as None. One that counts episodes, steps or clicks has all that is always there.
    """

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)

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
        return evaluations.without_retired(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_as_published(self) -> EvalMetrics:
        """Check the metrics of other names, and that those are there which always are: the fields do not say it."""
        if problems := evaluation_files.metric_problems(self.model_dump(exclude_unset=True)):
            raise ValueError("; ".join(problems))
        return self


class EvalOutput(BaseModel):
    """An evaluation file: what was evaluated and how, and its metrics; what else a file holds is kept."""

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)

    config_path: str
    """The configuration of the evaluation; `unknown` where it was not kept."""
    backend: str
    """What answered; `unknown` where it was not kept."""
    dsl_mode: str = "coord"
    """How actions are given: `coord` or `som`; of other projects, not used here."""
    metrics: EvalMetrics


@arguments(path=a_path)
def load_evaluation(path: str | Path) -> EvalOutput:
    """
    The evaluation in a file, a run's folder, or the newest in a folder of runs; JSBenchError names what is wrong.

    A file of bare metrics is read as `jsbench migrate` would write it.
    """
    path = evaluations.each_run(Path(path))[-1]
    data = evaluations.load(path / "run.json" if path.is_dir() else path)
    try:
        return EvalOutput.model_validate(evaluation_files.migrate(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"{path}: {place}: {first['msg']} (found {first['input']!r:.40})"
        raise RecordError(message, found=first["input"], expected=first["msg"], where=f"{path}: {place}") from error
