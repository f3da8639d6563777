"""What authorities sign: proofs of members, delegations, revocations, their own keys, and their answers.

    installed key ── signs ──▶ Delegation a/b ── its key signs ──▶ Delegation a/b/c ── its key signs ──▶ Proof
    (world file)                    └────────────── chain of the proof ──────┘            of one member

An authority is valid if its chain up to an installed one is: each link names the one below it, with its key
and an end, and is signed by the key above (S-014). A proof is bound to the world, the group, the endpoint
with its incarnation, and a time (S-012). All functions here are pure; keys come in as bytes.
"""

from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta, Struct

from rostra.errors import UNDECODABLE
from rostra.groups.attributes import PROOF_BYTES_MAX
from rostra.names import Endpoint, Group
from rostra.names.checks import Natural
from rostra.protocols.access.config import (
    CHAIN_MAX,
    CREDENTIAL_BYTES_MAX,
    KEY_BYTES,
    SEALED_BYTES_MAX,
    SIGNATURE_BYTES,
)
from rostra.protocols.access.sealing import drawn, seal, unseal

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
AuthorityName = Annotated[str, Meta(min_length=1, max_length=255)]
Nonce = Annotated[bytes, Meta(min_length=8, max_length=32)]


class Delegation(Struct, frozen=True, array_like=True):
    """The authority above establishes this one."""

    name: AuthorityName
    key: Key
    until_ms: Natural
    signature: Signature


Chain = Annotated[tuple[Delegation, ...], Meta(max_length=CHAIN_MAX)]
"""From the one below an installed authority down to the signer; empty if the signer is installed."""


class Proof(Struct, frozen=True, array_like=True):
    from_ms: Natural
    until_ms: Natural
    signature: Signature
    chain: Chain = ()


class Revocation(Struct, frozen=True, array_like=True):
    """An authority is valid no more under that key, nor is any below it; signed by one above."""

    name: AuthorityName
    key: Key
    by: AuthorityName
    signature: Signature
    chain: Chain = ()


class AuthorityAsked(Struct, frozen=True):
    """What an authority decides about: an endpoint wants to join. It travels sealed (`SealedQuestion`)."""

    nonce: bytes
    group: Group
    endpoint: Endpoint
    credential: bytes = b""


class KeyAsked(Struct, frozen=True, array_like=True, tag_field="kind", tag=3):
    """An agent asks a program of the authority's group: show that you have its key. Any program may be in
    that group, and learns from this that its sender wants to ask, and no more."""

    nonce: Nonce


class KeyShown(Struct, frozen=True, array_like=True, tag_field="kind", tag=4):
    """Seal it for this key. The signature is the authority's, over the nonce and the asker: what was shown to
    another one is worth nothing."""

    nonce: Nonce
    seal_key: Key
    signature: Signature
    chain: Chain = ()


class SealedQuestion(Struct, frozen=True, array_like=True, tag_field="kind", tag=5):
    """The group and the credential, for the one that showed its key."""

    nonce: Nonce
    key: Key  # of the asker, for this message
    sealed: Annotated[bytes, Meta(max_length=SEALED_BYTES_MAX)]


class AuthorityAnswer(Struct, frozen=True, array_like=True, tag_field="kind", tag=2):
    """Yes with a proof, or no with a reason. The signature covers the nonce and the asker: a refusal by any
    other program is no answer, and one to another question or another endpoint none to this."""

    nonce: Nonce
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]  # empty: no
    why: Annotated[str, Meta(max_length=200)]
    signature: Signature
    chain: Chain = ()


