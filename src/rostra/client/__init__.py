"""The API that applications import: connect to an agent, join, watch and resolve groups.

connect       connecting to an agent
me            an endpoint and its operations
joining       its method to join groups of all kinds
group         a group that is joined or watched: its members, its changes
agreed        a group of agreed membership: its views
agreed_fifo   the same with messages between them
groups        agreed groups as a whole: create, split, merge, delete, attributes
leadership    a leader, or who holds a lock: one member of a group of candidates
conversation  a group with delivery: sending and receiving messages
sets          transient sets, and sequences to sets
ordered       a group whose messages have one order
calls         calls to such a group: who answered, who is gone
replicated    an object that is the same at every member: replica_core decides, commands are applied once
shares        keys that members share out, each held by one at a time
states        the state of the connection to the agent
admin         servers, for administrators
session       the program's session with its agent, across reconnects
connection    one socket, shared by all endpoints of the program
copies        member lists of the groups that the program is in
watched       member lists of the groups that it watches, by numbered changes
follows       what both have in common
threads       what `rostra.sync` uses: a loop in a thread of its own
transfer      the state of such a group for a member that joins
streams       bounded queues that end with a reason
choices       the kinds of groups that can be asked for
"""

from rostra.client.admin import Admin as Admin
from rostra.client.admin import connect_admin as connect_admin
from rostra.client.agreed import AgreedMembership as AgreedMembership
from rostra.client.agreed_fifo import AgreedConversation as AgreedConversation
from rostra.client.connect import connect as connect
from rostra.client.conversation import Conversation as Conversation
from rostra.client.group import Membership as Membership
from rostra.client.group import Watch as Watch
from rostra.client.groups import GroupInfo as GroupInfo
from rostra.client.leadership import Term as Term
from rostra.client.me import Me as Me
from rostra.client.ordered import Ordered as Ordered
from rostra.client.replica_core import ReplicaDiverged as ReplicaDiverged
from rostra.client.replicated import Replicated as Replicated
from rostra.client.replicated import command as command
from rostra.client.sets import Sequence as Sequence
from rostra.client.sets import TransientSet as TransientSet
from rostra.client.states import Connected as Connected
from rostra.client.states import Lost as Lost
from rostra.client.states import State as State
from rostra.client.states import Suspended as Suspended
from rostra.groups.items import Added as Added
from rostra.groups.items import AgreedItem as AgreedItem
from rostra.groups.items import AtomicItem as AtomicItem
from rostra.groups.items import Blocked as Blocked
from rostra.groups.items import CallAsked as CallAsked
from rostra.groups.items import Change as Change
from rostra.groups.items import Gap as Gap
from rostra.groups.items import Gone as Gone
from rostra.groups.items import GroupItem as GroupItem
from rostra.groups.items import Item as Item
from rostra.groups.items import Joined as Joined
from rostra.groups.items import Left as Left
from rostra.groups.items import Message as Message
from rostra.groups.items import Messages as Messages
from rostra.groups.items import Moved as Moved
from rostra.groups.items import Only as Only
from rostra.groups.items import Receipt as Receipt
from rostra.groups.items import Resolution as Resolution
from rostra.groups.items import StateAsked as StateAsked
from rostra.groups.items import View as View
from rostra.groups.items import Without as Without
from rostra.groups.members import Because as Because
from rostra.groups.members import Cause as Cause
from rostra.groups.members import Member as Member
from rostra.groups.members import Members as Members
from rostra.names import OPEN as OPEN
from rostra.protocols.led.requests import AddRefused as AddRefused
from rostra.protocols.led.requests import SequenceClosed as SequenceClosed
from rostra.protocols.led.requests import SequenceEnded as SequenceEnded
from rostra.protocols.led.requests import SequenceMessage as SequenceMessage
from rostra.protocols.led.requests import SequenceReply as SequenceReply
from rostra.protocols.led.requests import SequenceShrunk as SequenceShrunk
from rostra.protocols.led.requests import SetAdded as SetAdded
from rostra.protocols.led.requests import SetLost as SetLost
from rostra.protocols.led.requests import SetMembers as SetMembers
from rostra.protocols.relaxed.requests import Life as Life
from rostra.protocols.relaxed.requests import NotDelivered as NotDelivered
