"""Authorities as processes of their own: killed, started again, and one in the middle revoked."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab import WITHIN_S, Lab, until

from rostra import Me, Message
from rostra.client import connect_admin
from rostra.client.authority import establish, make_key, write_key
from rostra.errors import AuthUnavailable, Excluded, NotAuthorised

EXAMPLE = Path(__file__).parents[2] / "examples" / "authority.py"
LONG_MS = 2**50


@contextlib.contextmanager
def serving(
    lab: Lab, host: str, key: Path, allowed: Path, lifetime_s: float = 60.0
) -> Iterator["subprocess.Popen[str]"]:
    """The example, as a process."""
    environment = {**os.environ, "ROSTRA_AGENT": lab.socket(host)}
    command = [sys.executable, str(EXAMPLE), str(key), str(allowed), str(lifetime_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "we decide\n"
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                assert process.wait(WITHIN_S) == 0  # and no traceback
        finally:
            process.kill()
            process.wait()


def a_lab(tmp_path: Path, line: str) -> Lab:
    return Lab(
        tmp_path,
        servers=("lab",),
        hosts=("lab.h1", "lab.h2"),
        together=(("lab", "lab.h1"),),
        namespaces=False,
        more=f"[authorities]\n{line}\n",
    )


@pytest.mark.spec("S-011", "S-012", "S-014", "XS-18")
async def test_authorities_that_are_killed_started_again_and_revoked(tmp_path: Path) -> None:
    top = make_key("acme", "lab")
    top, middle = establish(top, "hr", LONG_MS)
    middle, lowest = establish(middle, "fr", LONG_MS)
    for name, key in (("top", top), ("lowest", lowest)):
        write_key(tmp_path / name, key, is_new=True)
    assert (tmp_path / "top").stat().st_mode & 0o777 == 0o600
    allowed = tmp_path / "allowed"
    allowed.write_text("lab.h1\nword:open sesame\n")
    lab = a_lab(tmp_path, top.line)
    await lab.start()
    try:
        async with lab.program("lab.h1", "ann") as ann, lab.program("lab.h2", "eve") as eve:
            with serving(lab, "lab.h2", tmp_path / "top", allowed) as process:

                async def in_group() -> bool:
                    return (await ann.resolve("authority/acme", fresh=True)).members != ()

                await until(in_group, "the authority is in its group")
                async with ann.join("acme!payroll") as payroll, eve.watch("acme!payroll") as watch:
                    await watch.ready()
                    with pytest.raises(NotAuthorised, match="not on the list"):
                        await eve.join("acme!payroll")
                    (word := tmp_path / "word").write_text("open sesame\n")
                    join = ["join", "acme!payroll", "--credential-file", str(word), "--", "true"]
                    subprocess.run(
                        [sys.executable, "-m", "rostra", *join],
                        env={**os.environ, "ROSTRA_AGENT": lab.socket("lab.h2")},
                        check=True,
                        capture_output=True,
                    )
                    process.kill()
                    process.wait()
                    with pytest.raises(AuthUnavailable):
                        await eve.join("acme!payroll", credential=b"open sesame")
                    assert [each.endpoint for each in payroll.members] == [ann.endpoint]  # it stays
                    with serving(lab, "lab.h1", tmp_path / "top", allowed):
                        await until(in_group, "it is in its group again")
                        async with eve.join("acme!payroll", credential=b"open sesame"):
                            assert len((await ann.resolve("acme!payroll", fresh=True)).members) == 2
            with serving(lab, "lab.h1", tmp_path / "lowest", allowed):

                async def below() -> bool:
                    return (await eve.resolve("authority/acme/hr/fr", fresh=True)).members != ()

                await until(below, "the lowest authority is in its group")
                stay = await ann.join("acme/hr/fr!payroll", scope="lab", membership="led")
                agreed = {"scope": "lab", "membership": "agreed", "delivery": "fifo"}
                board = await ann.join("acme/hr/fr!board", **agreed)
                with pytest.raises(NotAuthorised, match="not on the list"):
                    await eve.join("acme/hr/fr!board", credential=b"sesame", **agreed)
                async with eve.join("acme/hr/fr!board", credential=b"open sesame", **agreed) as other:
                    await other.send(b"hello")
                    async for item in board:
                        if isinstance(item, Message):
                            assert (item.source, item.body) == (eve.endpoint, b"hello")
                            break
                revoke = ["authority", "revoke", str(tmp_path / "top"), "acme/hr"]
                subprocess.run(
                    [sys.executable, "-m", "rostra", *revoke, "--agent", lab.socket("lab.h2")],
                    check=True,
                    capture_output=True,
                )
                with pytest.raises(NotAuthorised, match="revoked"):
                    async for _ in stay:
                        pass
                with pytest.raises(Excluded, match="revoked"):
                    async for _ in board:
                        pass
                with pytest.raises(AuthUnavailable):
                    await ann.join("acme/hr/fr!payroll")
    finally:
        lab.close()


@pytest.mark.spec("C-167", "S-012", "S-089")
async def test_groups_that_an_authority_closes_while_its_programs_come_and_go(tmp_path: Path) -> None:
    """It is down, answers late, and is killed; a proof ends, and its member has to leave."""
    acme, allowed = make_key("acme", "lab"), tmp_path / "allowed"
    key = tmp_path / "acme"
    write_key(key, acme, is_new=True)
    allowed.write_text("word:open sesame\n")
    lab = a_lab(tmp_path, acme.line)
    await lab.start()
    word = {"scope": "lab", "credential": b"open sesame"}
    try:
        async with (
            lab.program("lab.h1", "ann") as ann,
            lab.program("lab.h2", "eve") as eve,
            connect_admin(lab.socket("lab"), domain="lab") as admin,
            eve.watch("acme!led", "lab") as watch,
        ):

            async def programs() -> int:
                return len((await ann.resolve("authority/acme", fresh=True)).members)

            async def seen(me: Me, group: str) -> list[str]:
                return list((await me.resolve(group, "lab", fresh=True)).endpoints)

            for group in ("acme!led", "acme!plain"):
                await admin.close_group(group)
                with pytest.raises(AuthUnavailable, match="none of its programs is there"):
                    await ann.join(group, **word)
            mail = ann.messages()
            with serving(lab, "lab.h2", key, allowed) as first, serving(lab, "lab.h1", key, allowed) as late:

                async def is_told(count: int) -> bool:
                    return await programs() == count

                await until(lambda: is_told(2), "both programs are in the authority's group")
                late.send_signal(signal.SIGSTOP)  # it answers when the other one has decided
                led = await ann.join("acme!led", membership="led", **word)
                await ann.join("acme!plain", **word)
                for group in ("acme!led", "acme!plain"):
                    assert await seen(ann, group) == [ann.endpoint]
                    assert await seen(eve, group) == [] == await seen(eve, "acme!never")
                with pytest.raises(NotAuthorised, match="not on the list"):
                    await eve.join("acme!led", "lab", membership="led")
                late.send_signal(signal.SIGCONT)
                first.kill()
                first.wait()
                await until(lambda: is_told(1), "the one that is killed has left")
                async with eve.join("acme!led", membership="led", **word):
                    both = sorted([ann.endpoint, eve.endpoint])

                    async def all_see_both() -> bool:
                        lists = [await seen(each, "acme!led") for each in (ann, eve)]
                        watched = [[each.endpoint for each in now.members] for now in (led, watch)]
                        return all(sorted(each) == both for each in (*lists, *watched))

                    await until(all_see_both, "members and the watch of a host that is let in see both")
                await eve.send_to(ann.endpoint, b"of its own")
                assert getattr(await anext(mail), "body", None) == b"of its own", (
                    "late answers are no messages"
                )
            await until(lambda: is_told(0), "no program of the authority is there")
            with serving(lab, "lab.h2", key, allowed, lifetime_s=2.0):
                await until(lambda: is_told(1), "another one is there")
                brief = await ann.join("acme!brief", membership="led", **word)
                assert await seen(eve, "acme!brief") == [ann.endpoint]  # it is not closed yet
                await admin.close_group("acme!brief")
            with pytest.raises(AuthUnavailable, match="has ended"):
                async for _ in brief:
                    pass
            assert await seen(ann, "acme!brief") == []
            assert await seen(ann, "acme!plain") == [ann.endpoint], "others stay"
    finally:
        lab.close()
