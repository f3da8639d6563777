# Two replicas lead in term 1: found by `rostra sim explore election`, in the fewest steps.
model    election  replicas=3  attempts=2  crashes=1  suspicions=0  stalls=0  changes=0  plant=unwritten-vote
up       a b
up       b a
stand    a
deliver  a b       # PreVoteRequest(term=1, version=0, behind=False)
deliver  b a       # PreVoteGranted(term=1)
deliver  a b       # VoteRequest(term=1, version=0)
deliver  b a       # VoteGranted(term=1)
crash    b
up       c b
up       b c
stand    c
deliver  c b       # PreVoteRequest(term=1, version=0, behind=False)
deliver  b c       # PreVoteGranted(term=1)
deliver  c b       # VoteRequest(term=1, version=0)
deliver  b c       # VoteGranted(term=1)
----
     7  a leads in term 1
    15  c leads in term 1
    15  VIOLATED: two replicas lead in term 1
