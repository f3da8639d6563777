"""Questions about the past: each a transform, DataFrame -> DataFrame, with a named schema for its answer.

    lives, holes              how long each writer wrote, and what is missing
    stays, memberships        who saw whom in which group; who was truly in it
    follows, who, followers   who looked, and whom they saw at a time
    size, spread, churn       how large a group was, where its members were, how fast they changed
    convergence               how long until all observers knew
    disagreement              when two places saw different members
    availability, flaps       what share of the time it was there, and who was the least stable
    traffic                   what was sent, against what a hierarchy has to send
    why                       the story of a removal

They take events, as journals or the `events` table hold them, or the intervals that another question made of
them; they chain with ``.transform(...)``, start no job, and run wherever the session does. A group or place
that is not in the events is an error when the answer is computed, with the closest one that is (`spelling`);
commands look names up before, and ask the modules below.
"""

from rostra.history.questions.availability import availability as availability
from rostra.history.questions.churn import churn as churn
from rostra.history.questions.convergence import convergence as convergence
from rostra.history.questions.convergence import known as known
from rostra.history.questions.disagreement import disagreement as _disagreement
from rostra.history.questions.flaps import flaps as flaps
from rostra.history.questions.follows import follows as follows
from rostra.history.questions.lives import holes as holes
from rostra.history.questions.lives import lives as lives
from rostra.history.questions.size import size as size
from rostra.history.questions.size import size_seen as size_seen
from rostra.history.questions.spread import spread as spread
from rostra.history.questions.stays import memberships as memberships
from rostra.history.questions.stays import stays as stays
from rostra.history.questions.traffic import traffic as traffic
from rostra.history.questions.who import followers as _followers
from rostra.history.questions.who import who as _who
from rostra.history.questions.why import removals as _removals
from rostra.history.questions.why import why as _why
from rostra.history.spelling import looks_up

disagreement = looks_up(places=("here", "there"))(_disagreement)
followers = looks_up("group", places=("seen_from",))(_followers)
who = looks_up("group", places=("seen_from",))(_who)
removals = looks_up(places=("seen_from",))(_removals)
why = looks_up(places=("seen_from",))(_why)
