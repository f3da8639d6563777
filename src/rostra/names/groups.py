"""Group names: a name and a scope.

A **group** is the pair of a name and a scope; ``chess@eu`` and ``chess@world`` are different groups. Names
come in the three kinds of Auerbach et al.:

    lounge/chess                     public      every program that knows the name may join
    acme/hr!payroll                  restricted  the authority left of '!' says who may join
    eu.paris.h3/web-1#7~7-1718-5     transient   made by its owner, whose endpoint stands left of '~'

The kinds differ in who may join (`protocols/access`); beyond that servers treat all three as opaque and
compare them byte for byte.
"""

import re
import unicodedata
from typing import Annotated, Final

from msgspec import Struct

from rostra.errors import BadName, NotAvailable
from rostra.names.domains import Domain, parse_scope
from rostra.names.endpoints import Endpoint, parse_endpoint
from rostra.names.text import check_is_text, has_controls, quoted

GROUP_NAME_BYTES_MAX: Final = 255

GroupText = Annotated[str, "the name of a group"]
"""A text that is checked in one way where a program says it, and in another where a server does."""

_STRAY_SPACE: Final = re.compile("(?:^|[/!~]) | (?:[/!~ ]|$)")


class Group(Struct, frozen=True, order=True, array_like=True, gc=False):
    """A group's key. Two groups are the same exactly if both parts are (C-006)."""

    name: GroupText
    scope: Domain

    def __str__(self) -> str:
        return f"{self.name}@{self.scope}"


class PublicName(Struct, frozen=True):
    segments: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(self.segments)


class RestrictedName(Struct, frozen=True):
    authority: tuple[str, ...]
    segments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'/'.join(self.authority)}!{'/'.join(self.segments)}"


class TransientName(Struct, frozen=True):
    owner: Endpoint
    segments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.owner}~{'/'.join(self.segments)}"


GroupName = PublicName | RestrictedName | TransientName


def parse_group_name(text: str) -> GroupName:
    """Read a group name of any kind; ``str()`` of the result is the text again."""
    check_group_name(text)
    return _kind(text)


def relayed_group_name(text: str) -> GroupName:
    """Read a name that another server has let in.

    What is printable and what is normal depends on the version of Unicode, and two servers may have two. A
    name with a character that is new to us was checked by an agent that knows it; we refuse only what no
    version allows, so that one new emoji cannot part two neighbours for ever.
    """
    _check_size(text)
    if has_controls(text):
        raise BadName(
            f"group name {quoted(text)} has control characters", fix="use printable characters only"
        )
    return _kind(text)


def _kind(text: str) -> GroupName:
    if "~" in text:
        owner, _, suffix = text.partition("~")
        try:
            endpoint = parse_endpoint(owner)
        except BadName as error:
            raise _no_name(text, f": {error.what}") from None
        return TransientName(endpoint, _segments(suffix, text))
    if "!" in text:
        authority, _, rest = text.partition("!")
        return RestrictedName(_segments(authority, text), _segments(rest, text))
    return PublicName(_segments(text, text))


def check_group_name(text: str) -> None:
    """Refuse what no kind of name may be: empty, too long, not normalised, with invisible characters, or with
    spaces at an end of a part or in a row. One between two words is part of a name (S-005 allows any
    character)."""
    check_is_text(text, "group", "chess")
    _check_size(text)
    if not text.isprintable():
        raise BadName(
            f"group name {quoted(text)} has invisible characters", fix="use printable characters only"
        )
    if " " in text and _STRAY_SPACE.search(text):
        raise BadName(
            f"group name {quoted(text)} has spaces at an end of a part, or several in a row",
            fix="use single spaces, and only between words; or none",
        )
    if unicodedata.normalize("NFC", text) != text:
        raise BadName(
            f"group name {quoted(text)} is not in Unicode normal form C", fix="normalise the name to NFC"
        )


def check_public(name: str) -> None:
    """Refuse a name whose members are chosen: by an authority, or by its owner."""
    check_not_transient(name)
    if "!" in name:
        raise NotAvailable(
            f"{quoted(name)} is a restricted name: its members need a proof of its authority",
            fix="join it, and show what its authority asks for (credential=), but not as permanent, unique, "
            "of open scope or with role='submit'; or use a name without '!'",
        )


def check_not_transient(name: str) -> None:
    if "~" in name:
        raise NotAvailable(
            f"{quoted(name)} is a transient name: only its owner adds members",
            fix="use a name without '~'",
        )


def _check_size(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadName("group name is not valid Unicode", fix="send the name as UTF-8") from None
    if not text:
        raise BadName("the group's name is empty", fix="write one: chess, or lounge/chess")
    if size > GROUP_NAME_BYTES_MAX:
        raise BadName(
            f"group name is {size} bytes long", fix=f"use at most {GROUP_NAME_BYTES_MAX} bytes of UTF-8"
        )


def parse_group(text: str) -> Group:
    """Read ``name@scope`` as `Group` prints it; without ``@`` the scope is the whole world."""
    name, at, scope = text.rpartition("@")
    if not at:
        name, scope = text, "world"
    elif not name or not scope:
        raise BadName(
            f"{quoted(text)} has no {'scope after' if name else 'name before'} the '@'",
            fix="write name@scope, such as chess@eu.paris; a name alone reaches the whole world",
        )
    return make_group(name, scope)


def make_group(name: str, scope: str) -> Group:
    """A checked group key from a name and a scope as a user writes them."""
    given: tuple[object, ...] = name, scope
    if not all(isinstance(each, str) for each in given):
        raise BadName(f"group {name!r} with scope {scope!r}", fix='both are texts: "chess", "eu"')
    parse_group_name(name)
    return Group(name, parse_scope(scope))


def _segments(part: str, whole: str) -> tuple[str, ...]:
    segments = tuple(part.split("/"))
    if not all(segments) or any(char in part for char in "!~"):
        raise _no_name(whole)
    return segments


def _no_name(text: str, why: str = "") -> BadName:
    return BadName(
        f"{quoted(text)} is not a group name{why}",
        fix="write a or a/b: no part empty, and without '!' and '~'",
    )
