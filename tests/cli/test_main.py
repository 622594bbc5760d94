from __future__ import annotations

import re

import pytest

from pytest_jsbench.cli.main import main


def test_without_a_command_each_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert re.search(r"^ +judge +judge recorded answers again", capsys.readouterr().err, re.MULTILINE)
