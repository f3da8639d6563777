"""A wide-area network on one machine, for tests and measurements: needs root, and no netem.

async with Lab(load_plan(Path("lab.toml"))) as lab:     # without a plan: the paper's three sites
    lab.site("mit").popen(["python", "-m", "http.server"])
    lab.link("mit", "ntu").set(loss=0.2)
    lab.cut("ntu")

ways.py         what happens to a packet; no clock, no network
plan.py         what a lab looks like: one TOML file
namespaces.py   sites and hosts
router.py       the process between them
lab.py          all of it, opened and closed
probe.py        is the network as it was asked for?
world.py        servers and agents in it
"""

from rostra.impair.quality import LineQuality
from rostra.lab.lab import Lab
from rostra.lab.plan import THREE_SITES, LabPlan, load_plan, parse_plan

__all__ = ["THREE_SITES", "Lab", "LabPlan", "LineQuality", "load_plan", "parse_plan"]
