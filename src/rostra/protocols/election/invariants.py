"""What holds for a replica after every step, as plain functions: a list of sentences, empty if all is well.

What holds for all replicas of a domain together is in `tests/properties/test_election.py`, which sees them
all.
"""

from rostra.protocols.election.core import Ballot, ElectionCore
from rostra.protocols.election.state import Candidate, Following, Leading, PreCandidate


def voter_violations(voter: ElectionCore) -> list[str]:
    rules = {
        "only other replicas are linked": voter.up <= set(voter.voters) - {voter.me},
        "no ballot is of a term that we never heard of": voter.ballot.term <= voter.highest,
        "it waits to stand exactly if a majority could elect it": voter.waiting
        == (voter.leader is None and voter.linked_majority),
    }
    match voter.state:
        case Following(leader):
            rules["the leader that it follows is linked"] = leader is None or leader in voter.up
        case PreCandidate(term, supporters):
            rules["it asks for pre-votes in a term after its ballot"] = term > voter.ballot.term
            rules["replicas that granted a pre-vote are linked"] = supporters <= voter.up | {voter.me}
            rules["with a majority of pre-votes it is a candidate"] = len(supporters) * 2 <= len(voter.voters)
        case Candidate(term, votes):
            rules["it voted for itself"] = voter.ballot == Ballot(term, voter.me) and voter.me in votes
            rules["with a majority of votes it leads"] = len(votes) * 2 <= len(voter.voters)
        case Leading(term):
            rules["it leads in the term in which it voted for itself"] = voter.ballot == Ballot(
                term, voter.me
            )
            rules["it leads with a majority"] = voter.linked_majority
            rules["nothing is committed that it does not have"] = voter.committed <= voter.version
            rules["what it leads with is of its own term"] = not voter.version or voter.version >= term << 10
    return [rule for rule, holds in rules.items() if not holds]
