"""What holds after every step, as plain functions: a list of sentences, empty if all is well (C-159).

They look at one server alone and cost time in proportion to what it holds; drivers call them in tests and
in the simulator, never in production.
"""

from collections.abc import Iterator

from rostra.names import Group, inside, name_of
from rostra.protocols.relaxed.collection import Collection, CollectionKind, Side
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.local_state import LocalGroup
from rostra.protocols.relaxed.messages import Interest
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.resolves import AUTO, OpenResolve


def domain_server_violations(server: DomainServer) -> list[str]:
    return [*_rows(server), *_collections(server), *_questions(server)]


def _rows(server: DomainServer) -> Iterator[str]:
    neighbours = server.neighbours
    for group, row in server.table.rows.items():
        if neighbours.reach(group) is None:
            yield f"a row for {group}, which is out of scope"
            continue
        for peer in sorted({*row.entries, *row.unconfirmed}):
            relation = neighbours.up.get(peer)
            if relation is None:
                yield f"{group} has an entry for {peer}, which is down"
            elif not neighbours.in_range(group, relation):
                yield f"{group} has an entry for {peer}, which is out of range"
        children = {
            peer: interest
            for peer, interest in row.entries.items()
            if neighbours.up.get(peer) is Relation.CHILD
        }
        if row.holders != tuple(sorted(peer for peer, interest in children.items() if interest)):
            yield f"{group} forgot who has members: {row.holders} of {children}"
        if row.listeners != tuple(
            sorted(peer for peer, interest in children.items() if interest is Interest.ALL)
        ):
            yield f"{group} forgot who listens: {row.listeners} of {children}"
        if row.inner is Interest.NONE:
            yield f"a row for {group} without a member inside"
        if row.told is not row.inner:
            yield f"{group} told {row.told.name} outward and is {row.inner.name}"
        if row.outer is not server.table.outer(group):
            yield f"{group} told {row.outer.name} inward and is {server.table.outer(group).name}"


def _collections(server: DomainServer) -> Iterator[str]:
    for collection in server.collections:
        what = f"{collection.kind.value} of {collection.group}"
        if server.neighbours.reach(collection.group) is None:
            yield f"{what} is out of scope"
        for peer in sorted(collection.waiting):
            if peer not in server.neighbours.up:
                yield f"{what} waits for {peer}, which is down"
        if collection not in server.collections.of(collection.group):
            yield f"{what} is not found by its group"
        if server.collections.find(collection.id, collection.side) is not collection:
            yield f"{what} is not found by its id"
        if collection.kind is CollectionKind.RESOLVE:
            if not collection.questions:
                yield f"{what} serves nobody"
        else:
            yield from _merge(server, collection, what)


def _merge(server: DomainServer, collection: Collection, what: str) -> Iterator[str]:
    peer, group = collection.peer, collection.group
    if peer is None or peer not in server.neighbours.up:
        yield f"{what} is for {peer}, which is down"
        return
    if not collection.waiting:
        yield f"{what} waits for nobody and is open"
    if collection.kind is CollectionKind.PUSH and server.table.want(group, peer) < Interest.ALL:
        yield f"{what} for {peer}, which does not want it"
    if collection.kind is CollectionKind.PULL and server.table.inner(group) < Interest.ALL:
        yield f"{what} for children that do not want it"


def _questions(server: DomainServer) -> Iterator[str]:
    collections = server.collections
    for question in collections.questions.values():
        if question.source not in server.neighbours.up:
            yield f"a question of {question.source}, which is down"
        if question.answered:
            yield f"a question of {question.source} has all its answers and is open"
        for part in question.parts:
            if collections.find(part.id, part.side) is not part or question not in part.questions:
                yield f"a question of {question.source} rests on a closed collection"
            if question.source in part.waiting:
                yield f"a question of {question.source} waits for its own source"
    for collection in collections:
        shared = collections.shared(collection.group, collection.side)
        state = server.table.inner if collection.side is Side.OUTER else server.table.outer
        if shared is not None and state(collection.group) is not Interest.ALL:
            yield f"a collection of {collection.group} is shared by those who do not hear every change"


def local_server_violations(server: LocalServer) -> list[str]:
    return [*_tables(server), *_mirrors(server), *_queue(server)]


def _tables(server: LocalServer) -> Iterator[str]:
    for group, table in server.groups.items():
        if table.is_empty():
            yield f"an entry for {group} with nobody in it"
        if not inside(group.scope, server.host):
            yield f"an entry for {group}, which is out of scope"
        if not table.online <= table.members.keys():
            yield f"{group} has online endpoints that are not members"
        if table.followers() != tuple(sorted(table.online | table.watchers)):
            yield f"{group} tells {table.followers()}, which are not its online members and watchers"
        if table.records() != tuple(table.members[endpoint] for endpoint in sorted(table.members)):
            yield f"{group} lists {table.records()}, which are not its members"


def _mirrors(server: LocalServer) -> Iterator[str]:
    """Indexes that repeat each other, for look-up from either side, agree."""
    if server.names != {name_of(endpoint): endpoint for endpoint in server.endpoints}:
        yield "names and endpoints differ"
    present, groups = server.endpoints.items(), server.groups.items()
    if {(e, g) for e, at in present for g in at.groups} != {(e, g) for g, t in groups for e in t.members}:
        yield "endpoints and groups disagree on who is a member"
    if {(e, g) for e, at in present for g in at.watched} != {(e, g) for g, t in groups for e in t.watchers}:
        yield "endpoints and groups disagree on who is watching"
    if {t: e for e, at in present for t in at.questions} != {
        t: q.endpoint for t, q in server.resolves.questions.items()
    }:
        yield "endpoints and questions disagree on who has asked"
    by_group: dict[Group, list[OpenResolve]] = {}
    for entry in server.resolves.open.values():
        by_group.setdefault(entry.group, []).append(entry)
    if by_group != {group: list(entries.values()) for group, entries in server.resolves.of_group.items()}:
        yield "the open requests and their order by group differ"


def _queue(server: LocalServer) -> Iterator[str]:
    asked = server.resolves.questions
    if server.resolves.open and not server.up:
        yield "requests are open while the link is down"
    for entry in server.resolves.open.values():
        what = f"{entry.kind.value} of {entry.group}"
        table = server.groups.get(entry.group, LocalGroup())
        if entry.group.scope == server.host:
            yield f"{what} was sent to others and is this host's own business"
        if not entry.waiters:
            yield f"{what} serves nobody"
        if entry.fresh and table.interest() is not Interest.ALL:
            yield f"{what} is fresh without our hearing every change"
        for endpoint, token in entry.waiters:
            if token is AUTO:
                if not table.is_followed_by(endpoint):
                    yield f"{what} serves {endpoint}, which does not follow the group"
            elif token not in asked or entry.id not in asked[token].waits_for:
                yield f"{what} serves a question that does not wait for it"
    for token, question in asked.items():
        if not question.waits_for:
            yield f"question {token} waits for nothing"
        for id, entry in question.waits_for.items():
            if server.resolves.open.get(id) is not entry or (question.endpoint, token) not in entry.waiters:
                yield f"question {token} waits for a request that does not serve it"