class Signer:
    """An authority's name, its key, and what makes it valid."""

    def __init__(self, name: str, private_key: bytes, chain: Chain = ()) -> None:
        self.name = name
        self.chain = chain
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)

    @property
    def key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def proof(self, world: str, group: Group, endpoint: Endpoint, from_ms: int, until_ms: int) -> Proof:
        said = proof_text(world, group, endpoint, from_ms, until_ms)
        return Proof(from_ms, until_ms, self._key.sign(said), self.chain)

    def delegation(self, world: str, name: str, key: bytes, until_ms: int) -> Delegation:
        return Delegation(name, key, until_ms, self._key.sign(delegation_text(world, name, key, until_ms)))

    def revocation(self, world: str, name: str, key: bytes) -> Revocation:
        said = revocation_text(world, name, key, self.name)
        return Revocation(name, key, self.name, self._key.sign(said), self.chain)

    def answer(
        self, world: str, asked: AuthorityAsked, proof: Proof | None, why: str = ""
    ) -> AuthorityAnswer:
        data = b"" if proof is None else msgspec.msgpack.encode(proof)
        said = answer_text(world, asked.nonce, asked.endpoint, data, why)
        return AuthorityAnswer(asked.nonce, data, why, self._key.sign(said), self.chain)

    def show(self, world: str, asked: KeyAsked, asker: Endpoint, seal_key: bytes) -> KeyShown:
        said = key_text(world, self.name, asked.nonce, asker, seal_key)
        return KeyShown(asked.nonce, seal_key, self._key.sign(said), self.chain)


def proof_text(world: str, group: Group, endpoint: Endpoint, from_ms: int, until_ms: int) -> bytes:
    return _text("proof", world, group.name, group.scope, endpoint, from_ms, until_ms)


def delegation_text(world: str, name: str, key: bytes, until_ms: int) -> bytes:
    return _text("delegation", world, name, key, until_ms)


def revocation_text(world: str, name: str, key: bytes, by: str) -> bytes:
    return _text("revocation", world, name, key, by)


def answer_text(world: str, nonce: bytes, asker: Endpoint, proof: bytes, why: str) -> bytes:
    return _text("answer", world, nonce, asker, proof, why)


def key_text(world: str, authority: str, nonce: bytes, asker: Endpoint, seal_key: bytes) -> bytes:
    return _text("key", world, authority, nonce, asker, seal_key)


def question_text(world: str, authority: str, nonce: bytes, asker: Endpoint) -> bytes:
    """What a sealed question is bound to."""
    return _text("question", world, authority, nonce, asker)


def sealed_question(
    luck: bytes, text: bytes, shown: KeyShown, group: Group, credential: bytes
) -> SealedQuestion | None:
    """None if what was shown is no key."""
    secret = drawn(luck, "seal", shown.nonce, shown.seal_key)
    found = seal(secret, shown.seal_key, text, msgspec.msgpack.encode((group, credential)))
    return None if found is None else SealedQuestion(shown.nonce, *found)


def opened_question(
    secret: bytes, text: bytes, asker: Endpoint, asked: SealedQuestion
) -> AuthorityAsked | None:
    plain = unseal(secret, asked.key, text, asked.sealed)
    try:
        group, credential = _questions.decode(plain or b"")
    except UNDECODABLE:
        return None
    return AuthorityAsked(asked.nonce, group, asker, credential)


def _text(what: str, *parts: str | bytes | int) -> bytes:
    """What is signed: no two records of two kinds are the same bytes."""
    return msgspec.msgpack.encode((f"rostra access 1 {what}", *parts))


def is_signed(key: bytes, signature: bytes, said: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, said)
    except (InvalidSignature, ValueError):
        return False
    return True


_proofs: Final = msgspec.msgpack.Decoder(Proof)
_revocations: Final = msgspec.msgpack.Decoder(Revocation)
_asked: Final[msgspec.msgpack.Decoder[KeyAsked | SealedQuestion]] = msgspec.msgpack.Decoder(
    KeyAsked | SealedQuestion
)
_answers: Final[msgspec.msgpack.Decoder[KeyShown | AuthorityAnswer]] = msgspec.msgpack.Decoder(
    KeyShown | AuthorityAnswer
)
_questions: Final = msgspec.msgpack.Decoder(
    tuple[Group, Annotated[bytes, Meta(max_length=CREDENTIAL_BYTES_MAX)]]
)


def decode_proof(data: bytes) -> Proof | None:
    try:
        return _proofs.decode(data) if len(data) <= PROOF_BYTES_MAX else None
    except UNDECODABLE:
        return None


def decode_revocation(data: bytes) -> Revocation | None:
    try:
        return _revocations.decode(data)
    except UNDECODABLE:
        return None


def decode_asked(data: bytes) -> KeyAsked | SealedQuestion | None:
    try:
        return _asked.decode(data)
    except UNDECODABLE:
        return None


def decode_answer(data: bytes) -> KeyShown | AuthorityAnswer | None:
    try:
        return _answers.decode(data)
    except UNDECODABLE:
        return None
