from __future__ import annotations

import json

import pytest

from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_4, DRAFT_6, DRAFT_7, Dialect
from pytest_jsbench.schemas.keywords import FORMATS
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.verdicts import JudgePolicy, SecondOpinion
from tests.support.format_strings import Strings

#: Format, section of its rule, valid strings, invalid strings.
ROWS = [
    ("date", "RFC 3339, 5.6 and 5.7", ["2024-02-29", "2000-02-29", "0000-02-29", "9999-12-31"],
     ["2024-01-1+", "-001-01-01", "2024-1:-01", "2023-02-29", "1900-02-29", "2024-04-31", "2024-00-10", "2024-01-00",
      "2024-13-01", "24-01-01", "2024-1-01", "20240101", "2024-01-01 ", "2024-01-01\n", "٢٠٢٤-01-01", ""]),
    ("time", "RFC 3339, 5.6", ["12:00:00Z", "12:00:00z", "23:59:59.999999999999+23:59", "00:00:00-00:00"],
     ["12:0+:00Z", "1+:00:00Z", "12:00:0,Z", "12:00:00", "24:00:00Z", "12:60:00Z", "12:00:61Z", "12:00:00.Z",
      "12:00:00,5Z", "12:00:00+24:00", "12:00:00+00:60", "12:00:00+0100", "12:00:00+1+:00", "12:00:00 Z",
      "12:00:00Z\n"]),
    ("time", "RFC 3339, 5.7: leap seconds", ["23:59:60Z", "22:59:60-01:00", "00:59:60+01:00", "00:29:60.5+00:30"],
     ["22:59:60Z", "23:58:60Z", "23:59:60+01:00", "23:59:60-01:00", "00:59:60-01:00"]),
    ("date-time", "RFC 3339, 5.6", ["2024-05-15T12:00:00Z", "2024-05-15t12:00:00z", "0000-01-01T00:00:00.1-23:59"],
     ["2024-05-1,T23:59:50Z", "2024-05-15 12:00:00Z", "2024-05-15T12:00:00", "2024-05-15", "2024-02-30T12:00:00Z",
      "2024-05-15T25:00:00Z", "2024-05-15T12:00Z", "2024-05-15TT12:00:00Z", "2024-05-15T12:0+:00Z"]),
    ("date-time", "RFC 3339, 5.7: leap seconds",
     ["1998-12-31T23:59:60Z", "2016-12-31T15:59:60-08:00", "2017-01-01T00:59:60+01:00", "1972-06-30T23:59:60.9z",
      "0000-02-29T23:59:60Z", "9999-12-31T22:59:60-01:00"],
     ["2024-05-1,T23:59:60Z", "2016-12-30T23:59:60Z", "2016-12-31T23:58:60Z", "2017-01-01T23:59:60Z",
      "2016-12-31T23:59:60+01:00", "2017-01-02T00:59:60+01:00", "2016-12-30T15:59:60-08:00"]),
    ("duration", "RFC 3339, A; letters of either case by RFC 2234, 2.3",
     ["P1D", "P1W", "P1Y2M3DT4H5M6S", "PT36H", "P0D", "P01M", "p1dt2h", "PT1M", "P1M2D"],
     ["P", "PT", "P1", "1D", "P1D2", "P1DT", "P1Y2D", "PT1H2S", "P1W1D", "P1WT1H", "P1Y1W", "P1S", "PT1D", "P-1D",
      "+P1D",
      "P1.5D", "PT0,5S", "P१D", "PT1\u017f", "P1D\n", ""]),
    ("email", "RFC 5321, 4.1.2: Mailbox",
     ["a@x.org", "a.b+c@x", "!#$%&'*+-/=?^_`{|}~@x.org", '"a b"@x.org', '"a\\"b"@x.org', '"a@b"@x.org', '""@x.org',
      '"a..b"@x.org', "a@1.org", "a@x--y.org", "a@ab--cd.org", "a@xn--tdaesc.org"],
     ["John Doe <john@x.org>", " <a@x.org>", "<a@x.org>", " a@x.org", "a@x.org ", "a@x.org\n", "a@b@x.org",
      "a..b@x.org",
      ".a@x.org", "a.@x.org", "a b@x.org", '"a"b@x.org', 'a"b"@x.org', '"a@x.org', '"a\\"@x.org', '"a\tb"@x.org',
      "@x.org",
      "a@", "a", "a@x.org.", "a@.org", "a@x..org", "a@-x.org", "a@x-.org", "a@x_y.org", "(c)a@x.org", "a@x.org(c)",
      "ü@x.org", "a@ü.org", '"\\ü"@x.org', "a@[x.org]"]),
    ("email", "RFC 5321, 4.1.3: address literals",
     ["a@[127.0.0.1]", "a@[127.0.0.01]", "a@[IPv6:::1]", "a@[ipv6:1:2:3:4:5:6:7:8]", "a@[IPv6:1:2:3:4:5:6::]",
      "a@[IPv6:::1.2.3.4]", "a@[IPv6:::1.2.3.04]", "a@[IPv6:1:2:3:4:5:6:1.2.3.4]"],
     ["a@127.0.0.1]", "a@[127.0.0.1", "a@[127.0.0.256]", "a@[127.0.1]", "a@[::1]", "a@[IPv6:1::2::3]",
      "a@[IPv6:fe80::1%1]",
      "a@[IPv6:1:2:3:4:5:6:7::]", "a@[IPv6:1:2:3:4:5::1.2.3.4]", "a@[IPv6:127.0.0.1]", "a@[IPv6:]", "a@[tag:x]",
      "a@[]"]),
    ("email", "RFC 5321, 4.5.3.1: lengths; RFC 1035, 2.3.4",
     [f"{'a' * 64}@x.org", f"a@{'x' * 63}.org", f"a@{'.'.join(['x' * 62] * 4)}.y"],
     [f"{'a' * 65}@x.org", f"a@{'x' * 64}.org", f"a@{'.'.join(['x' * 62] * 4)}.yz"]),
    ("idn-email", "RFC 6531, 3.3",
     ["ä@x.org", '"ä ö"@x.org', "a@bücher.example", "실례@실례.테스트", "a@xn--tdaesc.org", "a@cafe\u0301.com",
      f"{'ä' * 32}@x.org", "a@[127.0.0.1]"],
     ["ä <ä@x.org>", "ä\u0020@x.org", "a@BÜCHER.example", "a@☃.net", "a@ä\u3002org", "a@ä\uff0eorg", "a@-ä.org",
      "a@ä.",
      f"{'ä' * 33}@x.org", "a\uff20x.org", '"\\ä"@x.org']),
    ("hostname", "RFC 1123, 2.1",
     ["x", "example.org", "EXAMPLE.org", "1.2.3.4", "3com.com", "a--b.com", "ab--cd.org", "xn--4gbwdl.ab--cd",
      "r3---sn-apo3qvuoxuxbt-j5pe.googlevideo.com", "x" * 63, ".".join(["x" * 62] * 4) + ".y"],
     ["", ".", "example.org.", ".example.org", "a..b", "-a", "a-", "a_b", "a b", "ü.org", "a\n", "\u212a", "x" * 64,
      "a\uff0eb", ".".join(["x" * 62] * 4) + ".yz"]),
    ("hostname", "RFC 5890, 2.3.2.1; RFC 5891, 4.4; RFC 5892; RFC 5893: A-labels",
     ["xn--4gbwdl.xn--wgbh1c", "XN--4GBWDL", "Xn--4gbwdl", "xn--bcher-kva.example"],
     ["xn--tdaesc", "XN--TDAESC", "xn--", "xn--a", "xn--example-", "xn---9uc", "xn--ypd.ab--cd",
      "xn--BCHER-kvb",
      "xn--0ca24w", "0a.xn--4db", "xn--ls8h"]),
    ("idn-hostname", "RFC 5890, 2.3.2.3",
     ["example.org", "EXAMPLE.org", "bücher.example", "faß.de", "실례.테스트", "XN--4GBWDL", "l·l",
      "bücher\u3002example", "क्\u200dष", "\u3005\u30fb", "\U00020038\u30fb", "\u0375\u1f00", "xn--o--4n4ay737r"],
     ["BÜCHER.example", "Bücher.example", "cafe\u0301.com", "\uff41\uff42", "☃.net", "I❤.ws", "a\u00adb", "a\u034fb",
      "a\u20d0b", "\u1100\u1161", "\u30a0", "ab--ü.org", "-ü", "ü-", "ü.", "1\u0627", "\u0301a", "a·b",
      "\u30fc\u30fb", "\u0375\u03e3", "\u0628\u0fb2.\u0375\u1f00", "\u3042\u30fb.\u0712", "क\u200dष",
      "\u2170",
      "xn--tdaesc", "ü\n", "a b", ""]),
    ("ipv4", "RFC 2673, 3.2; no leading zeros, which some read as octal", ["0.0.0.0", "255.255.255.255"],
     ["256.0.0.1", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.04", "1.2.3.4 ", "1.2.3.4\n", "1.2.3.-4", "0x7f.0.0.1",
      "1.2.3.٤",
      "127.1", "1.2.3.4/24", ""]),
    ("ipv6", "RFC 4291, 2.2; no zone",
     ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "ABCD::abcd", "::1.2.3.4",
      "1:2:3:4:5:6:1.2.3.4", "0001::"],
     ["fe80::1%eth0", "fe80::1%25eth0", "::1%", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
      "1:2:3:4:5:6:7:8::", ":1",
      "1:", ":::", "12345::", "g::", "::1.2.3.256", "::1.2.3.04", "::1.2.3", "1.2.3.4::", "1:2:3:4:5:6:7:1.2.3.4",
      "::1/64",
      "[::1]", " ::1", ""]),
    ("uri", "RFC 3986, A: URI",
     ["http://x.org/a?b#c", "a:", "urn:isbn:1", "mailto:a@x.org", "file:///a", "http://u:p@x:80/", "http://[::1]:8080",
      "http://[v1.a:b]/", "http://x:/", "http://x/%41", "a:b:c", "http://", "a+b-c.d:e", "http://1.2.3.4.5/",
      "http://x:99999"],
     ["x.org", "//x.org", "/a", "", ":a", "1a:b", "a b:c", "http://x/%zz", "http://x/%4", "http://x/a b",
      "http://x/[a]",
      "http://[::1", "http://::1/", "http://[fe80::1%25eth0]/", "http://[v.a]/", "http://[::1]a/", "http://x:a/",
      "http://x/^", "http://x/\\", "http://x/{a}", "http://x/<a>", "http://x#a#b", "http://ü/", "http://x/ü",
      "http://a@b@c/",
      "http://x/\n"]),
    ("uri-reference", "RFC 3986, A: URI-reference", ["", "a", "a/b:c", "./a:b", "//x.org", "?a", "#a", "/a//b",
      "http://x"],
     [":a", "1a:b", "a b", "[", "%", "\\", "#a#b", "ü", "//[::1", "///[", "a\n"]),
    ("iri", "RFC 3987, 2.2: IRI",
     ["http://ü.org/ä?ö#ß", "http://x/?\ue000", "a:\U0001f600", "http://x/\u00a0", "http://x/%C3%BC",
      "http://\U000e1000/"],
     ["ü", "ü:a", "http://x/\ue000", "http://x/#\ue000", "http://x/\ufdd0", "http://x/\uffff", "http://x/\U000e0001",
      "http://x/\u0080", "http://x/ä ö", "http://x/%zz", "http://[ü]/"]),
    ("iri-reference", "RFC 3987, 2.2: IRI-reference", ["", "ü", "?\uf8ff", "#ü", "//ü"], ["\ue000", "ü:a",
      "#\ue000", "ü ü", "\u009f"]),
    ("uri-template", "RFC 6570, 2, with erratum 6937",
     ["", "a", "{a}", "{+a,b}", "{#a*}", "{?a:9999}", "{a.b_c%41}", "{=a}", "{|a}", "ü", "\ue000", "%41", "a'b",
      "[]", "{1}"],
     ["{", "}", "{}", "{a", "{a,}", "{a:0}", "{a:10000}", "{a b}", "{a.}", "{.}", "{a..b}", "{ü}", "{a%4}", "{-a}",
      "{a*:3}",
      "%4", "a b", '"', "<", "\\", "^", "`", "|", "\u0080", "\ufdd0", "\uffff", "{{a}}"]),
    ("uuid", "RFC 9562, 4", ["123e4567-e89b-12d3-a456-426655440000", "00000000-0000-0000-0000-000000000000",
                             "123E4567-E89B-12D3-A456-42665544000f"],
     ["{123e4567-e89b-12d3-a456-426655440000}", "urn:uuid:123e4567-e89b-12d3-a456-426655440000",
      "123e4567e89b12d3a456426655440000", "123e4567-e89b-12d3-a456-42665544000",
      "123e4567-e89b-12d3-a456-42665544000g",
      "123e-4567e89b-12d3-a456-426655440000", "123e4567-e89b-12d3-a456-426655440000\n", ""]),
    ("json-pointer", "RFC 6901, 3", ["", "/", "/a/b", "//", "/~0~1", "/ü", "/\x00", "/a b", "/%"],
     ["a", "/~2", "/~", "/~~", "#/a", "#", " /a"]),
    ("relative-json-pointer", "draft-bhutton-relative-json-pointer-00, 3 and 5.1",
     ["0", "12", "0#", "0/", "1/a~0", "0+1", "0-1", "10-12/a", "0+0", "0-1#"],
     ["", "/a", "#", "01", "00", "01+1", "0+01", "0+", "0+-1", "0+1+1", "+1", "-1", "0##", "0#/a", "0+1a", "0a",
      "0/~2", "\u0660"]),
    ("regex", "ECMA-262, Pattern", ["^a+$", "(?=a)", "[^]", "\\d", ""], ["(", "a**", "[", "(?P<x>a)", "(?#x)"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def judge() -> InProcessJudge:
    pytest.importorskip("idna")
    return InProcessJudge(JudgePolicy())


def opinions(judge: InProcessJudge, name: str, text: str) -> tuple[bool | None, SecondOpinion]:
    *_, verdict = judge.judge(json.dumps({"format": name}), json.dumps(text), truncated=False)
    return verdict.valid, verdict.second_opinion


@pytest.mark.parametrize(("name", "_where", "good", "bad"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_both_opinions_check_each_format_by_its_rfc(
    judge: InProcessJudge, name: str, _where: str, good: list[str], bad: list[str]
) -> None:
    # patterns are the only grammar that the second opinion supports only in part
    allowed = {SecondOpinion.AGREES, SecondOpinion.UNDECIDED} if name == "regex" else {SecondOpinion.AGREES}
    wrong = []
    for expected, texts in ((True, good), (False, bad)):
        for text in texts:
            valid, second = opinions(judge, name, text)
            if valid is not expected or second not in allowed:
                wrong.append((text, valid, second))
    assert wrong == []


@pytest.mark.parametrize("dialect", [DRAFT_4, DRAFT_7], ids=lambda dialect: dialect.validator)
def test_every_format_is_asserted_in_the_older_drafts_too(dialect: Dialect) -> None:
    judge = InProcessJudge(JudgePolicy(default_dialect=dialect.uri))
    first_rows = {row[0]: row for row in reversed(ROWS)}
    for name, _where, (good, *_), (bad, *_) in first_rows.values():
        assert opinions(judge, name, good) == (True, SecondOpinion.AGREES)
        assert opinions(judge, name, bad) == (False, SecondOpinion.AGREES)


def test_there_are_rows_for_every_format() -> None:
    assert {row[0] for row in ROWS} == set(FORMATS)


def test_both_opinions_agree_on_strings_made_from_the_grammars_and_changed(judge: InProcessJudge) -> None:
    decided: dict[str, set[bool | None]] = {name: set() for name in FORMATS}
    disputed = []
    for name, text in Strings(2673).pairs(100):
        valid, second = opinions(judge, name, text)
        if second is SecondOpinion.AGREES:
            decided[name].add(valid)
        elif second is SecondOpinion.DISAGREES:
            disputed.append((name, text, valid))
    assert disputed == []
    assert all(each == {True, False} for each in decided.values())


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.validator)
def test_the_oldest_drafts_know_hostnames_without_a_labels(dialect: Dialect) -> None:
    pytest.importorskip("idna")
    schema = {"$schema": dialect.uri, "format": "hostname"}
    judge = InProcessJudge(JudgePolicy())
    *_, verdict = judge.judge(json.dumps(schema), '"xn--tdaesc.example"', truncated=False)
    assert verdict.valid is (dialect in {DRAFT_4, DRAFT_6})
    assert verdict.second_opinion is SecondOpinion.AGREES


@pytest.mark.parametrize(
    "schema", ['{"\\u0066ormat": "date"}', '{"format": "d\\u0061te"}', '{"format"\n:\t"date"}', '{"format":"date"}']
)
def test_format_is_checked_for_each_spelling_of_its_name(schema: str) -> None:
    *_, verdict = InProcessJudge(JudgePolicy()).judge(schema, '"2024-01-1+"', truncated=False)
    assert verdict.valid is False
