"""Connecting to an agent: where a program begins."""

from typing import Final

from rostra.client.connection import SILENCE_S_MAX
from rostra.client.group import Entering
from rostra.client.me import Me
from rostra.client.session import OnLost, OnState, Session
from rostra.names import parse_endpoint_name
from rostra.transport.dialler import dialler, own_token, program_name

CONNECT_TIMEOUT_S: Final = 10.0
REJOIN_WITHIN_S: Final = 60.0


def connect(
    address: str | None = None,
    token: str | None = None,
    *,
    name: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    on_lost: OnLost = "rejoin",
    rejoin_within_s: float | None = REJOIN_WITHIN_S,
    silence_s: float = SILENCE_S_MAX,
    on_state: OnState | None = None,
) -> "Entering[Me]":
    """Connect to an agent and open an endpoint there.

        async with rostra.connect() as me: ...
        me = await rostra.connect("h3:7701", name="web-1"); ...; await me.close()

    `address` is a socket's path or ``host:port``; without it, ``$ROSTRA_AGENT`` or this machine's agent.
    `token` is what a remote agent may ask for; without it, ``$ROSTRA_TOKEN``. `name` is what the endpoint is
    called; without it, the program's own name and process number. `timeout_s` is for connecting, this first
    time.

    If the agent is lost, ``on_lost="rejoin"`` calls it again for up to `rejoin_within_s` (None: for ever),
    and takes up every group under a new incarnation; ``"raise"`` ends everything with the reason. An agent
    that says nothing for `silence_s` is lost. `on_state` is told every `State` as it is entered.
    """
    if name is not None:
        parse_endpoint_name(name)

    async def enter() -> Me:
        session = Session(
            address,
            token=own_token(token),
            on_lost=on_lost,
            rejoin_within_s=rejoin_within_s,
            silence_s=silence_s,
            on_state=on_state,
        )
        await session.open(timeout_s)
        try:
            return await Me._open(session, name or dialler().name(program_name()), owns_session=True)
        except BaseException:
            await session.close()
            raise

    return Entering(enter)
