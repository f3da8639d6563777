"""Every timer and bound of groups whose scope is not fixed, and of questions from outside a scope."""

from typing import Final

from msgspec import Struct

POINTERS_OF_HOST_MAX: Final = 1_024
"""Open groups that one host is in: each takes a row at every server above it (Z-25)."""

SERVERS_WEIGH: Final = 10
"""How many hosts' share of rows a server below us may have."""

ENTER_AT_ONCE: Final = 256
"""Members of one open group that a step takes into the directory or out of it: some 5 ms. Raising it: links
and pings wait for longer behind a crowd."""

GO_ON_S: Final = 0.001
"""After this the next step goes on with them."""

FOREIGN_OF_HOST_MAX: Final = 128
"""Questions of one host about scopes that it is not in, which are not answered yet; of one user, as many as
are free."""


FOREIGN_MAX: Final = 4_096
"""The same of all hosts, at one cluster."""


class ScopesConfig(Struct, frozen=True, kw_only=True):
    """The settings of a world; all of its nodes have the same.

    `contract_after_s`
        All members of an open group have been below one child of its scope for so long: then the scope
        becomes that child's. Raising it: fewer moves where members come and go, and traffic that stays above
        for longer.
    `linger_s`
        A host that moved to another scope stays in the old one for so long, until the others have moved too.
        It must be longer than a message takes to all hosts of the old scope. Lowering it: members may be
        seen to leave and come back while a scope moves.
    `foreign`
        May groups of a scope be resolved from outside of it?
    `foreign_s`
        How long such an answer may take.
    """

    contract_after_s: float = 30.0
    linger_s: float = 5.0
    foreign: bool = False
    foreign_s: float = 10.0
