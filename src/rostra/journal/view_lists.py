"""From rows of kind `view` and `view-agreed` back to whole views.

Rows say what changed since the view before, at the same writer; without a row that counts those kept, a view
has a row for every member. The digest is of the whole list: where rows are missing, so that what can be made
of the others is another list, a view has none, until the next whole one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

VIEW_KINDS: Final = ("view", "view-agreed")


class WholeView(NamedTuple):
    row: Mapping[str, Any]  # the first row of it
    members: tuple[str, ...] | None  # in order of rank; None if rows before it are missing
    left: tuple[str, ...]  # since the view before
    joined: tuple[str, ...]


def digest_of(members: Sequence[str]) -> int:
    """The digest of a member list in order of rank."""
    digest = hashlib.blake2b("\n".join(members).encode(), digest_size=8, person=b"rostra view").digest()
    return int.from_bytes(digest, signed=True)


def whole_views(rows: Iterable[Mapping[str, Any]]) -> Iterator[WholeView]:
    """The views in rows of one group and one writer, in order of `epoch` and `seq`; other kinds are passed
    over. Of several parts of a group at one server, each follows its base."""
    lists: dict[str, tuple[str, ...]] = {}
    last = ""
    epoch: object = None
    expected: object = None
    event: list[Mapping[str, Any]] = []
    for row in rows:
        if row["kind"] not in VIEW_KINDS:
            continue
        if row["epoch"] != epoch:
            epoch, lists, last = row["epoch"], {}, ""
        if row["nth"] == 0:
            event, expected = [], row["seq"]
        if row["seq"] != expected or len(event) != row["nth"]:
            event, lists = [], {}  # a row of it is missing
            continue
        event.append(row)
        expected = row["seq"] + 1
        if len(event) == row["of"]:
            view = _whole(event, lists.get(event[0].get("base") or last, lists.get(event[0]["view"])))
            last = event[0]["view"]
            if view.members is None:
                lists.pop(last, None)
            else:
                lists[last] = view.members
            yield view


def _whole(event: list[Mapping[str, Any]], before: tuple[str, ...] | None) -> WholeView:
    left = tuple([row["member"] for row in event if row["change"] == "left"])
    joined = [(row["last"], row["member"]) for row in event if row["change"] == "joined"]
    new = tuple([row["member"] for row in event if row["change"] == "joined" and row["news"]])
    kept = any(row["change"] == "kept" for row in event)
    members = tuple([member for _, member in sorted(joined)])
    if kept and before is not None:
        gone = {*left}
        members = (*[each for each in before if each not in gone], *members)
    is_right = digest_of(members) == event[0]["digest"]
    return WholeView(event[0], members if is_right else None, left, new)
