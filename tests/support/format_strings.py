"""Create strings of each format from its grammar, and variants with a few changed characters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

ALPHA = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGIT = "0123456789"
HEX = "0123456789abcdefABCDEF"
UNRESERVED = ALPHA + DIGIT + "-._~"
SUB_DELIMS = "!$&'()*+,;="
#: Characters of other scripts and directions, at the borders of ucschar and iprivate, and with context rules.
BEYOND_ASCII = (
    "\u00e9\u00fc\u00df\u03c2\u00c9\u0130\u0131\u017f\u212a\u2126\u00b7\u0375\u03b1\u05d0\u05f3\u0627\u0628\u0660\u06f0"
    "\u0966\u0915\u094d\u200c\u200d\u30fb\u3042\u30a2\u4e08\uac00\u1100\u0301\u0323\u0488\u0903\u302e\u0640\u0f0b\u3007"
    "\u2603\u2764\uff41\uff0e\u3002\uff61\u00ad\ufe0f\u0080\u0085\u009f\u00a0\ud7ff\ue000\uf8ff\uf900\ufdcf\ufdd0\ufdef"
    "\ufdf0\uffef\ufff0\ufffd\uffff\U00010000\U0001fffe\U0001f600\U000e0001\U000e1000\U000efffd\U000f0000\U000ffffe"
    "\U0010fffd\U0010ffff\uab70\u13a0\u1e9e\u2170\u00aa\u2160"
)
#: Characters to insert: those of the grammars, other digits, white space and control characters.
INSERTED = "".join(map(chr, range(0x21, 0x7F))) + " \t\n\r\x00\x7f\u0662\u09e8\uff11\u2028" + BEYOND_ASCII


class Strings:
    """One source of strings, with a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pairs(self, count: int) -> Iterator[tuple[str, str]]:
        """
        Yield this many pairs of each format and a string; three in four strings are changed at one
        to three places.
        """
        for name, make in self._makers().items():
            for number in range(count):
                text = make()
                for _ in range(number % 4 and self._random.choice((1, 1, 1, 2, 3))):
                    text = self._changed(text)
                yield name, text

    def _makers(self) -> dict[str, Callable[[], str]]:
        return {
            "date": self.date,
            "time": self.time,
            "date-time": lambda: self.date() + self._one("TTTt") + self.time(),
            "duration": self.duration,
            "email": self.email,
            "idn-email": lambda: self.email(BEYOND_ASCII),
            "hostname": self.hostname,
            "idn-hostname": lambda: self.hostname(BEYOND_ASCII),
            "ipv4": self.ipv4,
            "ipv6": self.ipv6,
            "uri": lambda: self._scheme() + self._relative(),
            "uri-reference": lambda: self._maybe(self._scheme) + self._relative(),
            "iri": lambda: self._scheme() + self._relative(BEYOND_ASCII),
            "iri-reference": lambda: self._maybe(self._scheme) + self._relative(BEYOND_ASCII),
            "uri-template": self.uri_template,
            "uuid": lambda: "-".join(self._some(HEX, length, length) for length in (8, 4, 4, 4, 12)),
            "json-pointer": self.json_pointer,
            "relative-json-pointer": self.relative_json_pointer,
            "regex": self.regex,
        }

    def _changed(self, text: str) -> str:
        at = self._random.randint(0, len(text))
        kind = self._random.randrange(7)
        if kind == 0:
            return text[:at] + text[at + 1 :]
        if kind == 1:
            return text[:at] + self._random.choice(INSERTED) + text[at:]
        if kind == 2:
            return text[:at] + self._random.choice(INSERTED) + text[at + 1 :]
        if kind == 3:
            return text[:at] + self._one(text or "x") + text[at + 1 :]
        if kind == 4:
            return text[:at] + text[at : at + 3] + text[at:]
        if kind == 5:
            return text[:at] + text[at : at + 4].swapcase() + text[at + 4 :]
        return text[:at] + "".join(chr(ord(character) ^ 1) for character in text[at : at + 1]) + text[at + 1 :]

    def _one(self, characters: str) -> str:
        return self._random.choice(characters)

    def _some(self, characters: str, least: int = 0, most: int = 5) -> str:
        return "".join(self._random.choices(characters, k=self._random.randint(least, most)))

    def _maybe(self, make: Callable[[], str], chance: float = 0.5) -> str:
        return make() if self._random.random() < chance else ""

    def _number(self, most: int, width: int = 2) -> str:
        """Return a number within or slightly beyond its bounds; the bounds are as frequent as the values between."""
        return str(self._random.choice((0, 1, most, most + 1, *self._random.choices(range(most + 1), k=4)))).zfill(
            width
        )

    def date(self) -> str:
        year = self._random.choice(("0000", "0004", "1900", "2000", "2023", "2024", "9999"))
        last = self._random.choice(("01-31", "02-28", "02-29", "04-30", "06-30", "12-31", "02-30", "11-31"))
        return f"{year}-{self._random.choice((last, f'{self._number(12)}-{self._number(31)}'))}"

    def time(self) -> str:
        zone = self._random.choice(
            ("Z", "z", f"{self._one('+-')}{self._number(23)}:{self._number(59)}", "+01:00", "-01:00")
        )
        clock = f"{self._number(23)}:{self._number(59)}:{self._number(59)}"
        leap = self._random.choice(("23:59:60", "00:59:60", "22:59:60"))
        return self._random.choice((clock, leap)) + self._maybe(lambda: "." + self._some(DIGIT, 1), 0.3) + zone

    def duration(self) -> str:
        def parts(units: str) -> str:
            return "".join(self._maybe(lambda unit=unit: self._some(DIGIT, 1, 3) + unit) for unit in units)  # type: ignore[misc]

        made = (
            "P"
            + self._random.choice((parts("YMD"), parts("W"), parts("YMWD")))
            + self._maybe(lambda: "T" + parts("HMS"))
        )
        return made.lower() if self._random.random() < 0.05 else made

    def label(self, beyond_ascii: str = "") -> str:
        within = ALPHA + DIGIT + "-" + "\u05d0\u0627\u4e08\u00fc" * bool(beyond_ascii)
        made = self._one(ALPHA + DIGIT) + self._some(within, 0, 6) + self._one(ALPHA + DIGIT)
        kind = self._random.randrange(8)
        if kind == 0:
            return (made * 70)[: self._random.choice((62, 63, 64))]
        if kind == 1 or beyond_ascii:
            made = self._some(BEYOND_ASCII + within, 1, 4)
        if kind == 1:
            return self._random.choice(("xn--", "XN--", "Xn--")) + made.encode("punycode", "replace").decode("ascii")
        return made

    def hostname(self, beyond_ascii: str = "") -> str:
        labels = self._random.choice((1, 1, 2, 2, 3, 4))
        dot = self._one("...\u3002\uff0e\uff61") if beyond_ascii else "."
        return dot.join(self.label(beyond_ascii) for _ in range(labels))

    def email(self, beyond_ascii: str = "") -> str:
        atext = ALPHA + DIGIT + "!#$%&'*+-/=?^_`{|}~" + beyond_ascii
        dotted = ".".join(self._some(atext, 1, 4) for _ in range(self._random.randint(1, 3)))
        inside = [self._one(atext + " @.(),:;<>[]"), "\\" + self._one(atext + ' \\"@'), self._one(atext)]
        local = self._random.choice(
            (dotted, dotted, f'"{"".join(self._random.choices(inside, k=3))}"', dotted.center(64, "a"))
        )
        literal = self._random.choice((self.ipv4(), "IPv6:" + self.ipv6(), "ipv6:" + self.ipv6(), "tag:x"))
        return f"{local}@{self._random.choice((self.hostname(beyond_ascii), self.hostname(), 'x.org', f'[{literal}]'))}"

    def ipv4(self) -> str:
        return ".".join(self._number(255, self._random.choice((1, 1, 1, 1, 1, 2, 3))) for _ in range(4))

    def ipv6(self) -> str:
        groups = [self._some(HEX, 1, 4) for _ in range(8)]
        if self._random.random() < 0.3:
            groups[6:] = [self.ipv4()]
        if self._random.random() < 0.6:
            first = self._random.randint(0, len(groups) - 1)
            last = self._random.randint(first, len(groups))
            return ":".join(groups[:first]) + "::" + ":".join(groups[last:])
        return ":".join(groups)

    def _scheme(self) -> str:
        return self._random.choice(("http", "urn", "a", self._one(ALPHA) + self._some(ALPHA + DIGIT + "+-."))) + ":"

    def _relative(self, beyond_ascii: str = "") -> str:
        characters = UNRESERVED + SUB_DELIMS + ":@" + beyond_ascii
        hosts = (self.hostname(), self.ipv4(), f"[{self.ipv6()}]", "[v1.a:]", "", "[::1%25e]")
        host = self._random.choice((*hosts, self._some(UNRESERVED + beyond_ascii)))
        user = self._maybe(lambda: self._some(characters) + "@", 0.2)
        port = self._maybe(lambda: ":" + self._some(DIGIT))
        authority = f"//{user}{host}{port}"
        path = "/".join(
            self._some(characters, 0, 4) + self._maybe(lambda: "%" + self._some(HEX, 2, 2), 0.2) for _ in range(2)
        )
        path = self._random.choice((authority + "/" + path, authority, path, "/" + path, ""))
        query = self._maybe(lambda: "?" + self._some(characters + "/?"), 0.3)
        return path + query + self._maybe(lambda: "#" + self._some(characters + "/?"), 0.3)

    def uri_template(self) -> str:
        def varspec() -> str:
            name = ".".join(
                self._some(ALPHA + DIGIT + "_", 1, 3) + self._maybe(lambda: "%4a", 0.1)
                for _ in range(self._random.choice((1, 1, 2)))
            )
            return name + self._random.choice(("", "", "*", ":" + self._some(DIGIT, 1, 5)))

        def expression() -> str:
            return (
                "{"
                + self._maybe(lambda: self._one("+#./;?&=,!@|"))
                + ",".join(varspec() for _ in range(self._random.choice((1, 1, 2))))
                + "}"
            )

        literals = UNRESERVED + SUB_DELIMS + ":/?#[]@" + BEYOND_ASCII
        return "".join(self._some(literals, 0, 3) + self._maybe(expression) for _ in range(3))

    def json_pointer(self) -> str:
        return "".join(
            "/" + self._some(ALPHA + DIGIT + " ~\u00e9/", 0, 4).replace("~", "~" + self._one("01"))
            for _ in range(self._random.randint(0, 3))
        )

    def relative_json_pointer(self) -> str:
        prefix = self._random.choice(("0", "1", "20", "01", ""))
        moved = self._maybe(lambda: self._one("+-") + self._random.choice(("0", "1", "12", "01", "")), 0.4)
        return prefix + moved + self._random.choice(("#", self.json_pointer(), self.json_pointer()))

    def regex(self) -> str:
        atoms = [
            "a", ".", r"\d", "[a-z]", "[^x]", "(a)", "(?:b|c)", r"\u0041", r"\p{L}", "(?=a)",
            "(?<n>a)", r"\k<n>", "a{1,2}", "b+?", "[]", r"\cA", r"\x41", r"\/", "^", "$", r"\b",
            "(?<!a)", r"\_", "]", "}", r"\Z", "(?i)", "(?P<x>a)", "[[:alpha:]]", "a++",
            r"[\w-a]", r"\-",
        ]  # fmt: skip
        return "".join(self._random.choice(atoms) for _ in range(self._random.randint(1, 3)))
