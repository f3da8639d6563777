"""Every error has a code, knows if retrying can help, and is drawn in the tree."""

import copy
import pickle
import re

import pytest

from rostra import errors
from rostra.errors import BY_CODE, BadName, DeadlineExceeded, NameInUse, RostraError, Unreachable


def classes() -> list[type[RostraError]]:
    return [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RostraError)
    ]


def drawn() -> dict[str, str]:
    """Who stands below whom in the module's picture."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^    ([│├└─ ]*)([A-Z]\w+)", line):
            depth, name = len(found[1]), found[2]
            above = [(column, each) for column, each in above if column < depth]
            if above:
                parents[name] = above[-1][1]
            above.append((depth, name))
    return parents


def test_the_tree_is_drawn_as_the_classes_are() -> None:
    rostra = set(classes())
    assert drawn() == {
        each.__name__: next(base.__name__ for base in each.__bases__ if base in rostra)
        for each in classes()
        if each is not RostraError
    }


@pytest.mark.spec("C-053")
def test_every_code_of_the_specification_is_an_error_and_says_if_retrying_can_help() -> None:
    retriable = {
        "BAD_ARGUMENT": False,
        "NOT_IN_SCOPE": False,
        "NO_SUCH_PERMANENT_GROUP": False,
        "GROUP_IS_PERMANENT": False,
        "ALREADY_MEMBER": False,
        "NOT_MEMBER": False,
        "TOO_LARGE": False,
        "NAME_IN_USE": True,
        "NOT_ALLOWED": False,
        "DEADLINE": True,
        "UNREACHABLE": True,
    }
    assert {code: BY_CODE[code].retriable for code in retriable} == retriable


def test_an_error_that_arrived_as_its_code_becomes_the_same_class_again() -> None:
    for each in classes():
        own = "code" in vars(each)
        assert BY_CODE[each.code] is each if own else issubclass(each, BY_CODE[each.code])
    assert len({each.code for each in classes() if "code" in vars(each)}) == len(BY_CODE)


@pytest.mark.parametrize("error", classes())
def test_an_error_says_what_happened_and_what_to_try(error: type[RostraError]) -> None:
    plain, helpful = error("web-1 is open"), error("web-1 is open", fix="choose another name")
    assert (plain.what, plain.fix, str(plain)) == ("web-1 is open", "", "web-1 is open")
    assert str(helpful) == "web-1 is open; choose another name"


@pytest.mark.parametrize("error", classes())
def test_an_error_survives_being_copied_and_sent_to_another_process(error: type[RostraError]) -> None:
    original = error("web-1 is open", fix="choose another name")
    for twin in (copy.copy(original), pickle.loads(pickle.dumps(original))):
        assert type(twin) is error and (twin.what, twin.fix) == (original.what, original.fix)


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(BadName, ValueError)
    assert issubclass(Unreachable, ConnectionError)
    assert issubclass(DeadlineExceeded, TimeoutError)
    assert not issubclass(NameInUse, (ValueError, OSError))
