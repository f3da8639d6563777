"""Authorities as processes of their own: killed, started again, and one in the middle revoked."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab import Lab, until

from rostra import Message
from rostra.client.authority import establish, make_key, write_key
from rostra.errors import AuthUnavailable, Excluded, NotAuthorised

EXAMPLE = Path(__file__).parents[2] / "examples" / "authority.py"
LONG_MS = 2**50


@contextlib.contextmanager
def serving(lab: Lab, host: str, key: Path, allowed: Path) -> Iterator["subprocess.Popen[str]"]:
    """The example, as a process."""
    environment = {**os.environ, "ROSTRA_AGENT": lab.socket(host)}
    command = [sys.executable, str(EXAMPLE), str(key), str(allowed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "we decide\n"
            yield process
        finally:
            process.kill()
            process.wait()


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
    lab = Lab(
        tmp_path,
        servers=("lab",),
        hosts=("lab.h1", "lab.h2"),
        together=(("lab", "lab.h1"),),
        namespaces=False,
        more=f"[authorities]\n{top.line}\n",
    )
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
