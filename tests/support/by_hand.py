"""Journals of real worlds, written by hand: each is the least that a promise can be judged by."""

from datetime import timedelta

from support.journal import Journal, Row, clock

from rostra.journal.entries import OBSERVERS_MAX

Rows = list[Row]


def streams(journal: Journal, *runs: tuple[str, int, int]) -> None:
    journal.start("eu.p.h1", 0)
    for kind, first, last in runs:
        values = {"first": first} if kind == "stream-started" else {"first": first, "last": last}
        journal.write(
            "eu.p.h1", kind, group="g@eu", member="us.n.h1/s#1", observers=["eu.p.h1/a#1"], **values
        )
    journal.write("eu.p.h1", "closing")


def numbered(journal: Journal, *turns: tuple[str, int | None]) -> None:
    journal.start("eu.p.h1", 0)
    for kind, number in turns:
        journal.write(
            "eu.p.h1", kind, group="g@eu", number=number, period=1, observers=["eu.p.h1/a#1"], told=1
        )
    journal.write("eu.p.h1", "closing")


def crowded(journal: Journal, wrong: int = 0) -> None:
    """Eighteen of one host hear a stream, and watch: the 17th is named when the first has gone, the 18th when
    the second has. With `wrong`, the third misses so many messages and changes."""
    everybody = [f"eu.p.h1/p{nth:02}#1" for nth in range(1, 19)]
    stream, watch = {"group": "g@eu", "member": "us.n.h1/s#1"}, {"group": "g@eu", "period": 1}
    journal.start("eu.p.h1", 0)
    for each in everybody:
        journal.write("eu.p.h1", "stream-started", first=1, observers=[each], told=1, **stream)
        journal.write("eu.p.h1", "snapshot", number=0, observers=[each], told=1, **watch)
    for turn in range(1, 9):
        here = everybody[max(0, turn - 6) :]
        if turn == 8 and wrong:
            turn += wrong
        told = {"observers": here[:OBSERVERS_MAX], "told": len(here)}
        journal.write("eu.p.h1", "delivered", first=turn, last=turn, **told, **stream)
        journal.write("eu.p.h1", "changed", number=turn, count=1, **told, **watch)
    journal.write("eu.p.h1", "closing")


STREAMS: dict[str, tuple[str, list[tuple[str, int, int]]]] = {
    "in-order": ("yes", [("stream-started", 5, 0), ("delivered", 5, 9), ("delivered", 10, 10)]),
    "a-gap-that-was-told": (
        "yes",
        [("stream-started", 1, 0), ("delivered", 1, 3), ("stream-gap", 4, 6), ("delivered", 7, 7)],
    ),
    "back-after-a-cut": (
        "yes",
        [
            *[("stream-started", 1, 0), ("delivered", 1, 3), ("stream-ended", 0, 3), ("stream-gap", 4, 6)],
            *[("stream-started", 7, 0), ("delivered", 7, 7)],
        ],
    ),
    "a-gap-that-hides-another": (
        "no",
        [("stream-started", 1, 0), ("delivered", 1, 3), ("stream-ended", 0, 3), ("stream-gap", 5, 6)],
    ),
    "a-gap-that-does-not-say-all": (
        "no",
        [
            *[("stream-started", 1, 0), ("delivered", 1, 3), ("stream-ended", 0, 3), ("stream-gap", 4, 6)],
            *[("stream-started", 9, 0), ("delivered", 9, 9)],
        ],
    ),
    "a-gap": ("no", [("stream-started", 1, 0), ("delivered", 1, 3), ("delivered", 5, 6)]),
    "a-duplicate": ("no", [("stream-started", 1, 0), ("delivered", 1, 3), ("delivered", 3, 4)]),
    "a-gap-with-a-duplicate": (
        "no",
        [("stream-started", 1, 0), ("delivered", 1, 2), ("delivered", 2, 2), ("delivered", 4, 4)],
    ),
    "out-of-order": ("no", [("stream-started", 1, 0), ("delivered", 2, 2), ("delivered", 1, 1)]),
    "not-from-the-first": ("no", [("stream-started", 3, 0), ("delivered", 4, 4)]),
    "before-it-began": ("no", [("delivered", 1, 1)]),
}


