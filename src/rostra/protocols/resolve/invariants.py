"""What holds after every step of a server, as plain functions.

Each looks at one server and answers with what is wrong, in words; nothing wrong is an empty list. The
simulator and the tests ask after every step, so a broken promise is caught where it broke and not where
it showed.
"""

from rostra.names import Group, inside, name_of
from rostra.protocols.resolve.local import LocalServer
from rostra.protocols.resolve.local_state import AUTO, Kind, LocalGroup
from rostra.protocols.resolve.messages import Interest


def local_server_violations(server: LocalServer) -> list[str]:
    return [*_group_violations(server), *_endpoint_violations(server), *_queue_violations(server)]


def _group_violations(server: LocalServer) -> list[str]:
    wrong = []
    for group, table in server.groups.items():
        if table.is_empty():
            wrong.append(f"{group} has an entry and nobody in it")  # C-085
        if not inside(group.scope, server.host):
            wrong.append(f"{group} is here and {server.host} is not in its scope")  # C-008
        if not table.online <= table.members.keys():
            wrong.append(f"{group} has online endpoints that are not members")
        if table.followers() != tuple(sorted(table.online | table.watchers)):
            wrong.append(f"{group} tells {table.followers()}, not its online members and watchers")
        if table.records() != tuple(table.members[endpoint] for endpoint in sorted(table.members)):
            wrong.append(f"{group} lists {table.records()}, not its members")
        if any(endpoint != member.endpoint for endpoint, member in table.members.items()):
            wrong.append(f"{group} has a member under another's name")
    return wrong


def _endpoint_violations(server: LocalServer) -> list[str]:
    wrong = []
    if server.names != {name_of(endpoint): endpoint for endpoint in server.endpoints}:
        wrong.append("names and endpoints differ")
    joined = {(e, group) for e, presence in server.endpoints.items() for group in presence.groups}
    if joined != {(e, group) for group, table in server.groups.items() for e in table.members}:
        wrong.append("endpoints and groups disagree on who is a member")
    watched = {(e, group) for e, presence in server.endpoints.items() for group in presence.watched}
    if watched != {(e, group) for group, table in server.groups.items() for e in table.watchers}:
        wrong.append("endpoints and groups disagree on who is watching")
    asked = {(e, token) for e, presence in server.endpoints.items() for token in presence.questions}
    if asked != {(question.endpoint, token) for token, question in server.questions.items()}:
        wrong.append("endpoints and questions disagree on who has asked")
    return wrong


def _queue_violations(server: LocalServer) -> list[str]:
    wrong = []
    if server.open and not server.up:
        wrong.append("requests are open while the link is down")  # C-159
    by_group: dict[Group, list[object]] = {}
    for entry in server.open.values():
        by_group.setdefault(entry.group, []).append(entry)
        table = server.groups.get(entry.group, LocalGroup())
        if entry.group.scope == server.host:
            wrong.append(f"{entry.group} was asked of others and is this host's alone")
        if not entry.waiters:
            wrong.append(f"nobody waits for {entry.id}")
        if entry.fresh and table.interest() is not Interest.ALL:
            wrong.append(f"{entry.id} is fresh and our interest in {entry.group} is not ALL")
        for endpoint, token in entry.waiters:
            if token is AUTO and not table.is_followed_by(endpoint):
                wrong.append(f"{endpoint} waits for a baseline of {entry.group} and does not follow it")
            if token is not AUTO and entry.kind is Kind.MERGE:
                wrong.append(f"{endpoint}'s question {token} waits for a merge")
            if token is not AUTO and entry.id not in server.questions[token].waits_for:
                wrong.append(f"{entry.id} has a waiter that does not know it: question {token}")
    if by_group != {group: list(entries.values()) for group, entries in server.open_of.items()}:
        wrong.append("the open requests and their order by group differ")
    for token, question in server.questions.items():
        if not question.waits_for:
            wrong.append(f"question {token} waits for nothing")
        for id, entry in question.waits_for.items():
            if server.open.get(id) is not entry or (question.endpoint, token) not in entry.waiters:
                wrong.append(f"question {token} waits for {id}, which does not wait for it")
    return wrong
