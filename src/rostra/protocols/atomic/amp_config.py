"""Settings of AMp, with the inequalities between its times (A-087, `docs/spec/atomic.md` 2.1)."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import BadInput

FaultModel = Literal["bounded", "async"]
AmpOrder = Literal["negotiated", "medium"]
PartitionPolicy = Literal["majority", "any"]
Decides = Literal["own", "agreed"]

PROFILES: Final = (
    "atomic",
    "atomic-unordered",
    "atomic-confirmed",
    "reliable",
    "best-effort",
    "urgent",
    "barrier",
)

AGREED_SHIFT: Final = 16
"""The suspension level of an agreed view is its number, shifted, plus the attempt (A-089)."""


class AmpConfig(Struct, frozen=True, kw_only=True):
    """The same at all stations of a group.

    `faults`
        `bounded`: the paper's world. A station that is silent for `omissions` + 1 rounds has stopped, one
        medium shows all frames to all in one order, delays are at most `delay_s`. `async`: a network on which
        a silent station may live. There the bounds are settings that lead to suspicion, and no member is
        removed unless `policy` allows it.
    `order`
        `medium`: the order in which frames pass on one medium; needs `shared_medium`. `negotiated`: receivers
        propose positions in their responses, and the emitter takes the largest.
    `omissions`
        The paper's omission degree w: a frame is sent at most w + 1 times.
    `response_s`
        How long a round waits for responses. Raising it: fewer needless retransmissions, slower recovery.
    `wait_decision_s`, `suspend_s`, `flush_s`
        How long a receiver waits for a decision, for the next frame of a monitor, and an emitter for those
        that answered `FLUSHING`. At least what the inequalities say.
    `again_s`
        A station that wants to come in, and found another monitor at work, tries again after that, or up to
        twice that. 0: after `suspend_s`.
    `stagger_s`
        By so much later for each rank does a standby take over from a monitor that is silent.
    `policy`
        `majority`: a view goes on with more than half of the members of the one before, or with half of them
        and its rank 0. `any`: the stations that are left go on, in each part of the network.
    `decides`
        `own`: this group's monitor decides views. `agreed`: views come from agreed membership, and the
        monitor executes them (A-089).
    `queue_max`
        Undecided frames in the receive queue; beyond, a receiver is inaccessible.
    `run_max`
        Messages that wait are sent in one run, up to so many.
    `resend`
        Runs that a suspension or a new view rejected are sent again by the gate. False: by its user, which
        knows whether they are still wanted, and whose members do not read.
    `weigh`
        How many messages are in the items of a run: so many positions it takes.
    `beacon_s`
        How often rank 0 announces its view where no directory says whether the group exists; 0: never.
    """

    faults: FaultModel = "async"
    order: AmpOrder = "negotiated"
    shared_medium: bool = False
    omissions: int = 3
    response_s: float = 0.05
    delay_s: float = 0.01
    wait_decision_s: float = 0.25
    suspend_s: float = 0.25
    flush_s: float = 0.5
    stagger_s: float = 0.025
    again_s: float = 0.0
    policy: PartitionPolicy = "majority"
    decides: Decides = "own"
    queue_max: int = 64
    run_max: int = 256
    beacon_s: float = 0.0
    resend: bool = True
    weigh: Callable[[tuple[bytes, ...]], int] = len

    def __post_init__(self) -> None:
        rounds_s = (self.omissions + 1) * self.response_s
        least = {
            "response_s": 2 * self.delay_s,
            "wait_decision_s": rounds_s + self.delay_s,
            "suspend_s": rounds_s + self.delay_s,
            "flush_s": self.wait_decision_s + rounds_s,
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise BadInput(f"{name} is {getattr(self, name):g}", fix=f"at least {bound:g}")
        if min(self.omissions, self.stagger_s, self.beacon_s, self.delay_s) < 0 or self.response_s <= 0:
            raise BadInput("a time or a number is negative", fix="use positive ones")
        if min(self.queue_max, self.run_max) < 1:
            raise BadInput("queue_max and run_max are at least 1", fix="queue_max=64, run_max=256")
        if self.order == "medium" and not self.shared_medium:
            raise BadInput(
                'order="medium" needs one medium that shows all frames in one order to all stations',
                fix='use order="negotiated" on an IP network',
            )
        if self.order == "medium" and self.faults != "bounded":
            raise BadInput('order="medium" is for the bounded fault model', fix='use faults="bounded"')

    @property
    def rounds(self) -> int:
        """How often a frame is sent at most."""
        return self.omissions + 1

    @property
    def executes(self) -> bool:
        """Are views agreed elsewhere? Then no station is given up here: it is asked until membership says
        something else, and ever more slowly."""
        return self.decides == "agreed"

    @property
    def reports_access(self) -> bool:
        """Is it for the gate's user to say what becomes of one that is inaccessible for too long?"""
        return self.executes or not self.resend

    def patience_s(self, tries: int) -> float:
        """How long a round waits that comes after so many others."""
        return self.response_s * (min(8, 1 + tries // self.rounds) if self.executes else 1)

    @classmethod
    def bus(cls, omissions: int = 3) -> "AmpConfig":
        """The paper's world. Members that lose different rounds make a transfer longer than w + 1 of them
        (`emitter.py`), so those that flush are waited for with patience."""
        config = cls(faults="bounded", order="medium", shared_medium=True, policy="any").with_omissions(
            omissions
        )
        return replace(config, flush_s=20 * config.flush_s)

    def with_omissions(self, omissions: int) -> "AmpConfig":
        """Another w, and the shortest times that go with it."""
        rounds_s = (omissions + 1) * self.response_s
        wait_s = rounds_s + self.delay_s
        return replace(
            self, omissions=omissions, wait_decision_s=wait_s, suspend_s=wait_s, flush_s=wait_s + rounds_s
        )
