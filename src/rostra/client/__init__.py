"""The API that applications import: connect to an agent, join, watch and resolve groups.

me            an endpoint, and all it can do; `connect`
group         a group that is joined or watched: its copy, its changes
conversation  a group that is spoken in
changes       what a program hears
states        how it stands with its agent
admin         servers, for administrators
session       one standing with an agent, through every connection that it takes
connection    one socket, shared by all endpoints of the program
dialling      where connections come from
copies        who is in the groups that the program is in
watched       who is in the groups that it watches, by numbered changes
follows       what both have in common
streams       bounded queues that end with a reason
choices       how strong a group is to be
"""

from rostra.client.admin import Admin, connect_admin
from rostra.client.conversation import Conversation
from rostra.client.group import Membership, Watch
from rostra.client.me import Me, connect
from rostra.client.states import Connected, Lost, State, Suspended
from rostra.groups.items import (
    Change,
    Gap,
    GroupItem,
    Item,
    Joined,
    Left,
    Life,
    Message,
    Messages,
    NotDelivered,
    Only,
    Resolution,
    View,
    Without,
)
from rostra.groups.members import Because, Cause, Member, Members

__all__ = [
    "Admin",
    "Because",
    "Cause",
    "Change",
    "Connected",
    "Conversation",
    "Gap",
    "GroupItem",
    "Item",
    "Joined",
    "Left",
    "Life",
    "Lost",
    "Me",
    "Member",
    "Members",
    "Membership",
    "Message",
    "Messages",
    "NotDelivered",
    "Only",
    "Resolution",
    "State",
    "Suspended",
    "View",
    "Watch",
    "Without",
    "connect",
    "connect_admin",
]
