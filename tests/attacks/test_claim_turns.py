"""A claim costs as much where thousands are held, whatever a server writes down between two of them."""

from collections.abc import Iterator

import pytest

from rostra.core.records import KeyedRecord, Records
from rostra.names import Domain, Group
from rostra.protocols.claims.messages import Claim
from rostra.protocols.relaxed.messages import MessageId
from tests.attacks.test_agreed import MAJORITY, PARIS, Cluster

H1 = Domain("eu.fr.h1")


def claim(paris: Cluster, number: int) -> None:
    paris.receive(H1, Claim(MessageId(H1, 1, number), H1, Group(f"c{number}", PARIS), MAJORITY))


def test_commits_between_claims_do_not_have_all_claims_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit of a group with a rule is a record; for it all claims of the scope were decoded anew."""
    paris = Cluster("eu.fr.h1", "eu.fr.h2")
    for number in range(50):
        claim(paris, number)
    read: list[str] = []
    under = Records.under

    def watched(records: Records, prefix: str) -> Iterator[KeyedRecord]:
        read.append(prefix)
        return under(records, prefix)

    monkeypatch.setattr(Records, "under", watched)
    for number in range(50, 60):
        paris.join("h2", f"bob{number}", kind=MAJORITY)
        claim(paris, number)
    assert read == []
    assert len(paris.group().view.members) == 10
