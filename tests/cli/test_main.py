from __future__ import annotations

import re

import pytest

from pytest_jsbench.cli.main import main


def test_without_a_command_each_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert re.search(r"^ +judge +judge the answers of a run again", capsys.readouterr().err, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--cases", "x"], "jsbench plan: --cases: invalid int value: 'x'; see jsbench plan --help\n"),
        (["history", "add"], "jsbench history add: the following arguments are required: RUN, --file; see jsbench"),
        (["history", "--last", "0"], "jsbench history: --last: expected a whole number of at least 1, found '0'; see"),
        (["merge", "a", "-o=b", "--gate=--jsbench-x"], "jsbench: --gate: expected METRIC OP VALUE, such as pass_rate"),
        (["prob\x1b", "--limit=3"], "jsbench: unknown command 'prob\\x1b': did you mean 'probe'? (one of "),
        (
            ["plan", "--caes=3\x1b[2J"],
            "jsbench plan: unrecognized arguments: --caes=3\\x1b[2J; see jsbench plan --help\n",
        ),
    ],
)
def test_arguments_that_no_command_takes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(arguments)
    except SystemExit as end:
        status = end.code

    assert status == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
