"""A node without a state directory comes back with its clock set back: it says so, its neighbour says so, and
it is let in as soon as its earlier life is forgotten."""

import sys
from collections.abc import Iterator

import pytest
from support.lab import FORGIVING, Lab, until

SET_BACK = """
import time
now_ns = time.time_ns
time.time_ns = lambda: now_ns() - 3600 * 10**9
from rostra.cli import main
main()
"""


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(
        tmp_path_factory.mktemp("forgetful"),
        servers=("eu",),
        hosts=("eu.h1", "eu.h2"),
        namespaces=False,
        state=False,
        more=FORGIVING,
    ) as lab:
        yield lab


def says_why(lab: Lab, node: str, event: str) -> list[str]:
    return [line for line in lab[node].log.splitlines() if f" {event} " in line and "went back" in line]


@pytest.mark.spec("C-005", "C-182")
@pytest.mark.parametrize("node", ["eu.h1", "eu"])
async def test_a_node_whose_clock_went_back_says_so_and_is_let_in(
    forgetful: Lab, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, other = forgetful, "eu" if node == "eu.h1" else "eu.h1"
    await lab.calm()
    before = (await lab.inspect(node))["incarnation"]
    lab[node].kill()
    monkeypatch.setattr("support.lab.ROSTRA", (sys.executable, "-c", SET_BACK))
    lab[node].start()
    for place in (node, other):
        # Whoever calls is refused, and the other refuses; which of them does so depends on who was restarted.
        await until(
            lambda place=place: says_why(lab, place, "refused") or says_why(lab, place, "link_refused"),
            f"{place} says why",
        )
    await lab.calm()
    assert (await lab.inspect(node))["incarnation"] < before
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("eu.h2", "bob") as bob,
        ann.join("clocks") as anns,
        bob.join("clocks") as bobs,
    ):
        await until(lambda: len(anns.members) == len(bobs.members) == 2, "both are in one group")
    # As it was: the next life is of today again.
    lab[node].kill()
    monkeypatch.undo()
    await lab.calm()
