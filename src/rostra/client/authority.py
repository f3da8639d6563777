"""Authorities: programs that say who may join groups with restricted names, and the files of their keys.

    acme.key ── Signer ──▶ Authority ── in the group authority/acme ◀── KeyAsked, SealedQuestion ── agents
                               └── decide(asked) ──▶ yes: a proof · no: a reason ──▶

    async with rostra.connect() as me:
        await Authority(me, read_key(Path("acme.key")), decide).serve()

Several programs with one key may serve the same authority: the first answer counts. A key file is JSON, for
its owner alone; it says for which world it signs, and whom it has established (`issued`).
"""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct
from msgspec.structs import replace

from rostra.client.me import Me
from rostra.errors import UNDECODABLE, BadInput, NameTaken
from rostra.groups.items import Message
from rostra.names import PublicName, parse_group_name
from rostra.protocols.access.agent import AUTHORITIES
from rostra.protocols.access.config import KEY_BYTES
from rostra.protocols.access.judge import authority_of
from rostra.protocols.access.proofs import (
    AuthorityAsked,
    Delegation,
    KeyAsked,
    Revocation,
    Signer,
    decode_asked,
    opened_question,
    question_text,
)
from rostra.protocols.access.sealing import public_half

Decide = Callable[[AuthorityAsked], str]
"""Why this endpoint may not join; empty: it may."""

LIFETIME_S = 3_600.0
"""How long a proof is good. It is renewed at half of it: so long may an authority be away without a loss."""


MAKE_ONE = "make one: rostra authority key"


class KeyFile(Struct, frozen=True):
    """What a key file says."""

    name: str
    world: str
    private: str  # hexadecimal
    chain: tuple[Delegation, ...] = ()
    issued: dict[str, str] = {}  # authorities that it has established: their public keys

    @property
    def signer(self) -> Signer:
        return Signer(self.name, bytes.fromhex(self.private), self.chain)

    @property
    def line(self) -> str:
        """As it stands in a world file, under [authorities]."""
        return f'"{self.name}" = "ed25519:{self.signer.key.hex()}"'


def make_key(name: str, world: str) -> KeyFile:
    if not isinstance(parse_group_name(name), PublicName):
        raise BadInput(f"authority {name!r} is no structured name", fix="write acme, or acme/hr")
    return KeyFile(name, world, Ed25519PrivateKey.generate().private_bytes_raw().hex())


def establish(above: KeyFile, label: str, until_ms: int) -> tuple[KeyFile, KeyFile]:
    """A new authority below this one (S-014): the file of the one above as it is now, and the new one's. One
    name has one key: an authority that is to have another is revoked first (S-013)."""
    name = f"{above.name}/{label}"
    if "/" in label:
        raise BadInput(f"{label!r} is more than one step", fix="establish one after the other")
    if name in above.issued:
        raise NameTaken(f"{above.name} has established {name} already", fix="revoke it first")
    key = make_key(name, above.world)
    link = above.signer.delegation(above.world, name, key.signer.key, until_ms)
    issued = {**above.issued, name: key.signer.key.hex()}
    return replace(above, issued=issued), replace(key, chain=(*above.chain, link))


def revoke(above: KeyFile, name: str) -> tuple[KeyFile, Revocation]:
    """The file of the one above as it is now, and the revocation, to be told to any agent or server."""
    key = above.issued.get(name)
    if name == above.name:
        return above, above.signer.revocation(above.world, name, above.signer.key)
    if key is None:
        between = next((each for each in above.issued if name.startswith(f"{each}/")), None)
        fix = f"it has established: {', '.join(sorted(above.issued)) or 'none'}"
        if between is not None:
            fix = (
                f"{between} did, or one below it: use the key of that one, or revoke {between} with all below"
            )
        raise BadInput(f"{above.name} has not established {name}", fix=fix)
    issued = {each: said for each, said in above.issued.items() if each != name}
    return replace(above, issued=issued), above.signer.revocation(above.world, name, bytes.fromhex(key))


def read_key(path: Path) -> KeyFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeyFile)
    except OSError as error:
        raise BadInput(f"cannot read key file {path}: {error.strerror}", fix=MAKE_ONE) from None
    except UNDECODABLE as error:
        raise BadInput(f"{path} is no key file: {error}", fix=MAKE_ONE) from None


def write_key(path: Path, key: KeyFile, *, is_new: bool = False) -> None:
    """For its owner alone, whole or not at all."""
    text = msgspec.json.format(msgspec.json.encode(key), indent=1).decode()
    beside = path.with_name(f"{path.name}.new")
    try:
        if is_new and path.exists():
            raise BadInput(f"{path} is there already", fix="choose another file: a key that is lost is lost")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise BadInput(
            f"cannot write key file {path}: {error.strerror}",
            fix=f"make {path.parent} a directory that you may write to, or choose another place",
        ) from None


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Authority:
    """An authority in one program. `clock` is another one where time is pretended."""

    def __init__(
        self,
        me: Me,
        key: KeyFile,
        decide: Decide,
        *,
        lifetime_s: float = LIFETIME_S,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        if key.world != me.world:
            raise BadInput(
                f"the key of {key.name} is for the world {key.world!r}, and this is {me.world!r}",
                fix="connect to that world, or make another key",
            )
        self._me = me
        self._key = key
        self._signer = key.signer
        self._decide = decide
        self._lifetime_ms = round(lifetime_s * 1000)
        self._clock = clock
        self._secret = secrets.token_bytes(KEY_BYTES)  # of this program: questions are sealed for it

    async def serve(self, *, permanent: bool = False) -> None:
        """Answer until it is cancelled, or the agent is lost. `permanent`: the group is registered."""
        group = f"{AUTHORITIES}{self._key.name}"
        messages = self._me.messages()
        async with self._me.join(group, permanent=permanent, online=False):
            async for message in messages:
                if isinstance(message, Message):
                    await self._answer(message)

    async def _answer(self, message: Message) -> None:
        letter, world, name = decode_asked(message.body), self._key.world, self._key.name
        if letter is None:
            return
        if isinstance(letter, KeyAsked):
            shown = self._signer.show(world, letter, message.sender, public_half(self._secret))
            await self._me.send_to(message.sender, msgspec.msgpack.encode(shown))
            return
        text = question_text(world, name, letter.nonce, message.sender)
        asked = opened_question(self._secret, text, message.sender, letter)
        if asked is None or authority_of(asked.group.name) != name:
            return
        why = self._decide(asked)
        now_ms = self._clock()
        proof = None
        if not why:
            until_ms = now_ms + self._lifetime_ms
            proof = self._signer.proof(world, asked.group, asked.endpoint, now_ms, until_ms)
        answer = self._signer.answer(world, asked, proof, why[:200])
        await self._me.send_to(message.sender, msgspec.msgpack.encode(answer))


def encode_revocation(revocation: Revocation) -> bytes:
    return msgspec.msgpack.encode(revocation)


__all__: list[Any] = [
    "Authority",
    "AuthorityAsked",
    "KeyFile",
    "encode_revocation",
    "establish",
    "make_key",
    "read_key",
    "revoke",
    "write_key",
]
