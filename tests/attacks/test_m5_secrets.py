"""M5: keys, tokens and tickets are in no log, journal, recording, document or archive: searched for by value.
What holds messages or state is closed to other users, whatever the umask."""

import asyncio
import base64
import re
import signal
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from support import lab as labs
from support.cluster import rostra
from support.lab import FORGIVING, Lab, until

from rostra.client import connect_admin
from rostra.groups.attributes import DelegateAttributes
from rostra.journal.segments import read
from rostra.journal.writer import INPUTS, unpacked
from rostra.observe.veil import stand_in, without_keys
from rostra.protocols.channel.messages import KEY_BYTES
from rostra.protocols.fifo.messages import encode
from rostra.sim.replay import recordings, replay

TOKEN = "open-sesame-m5"

SEEN = """
import os, secrets
made = secrets.token_bytes
def token_bytes(size=None):
    secret = made(size)
    with open({file!r}, "a") as file:
        file.write(secret.hex() + "\\n")
    return secret
secrets.token_bytes = token_bytes
os.umask(0)
from rostra.cli import main
main()
"""
"""A daemon like any other, which tells us the secrets that it makes, and was started by a careless user."""


class Secretive(Lab):
    """Two clusters that talk, keep journals and record; afterwards they are stopped."""

    def __init__(self, directory: Path) -> None:
        (directory / "token").write_text(TOKEN)
        super().__init__(
            directory,
            servers=("eu", "us"),
            hosts=("eu.h1", "us.h1"),
            namespaces=False,
            more=f'[agents]\ntoken_file = "{directory}/token"\nlisten = "127.0.0.1:0"\n{FORGIVING}'
            f'[journal]\nat = "{directory}/journal"\nrecord = true\n',
        )
        self.documents: list[Any] = []

    @property
    def secrets(self) -> set[bytes]:
        made = {bytes.fromhex(line) for line in (self.directory / "made").read_text().split()}
        return {*made, TOKEN.encode()}

    async def talk(self) -> None:
        async with (
            self.program("eu.h1", "ann") as ann,
            self.program("us.h1", "bob") as bob,
            ann.join("chess", delivery="fifo") as says,
            bob.join("chess", delivery="fifo") as hears,
        ):
            await says.ready(deadline_s=labs.WITHIN_S)
            await until(lambda: len(says.members) == len(hears.members) == 2, "both are in it")
            await says.send(b"e4")
            async for item in hears:
                if getattr(item, "body", b"") == b"e4":
                    break
            for node in (*self.servers, *self.hosts):
                async with connect_admin(self.socket(node), domain=node) as admin:
                    self.documents.append(await admin.inspect())
            archive = self.directory / "debug.tar.gz"
            words = ("debug", "-a", self.socket("eu.h1"), "-f", str(archive), "--attachments")
            assert (await asyncio.to_thread(rostra, *words, env={"ROSTRA_TOKEN": TOKEN})).code == 0


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secretive]:
    lab = Secretive(tmp_path_factory.mktemp("secretive"))
    with pytest.MonkeyPatch.context() as patch:
        program = SEEN.format(file=str(lab.directory / "made"))
        patch.setattr(labs, "ROSTRA", (sys.executable, "-c", program))
        asyncio.run(lab.start())
    try:
        asyncio.run(lab.talk())
        for node in (*lab.hosts, *lab.servers):
            lab[node].signal(signal.SIGTERM)
            assert lab[node].wait() == 0
        yield lab
    finally:
        lab.close()


