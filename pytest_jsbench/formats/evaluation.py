"""An evaluation file, as any project may write it: `evaluation.schema.json` is made from these types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from pytest_jsbench.core.json_values import Count, Fraction, written

UNKNOWN = "unknown"
_Figure = Annotated[float, Meta(ge=-1e15, le=1e15)]
#: of an interval, of a metric <name>_ci; msgspec crashes on a pair in a union (0.22)
_Bounds = Annotated[tuple[_Figure, ...], Meta(min_length=2, max_length=2)]
_Metric = _Figure | Mapping[str, _Figure | None] | _Bounds | str | bool | None
#: metrics that are there together, where a file has any of them that is a count
TOGETHER = ("num_episodes", "num_steps", "action_type_accuracy", "coord_error_count", "episode_success_rate")


class EvaluationFile(Struct, frozen=True, kw_only=True):
    """
    The stable evaluation JSON that any project may write, and that jsbench compare, plot and migrate read.

    Metrics are added, never removed; null means not applicable, and is not 0. run.json is one, with more beside.
    """

    #: which shape; 1.0 where it is missing
    schema_version: str = "1.0"
    #: the configuration of the evaluation; 'unknown' where it was not kept
    config_path: str = written(UNKNOWN)
    #: what answered; 'unknown' where it was not kept
    backend: str = written(UNKNOWN)
    #: of other projects, coord where it is missing; not used here
    dsl_mode: str = "coord"
    #: figures by name; an object of figures is a group. A name that stands here holds what it says; any other is left
    #: to its project
    metrics: Annotated[Mapping[str, _Metric], Meta(min_length=1)]


class EpisodeMetrics(Struct, frozen=True, kw_only=True):
    """The metrics whose names mean the same in every evaluation file; None means not applicable."""

    #: episodes that were evaluated
    num_episodes: Count | None = None
    #: steps of all episodes
    num_steps: Count | None = None
    #: steps with the right kind of action
    action_type_accuracy: Fraction | None = None
    #: mean distance of a click from its target
    mean_coord_error: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    #: clicks with a place
    coord_error_count: Count | None = None
    #: episodes of which every step was right
    episode_success_rate: Fraction | None = None
    #: clicks near their target
    click_hit_rate: Fraction | None = None
    #: clicks inside their element
    bbox_hit_rate: Fraction | None = None
    #: right steps of an episode, on average
    mean_episode_progress: Fraction | None = None
    #: wholly right steps of an episode, on average
    mean_episode_step_score: Fraction | None = None
    #: episodes that reached every milestone
    weak_episode_success_rate: Fraction | None = None
    #: episodes that ended in the right state
    state_success_rate: Fraction | None = None
    #: elements that were chosen rightly
    element_accuracy: Fraction | None = None