def flowing(journal: Journal, *turns: tuple[str, float, float]) -> None:
    """A stream between two who stay, and what happens around it."""
    journal.start("us.n.h1", 0)
    journal.start("eu.p.h1", 0)
    journal.write("eu.p.h1", "link-up", 1, peer="eu.p", life=1)
    stream = {"group": "g@eu", "member": "us.n.h1/s#1"}
    number = 1
    journal.write("eu.p.h1", "stream-started", 19, first=1, observers=["eu.p.h1/a#1"], **stream)
    for kind, at, late_ms in turns:
        if kind == "delivered":
            of = {"latency_us": int(late_ms * 1000), "observers": ["eu.p.h1/a#1"]}
            journal.write("eu.p.h1", kind, at, first=number, last=number + 9, count=10, **of, **stream)
            number += 10
        elif kind == "recovered":
            journal.write("eu.p.h1", kind, at, first=number, last=number, count=1, number=1, **stream)
        elif kind == "member-joined":
            journal.write("us.n.h1", kind, at, group="g@eu", member="us.n.h1/x#1", life=1, stamp=9)
        elif kind == "home-joined":
            journal.write("us.n.h1", "member-joined", at, group="g@eu", member="us.n.h1/s#1", life=1, stamp=9)
        else:
            journal.write("eu.p.h1", kind, at, peer="eu.p")
    journal.write("us.n.h1", "closing", 98)
    journal.write("eu.p.h1", "closing", 99)


SMOOTH: dict[str, tuple[str, list[tuple[str, float, float]]]] = {
    "even-all-the-while": (
        "yes",
        [("delivered", 20, 0), ("member-joined", 25, 0), ("delivered", 30, 40), ("delivered", 40, 3)],
    ),
    "stalled-by-a-join": (
        "no",
        [("delivered", 20, 0), ("member-joined", 25, 0), ("delivered", 30, 390), ("delivered", 40, 3)],
    ),
    "late-because-lost": (
        "yes",
        [
            ("delivered", 20, 0),
            ("member-joined", 25, 0),
            *[("recovered", 29, 0), ("delivered", 30, 390)],
        ],
    ),
    "lost-long-before": (
        "no",
        [
            ("recovered", 20, 0),  # written with the delivery before, at the same time
            *[("delivered", 20, 0), ("member-joined", 25, 0), ("delivered", 30, 390)],
        ],
    ),
    "late-because-cut": (
        "cannot tell",
        [("delivered", 20, 0), ("member-joined", 25, 0), ("link-down", 26, 0), ("delivered", 30, 390)],
    ),
    "late-without-a-join": ("cannot tell", [("delivered", 20, 0), ("delivered", 30, 390)]),
    "it-joined-itself": ("cannot tell", [("home-joined", 19.5, 0), ("delivered", 20, 390)]),
}

NUMBERED: dict[str, tuple[str, list[tuple[str, int | None]]]] = {
    "one-after-the-other": ("yes", [("snapshot", 4), ("changed", 5), ("changed", 6)]),
    "back-after-a-gap": (
        "yes",
        [("snapshot", 1), ("changed", 2), ("gap", None), ("snapshot", 9), ("changed", 10)],
    ),
    "one-left-out": ("no", [("snapshot", 1), ("changed", 2), ("changed", 4)]),
    "one-twice": ("no", [("snapshot", 1), ("changed", 2), ("changed", 2)]),
    "one-out-and-one-twice": ("no", [("snapshot", 1), ("changed", 2), ("changed", 2), ("changed", 4)]),
}


GONE = {"domain": "eu.p.h1", "inside": False, "accuser": "eu.p", "accused": "eu.p.h1", "what": "closed"}


