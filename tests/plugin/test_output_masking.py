from __future__ import annotations

import base64
import json
import os
import urllib.parse
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import anthropic_wire, openai_wire
from tests.support.anthropic_wire import error_body as anthropic_error
from tests.support.api_servers import SPEAKERS
from tests.support.bench import Bench, both_ways
from tests.support.gemini_wire import error_body as gemini_error
from tests.support.openai_wire import error_body as openai_error
from tests.support.provider import Asked, Provider, Reply, event, json_reply, raw_reply, stream_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Not in any provider's form, so that only the exact text can reveal it.
KEY = "Zq7-not-to-be-told-4411"
#: Each quotes the key, as providers do that quote the request.
REPLIES: tuple[Callable[[str], Reply], ...] = (
    lambda words: json_reply(openai_error(words, code="invalid_api_key"), status=401),
    lambda words: json_reply(anthropic_error(words, "authentication_error"), status=401),
    lambda words: json_reply(openai_error(words), status=400),
    lambda words: json_reply(gemini_error(words), status=400),
    lambda words: raw_reply(words.encode(), status=502, kind="text/html"),
    lambda words: raw_reply(words.encode(), kind="application/json"),
    lambda words: raw_reply(words.encode(), kind="text/html"),
    lambda words: stream_reply(f"data: {words}\n\n"),
    lambda words: stream_reply(f'data: {{"error": {{"message": "{words}"}}}}\n\n'),
    lambda words: stream_reply(words, reset=True),
)


VARIANT = """
[[variants]]
name = "{engine}"
engine = "{engine}"
model = "m"
base_url = "{url}"
api_key_env = "MY_KEY"
"""
NOISY = ("-vv", "-rA", "--tb=long", "--showlocals", "--log-level=DEBUG", "--log-file=log.txt", "--junitxml=junit.xml")


