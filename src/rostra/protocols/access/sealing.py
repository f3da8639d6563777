"""Credentials under seal: only the authority's program that showed its key can read what a joiner shows it.

    joiner: a fresh X25519 key ──┐
    authority: its X25519 key, ──┴── HKDF-SHA256 ──▶ one key for one message ── ChaCha20-Poly1305 ──▶ sealed
    signed with the authority's

The construction is that of HPKE's base mode (RFC 9180), of the same primitives; it binds the world, the
question and the asker, so that a sealed credential is of no use in another question. The key of the joiner is
made from its program's luck, which comes in with the request: all functions here are pure.

Recordings hold neither the credential nor the luck, which would open the seal. What comes back to a node must
be the same when it is replayed: so nonces are made of a digest of the luck (`told_of`), which they hold.
"""

from hashlib import blake2b
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rostra.protocols.access.config import KEY_BYTES, LUCK_BYTES

ONCE: Final = bytes(12)
"""The cipher's nonce: each key seals one message."""


_DIGEST: Final = bytes(6)
"""How digests of luck begin. Luck of one in 2**48 programs does, too, and is taken for its own digest."""


def told_of(luck: bytes) -> bytes:
    """What may be known of luck: a digest of the same size, which is its own digest."""
    if len(luck) != LUCK_BYTES or luck.startswith(_DIGEST):  # another size is refused
        return luck
    return _DIGEST + blake2b(luck, digest_size=LUCK_BYTES - len(_DIGEST), person=b"rostra luck").digest()


def drawn(luck: bytes, what: str, *parts: bytes) -> bytes:
    """32 bytes that none can guess who does not have the luck; other ones for each purpose."""
    words = b"".join([len(part).to_bytes(4, "big") + part for part in (what.encode(), *parts)])
    return blake2b(words, key=luck, digest_size=KEY_BYTES).digest()


def seal(secret: bytes, to: bytes, text: bytes, plain: bytes) -> tuple[bytes, bytes] | None:
    """Our key for this one message, and the message; None if the other's is no key. `text` is bound to it."""
    ours = X25519PrivateKey.from_private_bytes(secret)
    mine = ours.public_key().public_bytes_raw()
    key = _shared(ours, to, mine, to)
    return None if key is None else (mine, ChaCha20Poly1305(key).encrypt(ONCE, plain, text))


def unseal(secret: bytes, sender: bytes, text: bytes, sealed: bytes) -> bytes | None:
    """None if it was not sealed for us, with this text."""
    ours = X25519PrivateKey.from_private_bytes(secret)
    key = _shared(ours, sender, sender, ours.public_key().public_bytes_raw())
    try:
        return None if key is None else ChaCha20Poly1305(key).decrypt(ONCE, sealed, text)
    except InvalidTag:
        return None


def public_half(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def _shared(ours: X25519PrivateKey, other: bytes, sender: bytes, receiver: bytes) -> bytes | None:
    try:
        secret = ours.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:  # a point of small order: the secret would be known to all
        return None
    info = b"rostra access 1 seal" + sender + receiver
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)
