"""M5: what a program shows an authority is in no recording, nor what would open its seal; and it replays."""

import asyncio
import secrets
from pathlib import Path

import pytest

import rostra
from rostra.client.authority import Authority, make_key
from rostra.errors import NotAuthorised
from rostra.journal.segments import read
from rostra.journal.writer import INPUTS, unpacked
from rostra.observe.veil import without_seals
from rostra.protocols.access.config import LUCK_BYTES
from rostra.protocols.access.sealing import told_of
from rostra.sim import World as Sim
from rostra.sim.journal import SimJournal
from rostra.sim.processes import WORLD_NAME
from rostra.sim.replay import recordings, replay
from rostra.testing import Worlds

WORDS = (b"open sesame of ann", b"a wrong word of eve")
KEY = make_key("acme", WORLD_NAME)


@pytest.mark.spec("S-012")
async def test_credentials_and_their_luck_are_in_no_recording_and_it_replays(
    rostra_world: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SimJournal(tmp_path, record=True)
    monkeypatch.setattr(
        "rostra.testing.world.Sim", lambda *args, **given: Sim(*args, **{**given, "journal": kept})
    )
    lucks: list[bytes] = []
    made = secrets.token_bytes

    def token_bytes(size: int | None = None) -> bytes:
        drawn = made(size)
        if size == LUCK_BYTES:
            lucks.append(drawn)
        return drawn

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    world = rostra_world({"eu.paris": 2}, authorities={"acme": KEY.signer.key})
    async with rostra.connect("eu.paris.h2", name="authority") as me:
        authority = Authority(
            *(me, KEY, lambda asked: "" if asked.credential == WORDS[0] else "no"),
            lifetime_s=40.0,
            clock=lambda: 1_000 + round(world.now * 1_000),
        )
        serving = asyncio.create_task(authority.serve())
        await asyncio.sleep(5.0)
        async with (
            rostra.connect("eu.paris.h1", name="ann") as ann,
            ann.join("acme!payroll", credential=WORDS[0]),
        ):
            with pytest.raises(NotAuthorised):
                await ann.join("acme!board", credential=WORDS[1])
            await asyncio.sleep(60.0)  # and it is asked again, to renew the proof
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    world.sim.close()

    found = recordings(tmp_path)
    assert {each.path for each in found} >= {"eu.paris.h1", "eu.paris.h2"}
    assert [each.difference for each in map(replay, found)] == [None] * len(found)
    written = {part.name: unpacked(part.read_bytes()) for part in (tmp_path / INPUTS).iterdir()}
    written["journal"] = repr(read(tmp_path).to_pylist()).encode()
    assert len(lucks) >= 2
    assert not [(name, each) for name, text in written.items() for each in (*WORDS, *lucks) if each in text]
    of_agent = b"".join(text for name, text in written.items() if name.startswith("eu.paris.h1-"))
    assert sum(told_of(each) in of_agent for each in lucks) == 2, "they were asked, and recorded"


def test_what_is_told_of_luck_is_its_own_digest_and_nothing_else_looks_like_a_seal() -> None:
    luck = bytes(range(1, LUCK_BYTES + 1))
    assert told_of(luck) != luck and told_of(told_of(luck)) == told_of(luck) != told_of(luck[::-1])
    assert len(told_of(luck)) == LUCK_BYTES and told_of(b"short") == b"short"
    head = b"\x94\x05\xc4\x20" + luck + b"\xc4\x20"
    assert without_seals(b"a" + head + luck + b"\xc4\x03abcd") == b"a" + head + bytes(32 + 2 + 3) + b"d"
    for cut in (head + luck, head + luck + b"\xc4\x05abcd", head + luck + b"\xc5\x00"):
        assert without_seals(cut) == cut
