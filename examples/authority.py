"""An authority: it lets those into groups of its name who are on a list, or know the word.

    rostra authority key acme --of example --to acme.key      # and its line into the world file
    python examples/authority.py acme.key allowed.txt
    rostra join 'acme!payroll'                                # from a host in the list

Each line of the list is a domain or host whose programs may join, or `word:` and a shared secret that any
program may show: me.join("acme!payroll", credential=b"open sesame"). It is read again at every question.
A third argument is how many seconds a proof is good; it is renewed when half of that is over.
"""

import asyncio
import contextlib
import hmac
import sys
from pathlib import Path

import rostra
from rostra.client.authority import Authority, AuthorityAsked, read_key
from rostra.names import Domain, inside


def decide(asked: AuthorityAsked, allowed: Path) -> str:
    for line in allowed.read_text().split("\n"):
        kind, _, word = line.strip().partition("word:")
        if word and hmac.compare_digest(word.encode(), asked.credential):
            return ""
        if kind and not word and inside(Domain(kind), asked.endpoint):
            return ""
    return f"{asked.endpoint} is not on the list"


async def main(key: Path, allowed: Path, lifetime_s: float) -> None:
    async with rostra.connect(on_lost="raise") as me:
        authority = Authority(me, read_key(key), lambda asked: decide(asked, allowed), lifetime_s=lifetime_s)
        print("we decide", flush=True)
        await authority.serve()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/authority.py KEY ALLOWED [SECONDS]")
    key, allowed, *lifetime = sys.argv[1:]
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main(Path(key), Path(allowed), float(lifetime[0]) if lifetime else 60.0))
    except (rostra.RostraError, OSError) as error:
        sys.exit(f"error: {error}")
