"""The API that applications import: connect to an agent, join, watch and resolve groups.

changes       what a program hears
me            an endpoint, and all it can do; `connect`
group         a group that is joined or watched: its copy, its changes
streams       bounded queues that end with a reason
connection    one socket to the agent, shared by all endpoints of the program
"""

from rostra.client.changes import (
    Because,
    Cause,
    Change,
    Gap,
    Joined,
    Left,
    Life,
    Member,
    Members,
    Message,
    NotDelivered,
    Only,
    Resolution,
    View,
    Without,
)
from rostra.client.group import Membership, Watch
from rostra.client.me import Admin, Me, connect, connect_admin

__all__ = [
    "Admin",
    "Because",
    "Cause",
    "Change",
    "Gap",
    "Joined",
    "Left",
    "Life",
    "Me",
    "Member",
    "Members",
    "Membership",
    "Message",
    "NotDelivered",
    "Only",
    "Resolution",
    "View",
    "Watch",
    "Without",
    "connect",
    "connect_admin",
]