def real_world(world: str, *, closing: bool = True, lose: bool = False, killed: bool = False) -> Rows:
    """Two hosts of one real cluster, a join that is told, and a long calm."""
    journal = Journal(world)
    for host in ("eu.p.h1", "eu.p.h2"):
        journal.start(host, 0)
        journal.write(host, "link-up", 1, peer="eu.p", life=1)
        journal.write(host, "followed", 2, group="g@eu", observers=[f"{host}/a#1"], told=1)
        journal.write(host, "absolute", 3, group="g@eu", observers=[f"{host}/a#1"], told=1, count=0)
    journal.home("joined", "eu.p.h1/m#1", 100, group="g@eu", life=1, stamp=1)
    journal.sees("eu.p.h1", "joined", "eu.p.h1/m#1", 100.1, group="g@eu", life=1, stamp=1, told=1)
    if lose:
        journal.lose("eu.p.h2")
    elif world != "real-and-wrong":
        journal.sees("eu.p.h2", "joined", "eu.p.h1/m#1", 100.2, group="g@eu", life=1, stamp=1, told=1)
    journal.write("eu.p.h1", "heartbeat", 300)
    journal.write("eu.p.h2", "heartbeat", 300)
    if killed:  # everybody at once; and the last that a home accepted is lost with it, though it was told
        journal.sees("eu.p.h2", "left", "eu.p.h1/m#1", 302, group="g@eu", life=1, stamp=2, cause="leave")
        return journal.rows
    journal.write("eu.p.h1", "closing" if closing else "heartbeat", 400)
    journal.sees("eu.p.h2", "left", "eu.p.h1/m#1", 401, group="g@eu", cause="without", kind="without", **GONE)
    journal.write("eu.p.h2", "closing", 500)
    return journal.rows


def without_its_beginning(rows: Rows) -> Rows:
    """Of one host what it wrote before and while a member of its own joined."""
    return [row for row in rows if row["writer"] != "eu.p.h1" or row["at"] > clock(200)]


def behind_a_server(world: str, *, lose: bool) -> Rows:
    """Two hosts whose server is restarted within seconds; with `lose`, what it wrote first is missing, so
    that it seems to have been away for minutes in which its hosts saw each other."""
    journal = Journal(world)
    hosts = ("eu.p.h1", "eu.p.h2")
    for writer in ("eu.p", *hosts):
        journal.start(writer, 0)
    for host in hosts:
        journal.write(host, "link-up", 1, peer="eu.p", life=1)
        journal.write(host, "followed", 2, group="g@eu", observers=[f"{host}/a#1"], told=1)
        journal.write(host, "absolute", 3, group="g@eu", observers=[f"{host}/a#1"], told=1, count=0)
    journal.write("eu.p", "closing", 50)
    journal.start("eu.p", 51)
    for host in hosts:
        journal.write(host, "link-down", 50, peer="eu.p")
        journal.write(host, "link-up", 52, peer="eu.p", life=2)
    member = {"member": "eu.p.h1/m#1", "group": "g@eu", "life": 1, "stamp": 1}
    journal.home("joined", at=60, **member)
    for host in hosts:
        journal.sees(host, "joined", at=60.2, told=1, observers=[f"{host}/a#1"], **member)
    for writer in ("eu.p", *hosts):
        journal.write(writer, "heartbeat", 300)
        journal.write(writer, "closing", 400)
    lost = (("eu.p", 2, 1),) if lose else ()
    return [row for row in journal.rows if (row["writer"], row["epoch"], row["seq"]) not in lost]


SERVERS, HOSTS = ("eu", "us"), ("eu.h1", "us.h1")
MEMBER = {"member": "eu.h1/m#1", "group": "g@world", "life": 1, "stamp": 1}


def _two_clusters(world: str) -> Journal:
    """Two hosts of two clusters that see each other, and a member on one of them."""
    journal = Journal(world)
    for writer in (*SERVERS, *HOSTS):
        journal.start(writer, 0)
    for server, host, other in zip(SERVERS, HOSTS, reversed(SERVERS), strict=True):
        journal.write(server, "link-up", 1, peer=other, life=1)
        journal.write(server, "link-up", 1, peer=host, life=1)
        journal.write(host, "link-up", 1, peer=server, life=1)
        journal.write(host, "followed", 2, group="g@world", observers=[f"{host}/a#1"], told=1)
        journal.write(host, "absolute", 3, group="g@world", observers=[f"{host}/a#1"], told=1, count=0)
    journal.home("joined", at=60, **MEMBER)
    for host in HOSTS:
        journal.sees(host, "joined", at=60.2, told=1, observers=[f"{host}/a#1"], **MEMBER)
    return journal


