"""All interleavings of a small world, within bounds: shipped cores, and every order of messages and faults.
See `docs/simulator.md`.

A model is one file here (`model.py` says what one is, `nodes.py` helps) and one line below.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import fields

from rostra.errors import BadInput
from rostra.sim.explore.agreed import SetBounds, SetModel
from rostra.sim.explore.election import Election, ElectionBounds
from rostra.sim.explore.hub import HubBounds, HubModel
from rostra.sim.explore.lease import LeaseBounds, LeaseModel
from rostra.sim.explore.links import LinksBounds, LinksModel
from rostra.sim.explore.living import LivingBounds, LivingModel
from rostra.sim.explore.model import Model, SearchBounds
from rostra.sim.explore.monitor import MonitorBounds, MonitorModel
from rostra.sim.explore.move import MoveBounds, MoveModel
from rostra.sim.explore.reform import ReformBounds, ReformModel
from rostra.sim.explore.registrar import RegistrarBounds, RegistrarModel

MODELS: Final[Mapping[str, tuple[type[Any], type[SearchBounds]]]] = {
    kind.name: (kind, bounds)
    for kind, bounds in (
        (Election, ElectionBounds),
        (LinksModel, LinksBounds),
        (SetModel, SetBounds),
        (LivingModel, LivingBounds),
        (LeaseModel, LeaseBounds),
        (ReformModel, ReformBounds),
        (RegistrarModel, RegistrarBounds),
        (MoveModel, MoveBounds),
        (HubModel, HubBounds),
        (MonitorModel, MonitorBounds),
    )
}


def model_named(name: str, bounds: Mapping[str, str], plant: str | None = None) -> Model[Any, Any]:
    """The model of this name, with some of its bounds changed and perhaps a bug in it."""
    if name not in MODELS:
        raise BadInput(f"no model is called {name!r}", fix=_close(name, MODELS))
    kind, settings = MODELS[name]
    known = [field.name for field in fields(settings)]
    for bound, number in bounds.items():
        if bound not in known:
            raise BadInput(f"{name} has no bound called {bound!r}", fix=_close(bound, known))
        if not number.isdigit():
            raise BadInput(f"{bound} is {number!r}, and that is no number", fix=f"{bound}=2")
    if plant is not None and plant not in kind.plants:
        raise BadInput(f"{name} has no bug called {plant!r} to plant", fix=_close(plant, kind.plants))
    made: Model[Any, Any] = kind(settings(**{bound: int(text) for bound, text in bounds.items()}), plant)
    return made


def _close(word: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(word, known, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(known)}"
