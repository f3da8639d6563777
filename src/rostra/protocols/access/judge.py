"""Who may be in a group: yes or no, with a reason. Every agent and server asks this one place.

    public name       any endpoint
    restricted name   a member with a proof of the authority left of '!', which has not ended
    transient name    no endpoint by itself: the owner adds members

A **verdict** is a text: why not, or empty for yes. It depends on the name, the endpoint, its proof, the
installed authorities, the revocations that are known here, and the time.

**Time.** Incarnations begin with the wall clock, and the driver's clock goes on from there. If a valid proof
says that it was made later than that, it is later: a node that stood still does not accept what has ended.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Final

import msgspec

from rostra.names import Endpoint, Group, RestrictedName
from rostra.names.groups import relayed_group_name
from rostra.protocols.access.config import (
    REVOCATION_BYTES_MAX,
    REVOCATIONS_MAX,
    REVOCATIONS_OF_ROOT_MAX,
    AccessConfig,
    is_below,
)
from rostra.protocols.access.proofs import (
    AuthorityAnswer,
    Chain,
    KeyShown,
    Revocation,
    answer_text,
    decode_proof,
    delegation_text,
    is_signed,
    key_text,
    proof_text,
    revocation_text,
)
from rostra.protocols.relaxed.gate import CLOSED, ENDED, Gate

VERDICTS_MAX: Final = 32_768
"""Proofs whose signatures are not looked at again. Lowering it: servers with more restricted members than
that verify all of them again and again. Raising it: some 500 bytes for each."""

SKEW_MS_MAX: Final = 300_000
"""How far the clocks of an authority and of a node may be apart."""

KNOWN: Final = "known already"
NO_PROOF: Final = "no proof"
REVOKED: Final = "the authority was revoked"
WRONG_SIGNATURE: Final = "the proof is of another endpoint, name or world, or forged"
NO_AUTHORITY: Final = "no installed authority establishes that one"


class Judge(Gate):
    def __init__(self, world: str, config: AccessConfig, incarnation: int) -> None:
        super().__init__()
        self.world = world
        self.roots = dict(config.authorities)
        self.revoked: dict[tuple[str, bytes], Revocation] = {}
        self._verdicts: OrderedDict[tuple[Group, Endpoint, bytes], tuple[str, int]] = OrderedDict()
        self._began_ms = incarnation
        self._began: float | None = None
        self._seen_ms = 0

    # Time

    def begin(self, now: float) -> None:
        if self._began is None:
            self._began = now

    def restart(self, incarnation: int) -> None:
        self._began_ms, self._began = incarnation, None

    def clock_ms(self, now: float) -> int:
        return max(self._own_clock_ms(now), self._seen_ms)

    def _own_clock_ms(self, now: float) -> int:
        self.begin(now)
        assert self._began is not None
        return self._began_ms + round((now - self._began) * 1000)

    # Proofs

    def why_not(self, now: float, group: Group, endpoint: Endpoint, proof: bytes) -> str:
        if not self.is_by_authority(group) and self.is_closed_to(group, endpoint):
            return CLOSED
        authority = authority_of(group.name)
        if authority is None:
            return ""
        if not proof:
            return NO_PROOF
        key = _key(group, endpoint, proof)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self._examined(now, authority, group, endpoint, proof)
            if len(self._verdicts) > VERDICTS_MAX:
                self._verdicts.popitem(last=False)
        why, until_ms = known
        return why or (ENDED if until_ms <= self.clock_ms(now) else "")

    def _examined(
        self, now: float, authority: str, group: Group, endpoint: Endpoint, data: bytes
    ) -> tuple[str, int]:
        proof = decode_proof(data)
        if proof is None:
            return "the proof cannot be read", 0
        key, until_ms, why = self._key_of(authority, proof.chain)
        if key is None:
            return why, 0
        said = proof_text(self.world, group, endpoint, proof.from_ms, proof.until_ms)
        if not is_signed(key, proof.signature, said):
            return WRONG_SIGNATURE, 0
        # By our own clock: else each proof could move time on from where the last one moved it to, and an
        # authority end the proofs of all others.
        if proof.from_ms - SKEW_MS_MAX <= self._own_clock_ms(now) + SKEW_MS_MAX:
            self._seen_ms = max(self._seen_ms, proof.from_ms - SKEW_MS_MAX)
        return "", min(proof.until_ms, until_ms)

    def until_ms(self, group: Group, endpoint: Endpoint, proof: bytes) -> int:
        """When a proof that was found good ends."""
        why, until_ms = self._verdicts.get(_key(group, endpoint, proof), (NO_PROOF, 0))
        return 0 if why else until_ms

    def is_answer(self, authority: str, asker: Endpoint, answer: AuthorityAnswer, now: float) -> bool:
        """Did that authority sign it?"""
        said = answer_text(self.world, answer.nonce, asker, answer.proof, answer.why)
        return self._is_said(authority, answer, said, now)

    def is_shown(self, authority: str, asker: Endpoint, shown: KeyShown, now: float) -> bool:
        """Did a program that has the authority's key show it to this asker?"""
        said = key_text(self.world, authority, shown.nonce, asker, shown.seal_key)
        return self._is_said(authority, shown, said, now)

    def _is_said(self, authority: str, by: AuthorityAnswer | KeyShown, said: bytes, now: float) -> bool:
        key, until_ms, _ = self._key_of(authority, by.chain)
        return key is not None and until_ms > self.clock_ms(now) and is_signed(key, by.signature, said)

    def _key_of(self, authority: str, chain: Chain) -> tuple[bytes | None, int, str]:
        """The key of an authority by this chain, and when the chain ends; or why it has none."""
        above = authority
        for _ in chain:
            above = above.rpartition("/")[0]
        key = self.roots.get(above)
        if key is None:
            return None, 0, NO_AUTHORITY
        name, until_ms = above, 2**62
        if (name, key) in self.revoked:
            return None, 0, REVOKED
        for link in chain:
            if link.name.rpartition("/")[0] != name:
                return None, 0, NO_AUTHORITY
            said = delegation_text(self.world, link.name, link.key, link.until_ms)
            if not is_signed(key, link.signature, said):
                return None, 0, NO_AUTHORITY
            if (link.name, link.key) in self.revoked:
                return None, 0, REVOKED
            name, key, until_ms = link.name, link.key, min(until_ms, link.until_ms)
        return (key, until_ms, "") if name == authority else (None, 0, NO_AUTHORITY)

    # Revocations

    def revoked_above(self, authority: str) -> str:
        """The highest authority at or above this one of which a key was revoked, or empty."""
        names = [name for name, _ in self.revoked if name == authority or is_below(name, authority)]
        return min(names, key=len, default="")

    def revoke(self, revocation: Revocation) -> str:
        """Believe it, if it is signed by an authority above the revoked one, or by itself: why not, or empty.
        It stays believed for ever."""
        name, by = revocation.name, revocation.by
        if (name, revocation.key) in self.revoked:
            return KNOWN
        if name != by and not is_below(by, name):
            return f"{by} is not above {name}"
        key, _, why = self._key_of(by, revocation.chain)
        if key is None:
            return why
        if name == by and key != revocation.key:
            return f"that is not the key of {by}"
        said = revocation_text(self.world, name, revocation.key, by)
        if not is_signed(key, revocation.signature, said):
            return "the signature is not that authority's"
        # What the revoked one and those below it revoked needs no room any more: all that they established is
        # void. So none can fill the table to keep itself from being revoked.
        before, root = (name, revocation.key), by.split("/")[0]
        kept = {each: said for each, said in self.revoked.items() if before not in self._rests_on(said)}
        sizes = {each: len(msgspec.msgpack.encode(said)) for each, said in kept.items()}
        of_root = [size for (each, _), size in sizes.items() if each.split("/")[0] == root]
        size = len(msgspec.msgpack.encode(revocation))
        if (
            len(of_root) >= REVOCATIONS_OF_ROOT_MAX
            or len(kept) >= REVOCATIONS_MAX
            or sum(of_root) + size > REVOCATION_BYTES_MAX // 4
            or sum(sizes.values()) + size > REVOCATION_BYTES_MAX
        ):
            return f"{len(of_root)} revocations of {root} are kept: install it with another key"
        self.revoked = {**kept, before: revocation}
        self._verdicts.clear()
        return ""

    def _rests_on(self, said: Revocation) -> set[tuple[str, bytes]]:
        """The keys that make its signer an authority."""
        above = said.by.rsplit("/", len(said.chain))[0]
        return {(above, self.roots.get(above, b"")), *[(link.name, link.key) for link in said.chain]}


def authority_of(name: str) -> str | None:
    """The authority that decides about joins of this name; None if it is not restricted."""
    if "!" not in name or "~" in name:
        return None
    parsed = relayed_group_name(name)
    return "/".join(parsed.authority) if isinstance(parsed, RestrictedName) else None


def _key(group: Group, endpoint: Endpoint, proof: bytes) -> tuple[Group, Endpoint, bytes]:
    """The cache key of a verdict: a digest, since a proof with its chain may be long."""
    return group, endpoint, blake2b(proof, digest_size=32).digest()
