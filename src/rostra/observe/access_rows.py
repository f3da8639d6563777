"""The scribe's rows about access: joins granted and refused, memberships ended. Never a proof or a key."""

from collections.abc import Callable
from typing import Any

from rostra.journal.entries import Sheet
from rostra.protocols.access.events import AccessEnded, AccessGranted, AuthorityRevoked, NameUnassigned
from rostra.protocols.claims.server import ClaimRefused
from rostra.protocols.led.observed import LeaderRefused
from rostra.protocols.relaxed.gate import AccessRefused


def access_rows(sheet: Sheet) -> dict[type, Callable[[Any], None]]:
    def granted(seen: AccessGranted) -> None:
        sheet.write("access-granted", member=seen.endpoint, group=str(seen.group))

    def refused(seen: AccessRefused) -> None:
        sheet.write(
            "access-refused",
            member=seen.endpoint,
            group=str(seen.group),
            what=seen.why[:200],
            peer=seen.source,
        )

    def no_leader(seen: LeaderRefused) -> None:
        sheet.write("access-refused", group=str(seen.group), what=seen.why[:200], peer=seen.agent)

    def no_claim(seen: ClaimRefused) -> None:
        sheet.write("access-refused", group=str(seen.group), what=seen.why[:200], peer=seen.claimer)

    def ended(seen: AccessEnded) -> None:
        sheet.write("access-ended", member=seen.endpoint, group=str(seen.group), what=seen.why[:200])

    def revoked(seen: AuthorityRevoked) -> None:
        sheet.write("access-revoked", what=f"{seen.authority} by {seen.by}"[:200])

    def unassigned(seen: NameUnassigned) -> None:
        sheet.write("access-unassigned", group=str(seen.group), peer=seen.claimer)

    return {
        AccessGranted: granted,
        AccessRefused: refused,
        ClaimRefused: no_claim,
        AccessEnded: ended,
        LeaderRefused: no_leader,
        AuthorityRevoked: revoked,
        NameUnassigned: unassigned,
    }
