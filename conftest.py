import pytest

pytest.register_assert_rewrite("tests.support")

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-snapshots", action="store_true", help="write the files of tests/snapshots anew")
