"""A set that agrees by multicast and a repeater, on real machines: members come and go, datagrams are forged,
and multicast dies between two servers."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.lab import FORGIVING, Lab, until, why_no_namespaces

from rostra.client import AgreedMembership
from rostra.names import Domain
from rostra.protocols.agreed.casting import SetFrame
from rostra.protocols.agreed.messages import SetEvidence
from rostra.wire.datagrams import SetFrames

SERVERS = ("eu", "eu.de", "eu.fr", "eu.it")
GROUP = ("239.192.0.2", 7470)
REPEATER = ("10.77.0.1", 7471)
SETS = f"""
[sets.eu]
multicast = "{GROUP[0]}:{GROUP[1]}"
repeaters = {{ eu = "{REPEATER[0]}:{REPEATER[1]}" }}
unicast = ["eu.it"]
"""


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if (why := why_no_namespaces()) is not None:
        pytest.skip(f"machines cannot be made here: {why}")
    hosts = [f"{server}.h1" for server in SERVERS[1:]]
    together = [(server, f"{server}.h1") for server in SERVERS[1:]]
    directory = tmp_path_factory.mktemp("sites")
    with Lab(directory, servers=SERVERS, hosts=hosts, together=together, more=FORGIVING + SETS) as lab:
        yield lab


def has(count: int, *groups: AgreedMembership) -> bool:
    views = [group.view for group in groups]
    return len({view and view.id for view in views}) == 1 and all(
        view is not None and len(view.members) == count for view in views
    )


FORGE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
    sock.sendto(bytes.fromhex(sys.argv[4]), (sys.argv[2], int(sys.argv[3])))
"""


async def refused(lab: Lab, node: str) -> int:
    """Datagrams whose seal was not their speaker's."""
    counted = (await lab.inspect(node))["counters"]
    return sum(count for name, count in counted.items() if "not sealed" in name)


@pytest.mark.spec("V-007", "V-111", "V-112", "V-017")
async def test_a_set_agrees_by_multicast_and_by_a_repeater(sites: Lab) -> None:
    async with (
        sites.program("eu.de.h1", "ann") as ann,
        ann.join("chess", "eu", membership="agreed") as anns,
        sites.program("eu.fr.h1", "bob") as bob,
        bob.join("chess", "eu", membership="agreed") as bobs,
        sites.program("eu.it.h1", "eve") as eve,
        eve.join("chess", "eu", membership="agreed") as eves,
    ):
        await until(lambda: has(3, anns, bobs, eves), "one view of three")
        parted = SetEvidence(Domain("eu"), 2**62, 0, ())
        to = (Domain("eu.fr"), Domain("eu.it"))
        forged = SetFrames("lab").pack(
            SetFrame(Domain("eu"), Domain("eu.de"), 2**62, 1, to, parted), bytes(16)
        )
        machine = sites["eu.fr"].machine
        for place in (GROUP, REPEATER):
            words = (machine.address, place[0], str(place[1]), forged.hex())
            subprocess.run(machine.command(sys.executable, "-c", FORGE, *words), check=True)
        await until(lambda: refused(sites, "eu"), "the repeater refuses what no server of the set sealed")
        dropped = f"INPUT -p udp --dport {GROUP[1]} -s {sites['eu.de'].machine.address} -j DROP"
        assert machine.filter(f"-A {dropped}").wait() == 0
        try:  # XV-11: from here on eu.fr receives nothing of eu.de's but over their link
            async with (
                sites.program("eu.de.h1", "joe") as joe,
                joe.join("chess", "eu", membership="agreed") as joes,
            ):
                await until(lambda: joes.view is not None and joes.view.number > 3, "it completes")
        finally:
            assert machine.filter(f"-D {dropped}").wait() == 0
        await until(lambda: has(3, anns, bobs, eves), "all are together again")
