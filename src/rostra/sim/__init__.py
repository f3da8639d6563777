"""The same nodes in a simulated world: virtual time, a seeded network, faults, histories and their checkers.

    shapes      worlds that are used often, by name
    network     delays, loss, duplication, reordering; lines that can be cut
    world       all of the following together, from one seed
    agenda      the event queue: one heap, one clock
    processes   nodes in their processes: steps, timers, disks; crash, pause, restart
    lines       packets between them; cut, heal, lose, delay
    channels    the production data channel, over a simulated network
    fronts      the production front, between nodes and programs
    programs    what runs on the hosts and asks
    taps        between a node and its stack: scopes, single copies, invariants, counts
    history     what happened and what was reported, as records
    twin        a reference model: who is in which group as seen from where
    rest        a world at rest, compared with the twin
    checkers    were the promises kept? yes, no, or cannot tell
    story       commands above the line, the golden trace below
    storm       random churn and faults, everything compared when it is calm
    journal     what its nodes would have written down
    replay      what real nodes were given, given again

`docs/simulator.md` has the language of stories and a worked example.
"""

from rostra.impair.quality import Constant as Constant
from rostra.impair.quality import LineQuality as LineQuality
from rostra.impair.quality import Lognormal as Lognormal
from rostra.impair.quality import Uniform as Uniform
from rostra.sim.network import LAN as LAN
from rostra.sim.network import STEADY as STEADY
from rostra.sim.network import WAN as WAN
from rostra.sim.network import WILD as WILD
from rostra.sim.network import LinkModel as LinkModel
from rostra.sim.programs import SimCall as SimCall
from rostra.sim.programs import SimProgram as SimProgram
from rostra.sim.shapes import T_REF as T_REF
from rostra.sim.shapes import clusters as clusters
from rostra.sim.shapes import even as even
from rostra.sim.shapes import shape as shape
from rostra.sim.world import DidNotSettle as DidNotSettle
from rostra.sim.world import World as World
