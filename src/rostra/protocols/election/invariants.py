"""What holds for a seat after every step, as plain functions: a list of sentences, empty if all is well.

What holds for all seats of a domain together is in `tests/properties/test_election.py`, which sees them all.
"""

from rostra.protocols.election.core import Ballot, SeatCore
from rostra.protocols.election.state import Candidate, Following, Leading, PreCandidate


def seat_violations(seat: SeatCore) -> list[str]:
    rules = {
        "only other seats are linked": seat.up <= set(seat.seats) - {seat.me},
        "no ballot is of a term that we never heard of": seat.ballot.term <= seat.highest,
        "it waits to stand exactly if a majority could elect it": seat.waiting
        == (seat.leader is None and seat.linked_majority),
    }
    match seat.state:
        case Following(leader):
            rules["the leader that it follows is linked"] = leader is None or leader in seat.up
        case PreCandidate(term, supporters):
            rules["it canvasses for a term after its ballot"] = term > seat.ballot.term
            rules["its supporters are linked"] = supporters <= seat.up | {seat.me}
            rules["with a majority of supporters it stands"] = len(supporters) * 2 <= len(seat.seats)
        case Candidate(term, votes):
            rules["it voted for itself"] = seat.ballot == Ballot(term, seat.me) and seat.me in votes
            rules["with a majority of votes it leads"] = len(votes) * 2 <= len(seat.seats)
        case Leading(term):
            rules["it leads in the term in which it voted for itself"] = seat.ballot == Ballot(term, seat.me)
            rules["it leads with a majority"] = seat.linked_majority
            rules["nothing is committed that it does not have"] = seat.committed <= seat.version
            rules["what it leads with is of its own term"] = not seat.version or seat.version >= term << 10
    return [rule for rule, holds in rules.items() if not holds]
