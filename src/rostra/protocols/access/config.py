"""The installed authorities, and the bounds of what they sign."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.errors import BadInput
from rostra.names import PublicName, parse_group_name

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

CHAIN_MAX: Final = 16
"""Delegations between an installed authority and the one that signs."""

CREDENTIAL_BYTES_MAX: Final = 1_024

SEALED_BYTES_MAX: Final = 2_048
"""A credential and the name of a group, under seal."""

PERMITTED_MAX: Final = 8_192
"""Proofs that one agent keeps, of members and of endpoints that were let in a moment ago or have left."""

LUCK_BYTES: Final = 32
"""Of a program that wants to join: what its questions are sealed with comes from it."""

REVOCATIONS_MAX: Final = 1_024
REVOCATIONS_OF_ROOT_MAX: Final = 256
"""Of one installed authority and those below it: none can take the room of the others."""

REVOCATION_BYTES_MAX: Final = 1_000_000
"""Of all revocations, which are one record; those of one installed authority take a quarter. A chain of long
names takes 6 KB."""

CLOSED_MAX: Final = 4_096
"""Closed groups of one scope. Their list is sent to all servers and agents inside."""

ALLOWED_MAX: Final = 64
"""Domains and hosts in the list of one."""

SHOWN_OF_HOST_MAX: Final = 256
"""Proofs of endpoints of one host that a server keeps for groups which an authority closes."""

SHOWN_AGAIN_S: Final = 5.0
"""How often a server looks whether they have ended."""

SHOWN_AT_ONCE: Final = 64
"""Of these, how many one step looks at. Each costs a third of a millisecond, if it was not seen before."""

GO_ON_S: Final = 0.05
"""After this the next step looks at the next ones: a round through 4,000 takes three seconds."""

ASSIGNED_MAX: Final = 2_000
"""Names of one scope that are assigned; all of them are one record."""

HOLDER_BYTES_MAX: Final = 200
"""Who has a name, as a text for people."""

ASKED_MAX: Final = 256
"""Joins of one host that wait for authorities; of one user, as many as are free."""

ASKED_AT_ONCE: Final = 32
"""Members of an authority's group that are asked for its key about one join. Any program may be in that
group: the one that answered last is asked first."""

SHOWN_MAX: Final = 8
"""Of those that show the key, so many are asked about one join: one that is silent then holds up no join."""

FALSE_MAX: Final = 8
"""False keys and answers of one program about one join: what it says then is not examined any more. Each
costs signatures to check, and a row of the journal."""

LATE_MAX: Final = 64
"""Settled questions of one endpoint that are kept, to recognise late answers to them."""

RETURNED_S: Final = 10.0
"""For so long a question that could not be delivered comes back. Raising it: a program that writes to its
authority itself does not hear for longer that this did not reach it."""

TRUSTED_MAX: Final = 1_024
"""Authorities of which an agent remembers the program that answered last."""


class AccessConfig(Struct, frozen=True, array_like=True):
    """`authorities` are those of the world file, each with its public key. `t_auth_s` is how long an agent
    waits for an authority. Raising it: a join of a name whose authority is away is refused later."""

    authorities: tuple[
        tuple[str, Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]], ...
    ] = ()
    t_auth_s: float = 5.0


def check_authorities(names: list[str]) -> None:
    """The name space is divided without overlap (S-013)."""
    for name in names:
        if not isinstance(parse_group_name(name), PublicName):
            raise BadInput(f"authority {name!r} is no structured name", fix="write acme, or acme/hr")
    for name in names:
        for other in names:
            if name != other and is_below(other, name):
                raise BadInput(
                    f"authority {name!r} is installed below {other!r}",
                    fix=f"let {other!r} establish it: rostra authority delegate",
                )


def is_below(above: str, name: str) -> bool:
    return name.startswith(f"{above}/")
