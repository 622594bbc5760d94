"""`jsbench comment`: create or update one comment on a GitHub pull request or a GitLab merge request."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.files import FileReader
from pytest_jsbench.core.generations import CallError
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import kind_of, printable
from pytest_jsbench.engines.base import Address
from pytest_jsbench.engines.engine_options import require_package_for

if TYPE_CHECKING:
    from pytest_jsbench.cli.output import Output
    from pytest_jsbench.engines.http.client import Client

#: First line of the output of `jsbench compare --comment=NAME`.
_MARKER = re.compile(r"<!-- jsbench:[A-Za-z0-9_.+-]{1,100} -->")
#: Maximum length of a comment on GitHub, in characters.
_LONGEST = 65_536
_PER_PAGE = 100
_MOST_PAGES = 50
#: Timeout of each request in seconds.
_SECONDS = 30.0
_TOKENS_OF_GITHUB = ("GITHUB_TOKEN", "GH_TOKEN")
_TOKENS_OF_GITLAB = ("JSBENCH_GITLAB_TOKEN", "GITLAB_TOKEN")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discussion:
    """Paths and credentials for the comments of one pull request or merge request, from the variables of the CI job."""

    host: str
    address: Address
    headers: Mapping[str, str]
    #: Secret token in `headers`; it is redacted in messages.
    token: str
    #: Path for listing the comments and for creating one.
    comments: str
    #: Path of a single comment, without the comment's id at the end.
    comment: str
    #: HTTP method for updating a comment.
    change: str
    #: Names of two fields: the author of a comment, and the author's login or id.
    author: tuple[str, str]


def add_comment(commands: Any) -> None:
    """Declare `jsbench comment`."""
    parser = commands.add_parser(
        "comment",
        help="write a comparison to a comment on a pull request",
        description="Create a comment, or update the comment that has the same hidden first line and the same author. "
        "The pull request, the server and the token come from the environment variables of GitHub Actions or GitLab "
        "CI. Outside of a pull request, the command does nothing.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="output of `jsbench compare --comment=NAME`")
    parser.add_argument(
        "--author",
        metavar="LOGIN",
        default="github-actions[bot]",
        help="on GitHub, login of the token's account; only comments of this account are updated (default: "
        "github-actions[bot])",
    )
    parser.set_defaults(command=_comment)


def _comment(options: argparse.Namespace, out: Output) -> bool:
    """Create or update the comment and print its address."""
    text = FileReader(largest=4 * _LONGEST, error=ExportError).read_text(options.file)
    marker = text.partition("\n")[0]
    if _MARKER.fullmatch(marker) is None or len(text) > _LONGEST:
        message = f"{printable(str(options.file), None)}: expected the output of `jsbench compare --comment=NAME`"
        raise ExportError(f"{message}, found {printable(marker, 60)!r}", found=marker, where=options.file)
    discussion = find_discussion(os.environ)
    if discussion is None:
        out.write("this job does not run for a pull request: no comment written\n")
        return True
    require_package_for("jsbench comment", "urllib3", extra="calls", minimum=(2, 6))
    from pytest_jsbench.engines.http.client import Client

    with closing(Client(discussion.address, headers=discussion.headers, secret=discussion.token)) as client:
        author = options.author
        if discussion.host == "GitLab":
            author = _call_for_object(client, discussion, "GET", "/user").get("id")
        existing = next(_own_comments(client, discussion, marker, author), None)
        if existing is None:
            written = _call_for_object(client, discussion, "POST", discussion.comments, {"body": text})
        else:
            place = f"{discussion.comment}/{existing}"
            written = _call_for_object(client, discussion, discussion.change, place, {"body": text})
    address = printable(str(written.get("html_url") or discussion.host), 300)
    out.write(f"comment {'created' if existing is None else 'updated'}: {address}\n")
    return True


def find_discussion(environment: Mapping[str, str]) -> Discussion | None:
    """Return the discussion of the pull request for which this CI job runs; None outside of a pull request."""
    if environment.get("GITLAB_CI"):
        return _find_merge_request(environment)
    reference = re.fullmatch(r"refs/pull/(\d+)/\w+", environment.get("GITHUB_REF", ""))
    if reference is None:
        return None
    token = _find_token(environment, _TOKENS_OF_GITHUB)
    repository = f"/repos/{quote(environment.get('GITHUB_REPOSITORY', ''))}"
    return Discussion(
        host="GitHub",
        address=_address(environment, "GITHUB_API_URL", "https://api.github.com"),
        headers={"authorization": f"Bearer {token}", "x-github-api-version": "2022-11-28"},
        token=token,
        comments=f"{repository}/issues/{reference[1]}/comments",
        comment=f"{repository}/issues/comments",
        change="PATCH",
        author=("user", "login"),
    )


def _find_merge_request(environment: Mapping[str, str]) -> Discussion | None:
    number = environment.get("CI_MERGE_REQUEST_IID", "")
    if not number:
        return None
    token = _find_token(environment, _TOKENS_OF_GITLAB)
    project = quote(environment.get("CI_PROJECT_ID", ""), safe="")
    notes = f"/projects/{project}/merge_requests/{quote(number, safe='')}/notes"
    return Discussion(
        host="GitLab",
        address=_address(environment, "CI_API_V4_URL", "https://gitlab.com/api/v4"),
        headers={"private-token": token},
        token=token,
        comments=notes,
        comment=notes,
        change="PUT",
        author=("author", "id"),
    )


def _find_token(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        if value := environment.get(name):
            return value
    message = f"no token found: set {names[0]} to a token with permission to write comments on pull requests"
    raise ExportError(message, expected=names[0])


def _address(environment: Mapping[str, str], name: str, default: str) -> Address:
    try:
        return Address.parse(environment.get(name) or default)
    except ValueError as error:
        raise ExportError(f"{name}: {error}", where=name) from None


def _own_comments(client: Client, discussion: Discussion, marker: str, author: object) -> Iterator[int]:
    """Yield the ids of comments by `author` whose first line is `marker`, oldest first."""
    author_field, identity = discussion.author
    for page in range(1, _MOST_PAGES + 1):
        query = f"?per_page={_PER_PAGE}&page={page}&sort=asc&order_by=created_at"
        comments = _call(client, discussion, "GET", discussion.comments + query)
        if not isinstance(comments, list):
            message = f"{discussion.host}: expected a list of comments, found {kind_of(comments)}"
            raise ExportError(message, found=type(comments).__name__)
        for comment in filter(lambda each: isinstance(each, dict), comments):
            author_of_comment = comment.get(author_field)
            body = comment.get("body")
            number = comment.get("id")
            is_ours = isinstance(author_of_comment, dict) and author_of_comment.get(identity) == author
            if is_ours and isinstance(body, str) and body.splitlines()[:1] == [marker] and type(number) is int:
                yield number
        if len(comments) < _PER_PAGE:
            return


def _call_for_object(
    client: Client, discussion: Discussion, method: str, path: str, body: object = None
) -> dict[str, Any]:
    """Send a request and return the JSON object in the response; an empty dictionary for any other response."""
    value = _call(client, discussion, method, path, body)
    return value if isinstance(value, dict) else {}


def _call(client: Client, discussion: Discussion, method: str, path: str, body: object = None) -> Any:
    """Send a request and return the JSON value in the response; raise ExportError with the server's error message."""
    from pytest_jsbench.engines.http.calls import Deadline

    data = None if body is None else json.dumps(body).encode()
    what = f"{method} {printable(path.partition('?')[0], 200)}"
    once = method == "POST"  # a repeated POST would create a second comment
    try:
        with closing(client.request(method, path, data, deadline=Deadline(_SECONDS), once=once)) as response:
            text = response.read().decode("utf-8", "replace")
            value = json.loads(text) if response.status < 400 else text
    except (CallError, ValueError) as error:
        raise ExportError(f"{discussion.host}: {what}: {one_line(str(error), secret=discussion.token)}") from None
    if response.status >= 400:
        step = "; check the permissions of the token" if response.status in {401, 403, 404} else ""
        reason = one_line(text, secret=discussion.token)
        raise ExportError(f"{discussion.host}: {what}: status {response.status}{step}: {reason}", found=response.status)
    return value