@pytest.mark.live
def test_no_secret_is_written_anywhere(talked: Secretive) -> None:
    said: dict[str, bytes] = {
        f"log of {log.stem}": log.read_bytes() for log in talked.directory.glob("*.log")
    }
    said["journal"] = repr(read(talked.directory / "journal").to_pylist()).encode()
    for part in (talked.directory / "journal" / INPUTS).iterdir():
        said[part.name] = unpacked(part.read_bytes())
    with tarfile.open(talked.directory / "debug.tar.gz") as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            said[entry.name] = with_decoded(file.read())
    for document in talked.documents:
        said[f"document of {document['node']}"] = with_decoded(msgspec.json.encode(document))
    for file in (talked.directory / "state").iterdir():
        said[f"state {file.name}"] = file.read_bytes()
    keys = [secret for secret in talked.secrets if len(secret) == KEY_BYTES]
    assert len(keys) >= 4, "two of each cluster"
    assert sum(name.endswith(".inputs") for name in said) >= 4 and len(said) > 20
    found = [
        (name, secret)
        for name, text in said.items()
        for secret in talked.secrets
        if secret in text or secret.hex().encode() in text.lower()
    ]
    assert not found


def with_decoded(text: bytes) -> bytes:
    """And what is in it as base64: that is how JSON holds bytes."""
    inner = [
        base64.b64decode(each)
        for each in re.findall(rb'"((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/=]{4}))"', text)
    ]
    return b"\n".join((text, *inner))


@pytest.mark.live
def test_recordings_without_keys_replay_byte_for_byte(talked: Secretive) -> None:
    """They hold what was told of keys: a node that was recorded without it would do something else."""
    found = recordings(talked.directory / "journal")
    assert {each.path for each in found} == {"eu", "us", "eu.h1", "us.h1"}
    assert [each.difference for each in map(replay, found)] == [None] * len(found)
    servers = [each for each in found if each.path in talked.servers]
    for server in servers:
        whole = b"".join(unpacked(part.read_bytes()) for part in server.parts)
        stand_ins = {stand_in(key).hex().encode() for key in talked.secrets if len(key) == KEY_BYTES}
        assert sum(each in whole for each in stand_ins) == 2, "its own, and the other cluster's"


@pytest.mark.live
def test_what_is_private_is_closed_whatever_the_umask(talked: Secretive) -> None:
    modes = {
        path.relative_to(talked.directory): path.stat().st_mode & 0o777
        for top in ("state", "journal")
        for path in (talked.directory / top, *(talked.directory / top).rglob("*"))
    }
    wrong = {
        str(path): oct(mode)
        for path, mode in modes.items()
        if mode
        & ~(
            0o700
            if path == Path("state")
            else 0o600
            if path.parts[0] == "state" or path.suffix == ".inputs"
            else 0o750
            if (talked.directory / path).is_dir()
            else 0o640
        )
    }
    assert wrong == {} and len(modes) > 10


# What stands for a key

ADDRESSES = st.sampled_from(["10.0.0.5:7700", "[::1]:1", "a.very-long_name.example.org:65535"])
KEYS = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)


@given(ADDRESSES, KEYS, st.sampled_from(["", " 239.192.0.1:7790"]), st.binary(max_size=40))
def test_a_key_is_replaced_at_any_depth(at: str, key: bytes, multicast: str, around: bytes) -> None:
    attached = encode(DelegateAttributes(f"{at} {key.hex()}{multicast}"))
    nested = msgpack.encode([around, {"meta": attached, "n": [msgpack.encode((attached, "61626364"))]}])
    veiled = without_keys(nested)
    assert len(veiled) == len(nested) and without_keys(veiled) == veiled
    assert veiled.count(stand_in(key).hex().encode()) == 2
    other = msgpack.decode(veiled)
    assert other[0] == around and other[1]["meta"] == encode(
        DelegateAttributes(f"{at} {stand_in(key).hex()}{multicast}")
    )


@given(st.sampled_from([1, KEY_BYTES - 1, KEY_BYTES + 1, 64]), st.data())
def test_what_is_no_key_of_ours_is_left_alone(size: int, data: st.DataObject) -> None:
    """Hostile lengths: digits that follow an address by chance belong to something else."""
    key = data.draw(st.binary(min_size=size, max_size=size))
    encoded = msgpack.encode([f"10.0.0.5:7700 {key.hex()}", *b"0123456789abcdef0123456789abcdef"])
    assert without_keys(encoded) == encoded
