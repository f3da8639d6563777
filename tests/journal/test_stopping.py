"""What `make live-views` makes of agents' rows: two living sides are found, and nothing else is."""

from datetime import UTC, datetime
from typing import Any

from live.stopping import Stood, lives, offences

FR, DE, IT = "eu.fr.h1", "eu.de.h1", "eu.it.h1"


def view(host: str, at: float, number: int, fence: int | None, *names: str) -> list[dict[str, Any]]:
    """The rows of a whole view."""
    id = f"{number}.0 {'+'.join(names)}"
    return [
        row(host, at, "view", member=f"{name}/p#1", change="joined", view=id, fence=fence) for name in names
    ]


def row(host: str, at: float, kind: str, **more: Any) -> dict[str, Any]:
    when = datetime.fromtimestamp(at, UTC)
    empty = {"member": None, "change": None, "view": None, "fence": None}
    return {"writer": host, "at": when, "kind": kind, **empty, **more}


def found(*rows: list[dict[str, Any]], stood: tuple[Stood, ...] = ()) -> list[str]:
    return offences(lives([each for some in rows for each in some], stood))


def test_one_side_after_the_other_is_no_offence() -> None:
    assert not found(
        view(FR, 1, 1, 1, FR, DE, IT),
        [row(FR, 2, "blocked")],
        view(FR, 5, 3, 3, DE, IT, FR),
        view(DE, 1, 1, 1, FR, DE, IT),
        view(DE, 3, 2, 2, DE, IT),
        view(DE, 5, 3, 3, DE, IT, FR),
    )


def test_two_sides_at_once_are_found() -> None:
    (offence,) = found(
        view(FR, 1, 1, 1, FR, DE, IT),
        [row(FR, 4, "blocked")],
        view(DE, 3, 2, 2, DE, IT),
        [row(DE, 9, "closing")],
    )
    assert offence == f"at 3.000 {FR} lives with fence 1, and {DE} with 2 without it"


def test_rows_that_say_what_changed_make_a_list_too() -> None:
    changed = [
        row(DE, 3, "view", member=f"{FR}/p#1", change="left", view="2.0 x", fence=2),
        row(DE, 3, "view", change="kept", view="2.0 x", fence=2),
        row(DE, 9, "closing"),
    ]
    (offence,) = found(
        view(FR, 1, 1, 1, FR, DE, IT), [row(FR, 4, "blocked")], view(DE, 1, 1, 1, FR, DE, IT), changed
    )
    assert "without it" in offence


def test_an_agent_that_stands_still_does_not_live_meanwhile() -> None:
    rows = (
        view(FR, 1, 1, 1, FR, DE, IT),
        [row(FR, 4, "blocked")],
        view(DE, 3, 2, 2, DE, IT),
        [row(DE, 9, "closing")],
    )
    assert not found(*rows, stood=(Stood(FR, 2.0, 3.9),))
    assert found(*rows, stood=(Stood(FR, 3.5, 3.9),)), "it lived before it was stopped"
    assert found(*rows, stood=(Stood(DE, 3.5, 3.9),))


def test_fences_of_two_views_and_fences_that_fall_are_found() -> None:
    assert found(view(FR, 1, 1, 7, FR, DE), [row(FR, 2, "blocked")], view(DE, 3, 1, 7, DE, IT)) == [
        f"fence 7 is view 1.0 {FR}+{DE}, and 1.0 {DE}+{IT} at {DE}"
    ]
    (fell,) = found(view(FR, 1, 2, 7, FR), [row(FR, 2, "blocked")], view(FR, 3, 3, 6, FR))
    assert fell == f"{FR} was given fence 6 after 7"