def unkept(world: str) -> Rows:
    """A host ends cleanly, and lives twice more. Of the life between no file is here: its server met it, and
    the other host was told of the member that it had."""
    journal = _two_clusters(world)
    told = {"told": 1, "observers": ["us.h1/a#1"]}
    journal.home("left", at=100, **{**MEMBER, "stamp": 2})
    journal.sees("us.h1", "left", at=100.2, **told, **{**MEMBER, "stamp": 2})
    journal.write("eu.h1", "closing", 101)
    journal.write("eu", "link-down", 101.5, peer="eu.h1")
    journal.start("eu.h1", 110)
    journal.write("eu", "link-up", 111, peer="eu.h1", life=2)
    other = {"member": "eu.h1/n#2", "group": "g@world", "life": 2}
    journal.sees("us.h1", "joined", at=170, stamp=1, **told, **other)
    journal.sees("us.h1", "left", at=290, stamp=2, **told, **other)
    journal.write("eu", "link-down", 295, peer="eu.h1")
    journal.start("eu.h1", 310)
    journal.write("eu", "link-up", 311, peer="eu.h1", life=3)
    journal.write("eu.h1", "link-up", 311, peer="eu", life=1)
    for writer in (*SERVERS, *HOSTS):
        journal.write(writer, "closing", 400)
    return [row for row in journal.rows if (row["writer"], row["epoch"]) != ("eu.h1", 2)]


def served(world: str, *, blinked: bool = False, cut: bool = False, crashed: bool = False) -> Rows:
    """Two hosts of two clusters that see each other; the server of one ceases to write, though it works on.
    With `blinked`, it wrote before that its link to the other server was down, for a moment. With `cut`, the
    other one ceases to write, too, and neither wrote that they lost each other and met again. With `crashed`,
    it is back within seconds, and the two hosts never see each other again."""
    journal = _two_clusters(world)
    servers, hosts, member = SERVERS, HOSTS, MEMBER
    if crashed:
        journal.write("eu", "heartbeat", 95)
    if cut or crashed:
        gone = {"domain": "eu", "inside": False, "accuser": "us", "accused": "eu", "what": "silence"}
        journal.sees("us.h1", "left", at=120, cause="without", kind="without", told=1, **gone, **member)
    if crashed:
        for neighbour in ("us", "eu.h1"):
            journal.write(neighbour, "link-down", 119, peer="eu")
        journal.start("eu", 121)
        for neighbour in ("us", "eu.h1"):
            journal.write(neighbour, "link-up", 122, peer="eu", life=2)
            journal.write("eu", "link-up", 122, peer=neighbour, life=1)
        journal.write("eu", "closing", 400)
    if cut:
        told = {"told": 1, "observers": ["us.h1/a#1"]}
        journal.sees("us.h1", "joined", at=300, cause="merge", **told, **member)
    if blinked:
        for server, other in zip(servers, reversed(servers), strict=True):
            journal.write(server, "link-down", 100, peer=other)
        journal.write("us", "link-up", 100.1, peer="eu", life=1)
    for writer in hosts if cut else ("us", *hosts):
        journal.write(writer, "closing", 400)
    return journal.rows


def clocked(world: str, ahead_s: float, *, set_while_it_runs: bool = False) -> Rows:
    """Two hosts and their server, with members that come and go on both, and a long calm. One clock is off:
    from the beginning, or only until the links are up."""
    journal = Journal(world)
    hosts = ("eu.p.h1", "eu.p.h2")
    for writer in ("eu.p", *hosts):
        journal.start(writer, 0)
    for host in hosts:
        journal.write("eu.p", "link-up", 1, peer=host, life=1)
        journal.write(host, "link-up", 1.5, peer="eu.p", life=1)
        journal.write(host, "followed", 2, group="g@eu", observers=[f"{host}/a#1"], told=1)
        journal.write(host, "absolute", 3, group="g@eu", observers=[f"{host}/a#1"], told=1, count=0)
    for turn, (host, at) in enumerate(((hosts[0], 100), (hosts[1], 200))):
        member = {"member": f"{host}/m#1", "group": "g@eu", "life": 1, "stamp": turn + 1}
        journal.home("joined", at=at, **member)
        for each in hosts:
            journal.sees(each, "joined", at=at + 0.2, told=1, observers=[f"{each}/a#1"], **member)
    for writer in ("eu.p", *hosts):
        journal.write(writer, "closing", 1000)
    off = [row for row in journal.rows if row["writer"] == "eu.p.h2"]
    for row in off[:2] if set_while_it_runs else off:
        row["at"] += timedelta(seconds=ahead_s)
    return journal.rows


CLOCKED = {"ten-minutes-ahead": 600, "ten-minutes-behind": -600, "eight-seconds-ahead": 8}