@pytest.mark.slow
@both_ways
def test_no_key_is_in_anything_that_is_shown_or_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    engines = ("openai", "anthropic", "anthropic-bedrock", "gemini")
    each = [next(speaker for speaker in SPEAKERS if speaker.engine == engine) for engine in engines]
    speakers = [speaker for speaker in each if find_spec(speaker.package)]
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for number in range(len(REPLIES) + 1):
        bench.case(f"c{number}")
    with ExitStack() as stack:
        providers = [stack.enter_context(Provider()) for _ in speakers]
        for provider, speaker in zip(providers, speakers, strict=True):
            provider.replies.extend(reply(f"you sent Bearer {KEY} ({KEY!r})") for reply in REPLIES)
            provider.replies.append(speaker.good())
        named = zip(speakers, providers, strict=True)
        table = "".join(VARIANT.format(engine=speaker.engine, url=provider.url) for speaker, provider in named)
        bench.write({"jsbench.toml": table})
        bench.plugins = ("benchmark",)
        result = bench.run_only(
            *("--jsbench-variants=all", "--jsbench-dataset=schemas", "--jsbench-retries=0"),
            *("--jsbench-output=out", "--benchmark-json=benchmark.json", *NOISY),
        )
        for provider in providers:
            assert any(KEY in str(asked.headers) for asked in provider.asked)
            assert len(provider.asked) == len(REPLIES) + 1
    result.assert_outcomes(failed=(len(REPLIES) + 1) * len(speakers))
    assert KEY not in result.stdout.str() + result.stderr.str()
    files = [path for path in bench.path.rglob("*") if path.is_file()]
    assert {"junit.xml", "benchmark.json", "log.txt", "records.jsonl", "run.json"} <= {path.name for path in files}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(f"--jsbench-dataset=no-such-owner/{KEY}/no-such-folder", id="a dataset"),
        pytest.param(f"--jsbench-where={KEY} >", id="a condition"),
        pytest.param(f"--jsbench-prompt=no-such-prompt-{KEY}", id="a prompt"),
        pytest.param(f"--jsbench-response-format={KEY}", id="a response format"),
    ],
)
@pytest.mark.parametrize("place", ["HF_TOKEN", "base URL"])
def test_a_usage_error_that_quotes_a_secret_is_shown_without_it(
    bench: Bench, wrong: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.case("c")
    if place == "HF_TOKEN":
        monkeypatch.setenv("HF_TOKEN", KEY)
    url = f"http://me:{KEY}@127.0.0.1:9/v1" if place == "base URL" else "http://127.0.0.1:9/v1"
    result = bench.run_only(
        *("--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={url}", "--jsbench-dataset=schemas"),
        wrong,
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = result.stdout.str() + result.stderr.str()
    assert "[key]" in shown
    assert KEY not in shown


TELLING = """
import os, pytest

KEY = os.environ["MY_KEY"]

def test_it_checks(jsbench):
    jsbench.check("{}", schema={"type": "object"})

def test_it_is_expected_to_fail():
    pytest.xfail(f"refused {KEY}")

@pytest.mark.xfail(reason=f"refused {KEY}")
def test_it_is_marked():
    assert False

@pytest.mark.xfail(reason=f"refused {KEY}", strict=True)
def test_it_passes_though_it_is_marked():
    pass

def test_it_is_skipped():
    pytest.skip(f"refused {KEY}")

def test_it_has_properties(record_property, record_testsuite_property, record_xml_attribute):
    record_property("header", f"Bearer {KEY}")
    record_property(KEY, {"header": [KEY]})
    record_testsuite_property("header", KEY)
    record_xml_attribute("header", KEY)
    record_property("number", 5)

def test_it_fails_in_parts(subtests):
    with subtests.test("part"):
        pytest.xfail(f"refused {KEY}")
    with subtests.test("part"):
        assert KEY == ""
"""


@both_ways
@pytest.mark.parametrize("broken", ["raise RuntimeError(KEY)", "pytest.skip(KEY, allow_module_level=True)"])
def test_a_key_in_a_reason_or_a_property_of_a_test_is_hidden(
    bench: Bench, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    bench.write({"test_telling.py": TELLING, "test_broken.py": TELLING.partition("def")[0] + broken})

    result = bench.run_only(
        *("--jsbench-engine=openai", "--jsbench-model=m", "--jsbench-api-key-env=MY_KEY"),
        *("--jsbench-base-url=http://127.0.0.1:9/v1", "--jsbench-output=out", "--junitxml=junit.xml", "-rA"),
        *("-W", "ignore", "--continue-on-collection-errors", "test_telling.py", "test_broken.py"),
    )

    result.stdout.fnmatch_lines(["XFAIL *refused ?key?*"])
    assert KEY not in result.stdout.str() + result.stderr.str()
    written = [path for path in bench.path.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert [path.name for path in written if KEY.encode() in path.read_bytes()] == []
    report = (bench.path / "junit.xml").read_text()
    assert '"header" value="Bearer [key]"' in report
    assert '"number" value="5"' in report


#: One for each place in which a user may put a secret; no two have a common prefix.
SECRETS = {
    "key": "Ka9-api-key-of-the-user-01",
    "password": "Pb8/pass+word:of=the-url-02",
    "query": "Qc7-token-of-the-query-03",
    "header": "Hd6-literal-header-value-04",
    "header of the environment": "Ve5-header-by-variable-05",
    "body": "Bf4-api-key-in-the-body-06",
    "third party's option": "Tg3-option-of-a-plugin-07",
    "third party's variable": "Wh2-variable-of-a-plugin-08",
    "proxy": "Xi1-password-of-a-proxy-09",
    "hub": "hf_Yj0abcdefghijklmnop10",
    "netrc": "Zk9-password-of-netrc-11",
    "ini": "Il8-secret-of-the-ini-12",
}
#: Secrets that are never sent to the server.
_ELSEWHERE = {"netrc", "third party's option", "third party's variable"}


def forms(secret: str) -> set[str]:
    """Return the secret in the forms in which a file may contain it."""
    data = secret.encode()
    coded = {base64.b64encode(b"u:"[:before] + data).decode()[4:-4] for before in range(3)}
    return {secret, urllib.parse.quote(secret, safe=""), json.dumps(secret)[1:-1], *coded}


def quoting() -> str:
    """Quote all of them, each in several encodings."""
    told = [secret for name, secret in SECRETS.items() if name not in _ELSEWHERE]
    written = [(one, base64.b64encode(f"u:{one}".encode()).decode(), *forms(one)) for one in told]
    return " ".join(word for words in written for word in words[:2] + tuple(w for w in words[2:] if "-" in w))


def hostile(asked: Asked) -> Reply:
    """Quote what was sent in one part of an answer after the other, by the number in the prompt."""
    words = quoting()
    turn = next((number for number in range(9) if f"turn {number}" in json.dumps(asked.body)), 0)
    text = json.dumps({"n": 1, "said": words})
    messages = "/messages" in asked.path
    match turn:
        case 1:
            return json_reply({"error": {"type": words, "message": words, "param": words, "code": words}}, status=400)
        case 2:
            return raw_reply(f"<title>{words}</title>{words}".encode(), status=502)
        case 3:
            nested = {"error": {"message": "no", "metadata": {"raw": words}, "details": [{"x": words}]}}
            return json_reply(nested, status=401, headers={"x-request-id": words, "set-cookie": f"a={words}"})
        case 4:
            return stream_reply(event({"error": {"message": words, "type": "server_error"}}))
        case 5 if not messages:
            refusal = {"index": 0, "message": {"refusal": words}, "finish_reason": "stop"}
            return json_reply({"id": words, "model": words, "usage": {"prompt_tokens": words}, "choices": [refusal]})
        case 6:
            return raw_reply(words.encode(), kind="application/json", headers={"x-secret": words})
        case _ if messages:
            return json_reply(anthropic_wire.whole(text) | {"id": words, "model": words})
        case _ if "/responses" in asked.path:
            item = {"type": "message", "content": [{"type": "output_text", "text": text}]}
            return json_reply({"id": words, "status": "completed", "model": words, "output": [item]})
        case _:
            # split over chunks, inside the words
            pieces = [openai_wire.chunk(text[at : at + 17]) for at in range(0, len(text), 17)]
            return stream_reply(*pieces, openai_wire.chunk(finish="stop"))


OWN = '''
import json, logging, os, sys, warnings
import pytest
from pytest_jsbench import EngineInfo
from pytest_jsbench.core.generations import Completion, FinishReason, ResponseFormat

ANY = {"type": "object"}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
WAYS = {
    "chat": {},
    "responses": {"engine_options": {"api": "responses"}},
    "anthropic": {
        "engine": "anthropic", "model": "m", "base_url": os.environ["URL"], "api_key_env": "MY_KEY",
        "engine_options": {"extra_headers": {"x-one": "env:MY_HEADER"}},
    },
    "plugin": {"engine": "test_own:Leaky", "engine_options": {"password": os.environ["OPTION"]}},
}


class Leaky:
    """An engine of a third party, which says all that it knows wherever it can."""

    def __init__(self, config):
        self.words = f"{os.environ['PLUGIN_TOKEN']} {config.options['password']} {config!r}"
        self.info = EngineInfo(
            engine="leaky", model="m", response_format=ResponseFormat.TEXT, streaming=False,
            details={"options": dict(config.options)},
        )

    def generate(self, request):
        logging.getLogger("leaky").warning("asked with %s", self.words)
        warnings.warn(f"a warning with {self.words}", stacklevel=1)
        print(self.words, file=sys.stderr)
        if "turn 1" in str(request.prompt):
            raise RuntimeError(self.words)
        return Completion(
            text=json.dumps({"n": 1, "said": self.words}), finish_reason=FinishReason.STOP, timing=None
        )

    def close(self): ...


@pytest.mark.parametrize("way", WAYS)
def test_asks(jsbench, way):
    asking = jsbench.using(**WAYS[way])
    for turn in range(7):
        answer = asking.using(schema=ANY).generate(f"turn {turn}", check=False)
    asking.using(schema=NUMBER).generate("turn 8")
'''


@pytest.fixture
def server() -> Iterator[Provider]:
    with Provider(choose=hostile) as provider:
        yield provider


@pytest.fixture
def arranged(bench: Bench, server: Provider, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Put a secret in every place where a user may put one."""
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    bench.case("open", schema={"type": "object"})
    bench.case("closed")
    home = bench.path.parent / f"{bench.path.name}-home"
    home.mkdir()
    (home / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRETS['netrc']}\n")
    # outside of the searched directory: the user's own files may contain secrets
    (home / "test_own.py").write_text(OWN)
    (home / "pytest.ini").write_text(
        f'[pytest]\njsbench_engine_option =\n    extra_query={{"token": "{SECRETS["ini"]}"}}\n'
    )
    variables = {
        "MY_KEY": SECRETS["key"],
        "MY_HEADER": SECRETS["header of the environment"],
        "OPTION": SECRETS["third party's option"],
        "PLUGIN_TOKEN": SECRETS["third party's variable"],
        "HTTPS_PROXY": f"http://me:{SECRETS['proxy']}@127.0.0.1:9",
        "HF_TOKEN": SECRETS["hub"],
        "HOME": str(home),
        "URL": server.url,
        "PYTHONPATH": os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "GITHUB_STEP_SUMMARY": str(bench.path / "step.md"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(home)
    return bench


def options(bench: Bench, url: str) -> list[str]:
    password = urllib.parse.quote(SECRETS["password"], safe="")
    home = bench.path.parent / f"{bench.path.name}-home"
    given = {
        "extra_headers": {"x-literal": SECRETS["header"], "x-variable": "env:MY_HEADER"},
        "extra_body": {"api_key": SECRETS["body"], "top_k": 5},
        "extra_query": {"token": SECRETS["ini"]},
    }
    address = url.replace("//", f"//me:{password}@") + f"/v1?api_key={SECRETS['query']}"
    return [
        *("-c", str(home / "pytest.ini"), f"--rootdir={bench.path}", str(home / "test_own.py")),
        *("--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={address}"),
        *("--jsbench-api-key-env=MY_KEY", "--jsbench-dataset=schemas", "--jsbench-retries=0"),
        *(f"--jsbench-engine-option={name}={json.dumps(value)}" for name, value in given.items()),
    ]


WRITING = (
    *("--jsbench-output=out", "--benchmark-json=benchmark.json", "--jsbench-record=kept"),
    *("--jsbench-export=every_eval_ever=eee", "-o", "junit_logging=all", *NOISY),
)


def leaks(root: Path, shown: str) -> list[str]:
    """List each place that contains a secret, with its name."""
    files = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    files["what was shown"] = shown.encode()
    found = [
        f"{place}: {name}"
        for place, data in files.items()
        for name, secret in SECRETS.items()
        for form in forms(secret)
        if form.encode() in data
    ]
    return sorted(set(found))


@pytest.mark.slow
@both_ways
def test_no_secret_is_in_anything_that_is_shown_or_written(arranged: Bench, server: Provider) -> None:
    arranged.plugins = ("benchmark",)
    result = arranged.run_only(*options(arranged, server.url), *WRITING)
    assert result.parseoutcomes().get("failed") == 5, result.stdout.str()[-3000:]
    sent: Any = str([(asked.path, asked.headers, asked.body) for asked in server.asked])
    for name in ("key", "header", "header of the environment", "body", "query"):
        assert SECRETS[name] in sent, name
    written = {path.name for path in arranged.path.rglob("*")}
    assert {"junit.xml", "benchmark.json", "log.txt", "records.jsonl", "run.json", "report.html", "step.md"} <= written
    assert [folder for folder in ("kept", "eee") if not any((arranged.path / folder).rglob("*.json"))] == []
    assert leaks(arranged.path, result.stdout.str() + result.stderr.str()) == []
    assert "secret_replaced" in result.stdout.str()


@both_ways
def test_engines_that_call_no_provider_show_and_write_no_secret(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRETS["hub"])
    bench.case("quotes", json.dumps({"said": f"{SECRETS['hub']} {base64.b64encode(SECRETS['hub'].encode()).decode()}"}))
    bench.case("broken", {"fault": "server", "message": SECRETS["hub"]})

    shown = bench.run("--jsbench-output=out", "--jsbench-retries=0", *NOISY)
    replayed = bench.run_only(
        f"--jsbench-replay={bench.run_in()}", "--jsbench-dataset=schemas", "--jsbench-output=again"
    )

    assert shown.parseoutcomes()["failed"] == replayed.parseoutcomes()["failed"] == 2
    (bench.path / "answers.json").unlink()  # the user's own file
    assert leaks(bench.path, "".join(map(str, (*shown.outlines, *shown.errlines, *replayed.outlines)))) == []


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "package"), [("local", "xllamacpp"), ("llguidance", "llguidance")])
def test_a_model_on_this_machine_is_asked_and_no_secret_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, engine: str, package: str
) -> None:
    pytest.importorskip(package, reason=f"needs the extra {engine}")
    for name, place in (("OPENAI_API_KEY", "key"), ("HF_TOKEN", "hub"), ("MY_API_KEY", "body")):
        monkeypatch.setenv(name, SECRETS[place])
    bench.case("number")

    result = bench.pytester.runpytest_subprocess(
        *(f"--jsbench-engine={engine}", "--jsbench-dataset=schemas", "--jsbench-output=out"),
        *("-vv", "--log-level=DEBUG", *bench.quick),
    )

    assert "declared" in result.stdout.str().lower()
    assert leaks(bench.path, result.stdout.str() + result.stderr.str()) == []
