from __future__ import annotations

import pytest

from pytest_jsbench.lab.interchange.evaluation_files import Aggregate, aggregate

SMALL: dict[str, float | None] = {"num_steps": 10, "action_type_accuracy": 1.0, "click_hit_rate": None, "f1": 0.5}
LARGE: dict[str, float | None] = {"num_steps": 30, "action_type_accuracy": 0.5, "f1": 0.7}


def of(name: str, found: list[Aggregate]) -> Aggregate:
    return next(one for one in found if one.metric == name)


def test_a_mean_weighs_files_alike_and_a_weighted_mean_all_that_is_counted() -> None:
    found = of("action_type_accuracy", aggregate([SMALL, LARGE]))

    assert found.mean == 0.75
    assert (found.weighted_mean, found.weight, found.weighted) == (0.625, "num_steps", 2)


def test_a_null_is_left_out_and_counted_and_is_no_zero() -> None:
    found = aggregate([SMALL, LARGE, {"click_hit_rate": 0.4, "coord_error_count": 5}])

    clicks = of("click_hit_rate", found)
    assert (clicks.mean, clicks.values, clicks.nulls, clicks.absent) == (0.4, 1, 1, 1)
    assert of("f1", found).absent == 1


def test_a_metric_that_is_null_everywhere_has_no_mean() -> None:
    found = of("click_hit_rate", aggregate([{"click_hit_rate": None}]))

    assert (found.mean, found.weighted_mean, found.nulls) == (None, None, 1)


def test_a_value_without_the_count_that_it_is_a_share_of_is_in_no_weighted_mean() -> None:
    found = of("action_type_accuracy", aggregate([SMALL, LARGE, {"action_type_accuracy": 0.0}]))

    assert (found.mean, found.values) == (0.5, 3)
    assert (found.weighted_mean, found.weighted) == (0.625, 2)


def test_one_count_can_weigh_every_metric() -> None:
    assert of("f1", aggregate([SMALL, LARGE])).weighted_mean is None
    assert of("f1", aggregate([SMALL, LARGE], weight="num_steps")).weighted_mean == pytest.approx(0.65)


def test_bounds_and_percentiles_are_not_averaged_and_means_go_by_what_was_timed() -> None:
    ours: list[dict[str, float | None]] = [
        {"pass_rate": 0.5, "pass_rate_ci_low": 0.1, "planned": 1, "tgt_mean": 1.0, "tgt_p50": 1.0, "tgt_count": 1},
        {"pass_rate": 1.0, "pass_rate_ci_low": 0.9, "planned": 3, "tgt_mean": 2.0, "tgt_p50": 2.0, "tgt_count": 4},
    ]

    found = aggregate(ours)

    assert [one.metric for one in found] == ["pass_rate", "planned", "tgt_mean", "tgt_count"]
    assert [one.weighted_mean for one in found] == [0.875, None, 1.8, None]
