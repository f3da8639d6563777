"""`rostra debug`: everything that helps to understand a problem, in one archive, secrets removed."""

import contextlib
import io
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

from rostra.cli.asking import administer
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import remarks, say
from rostra.client.sight import Sight, look
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.transport.addresses import (
    SMALL_WORLD_PREFIX,
    SocketPath,
    TcpAddress,
    find_agent,
    parse_address,
    parse_tcp,
)
from rostra.wire import WIRE_VERSION

LOG_BYTES_MAX: Final = 2 << 20
"""Of each log, its end."""

JOURNAL_LINES: Final = 5_000
FETCH_WITHIN_S: Final = 2.0
FETCH_BYTES_MAX: Final = 4 << 20

SECRET: Final = re.compile(r"(?i)(token|secret|passw|credential|key)")
SECRET_IN_TEXT: Final = re.compile(
    r"(?i)((?:token|secret|passw(?:or)?d|credential|api[_-]?key)[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|\S+)"
)
REMOVED: Final = "(removed)"


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="The world")(command(debug))


def debug(
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Write it here.", show_default="rostra-debug-TIME.tar.gz"
        ),
    ] = None,
    attachments: Annotated[
        bool, typer.Option("--attachments", help="Keep what members attached to their addresses.")
    ] = False,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Put state, recent events, logs and metrics of all nodes in sight into one archive.

    Values of variables and settings whose name contains token, secret, password or key are removed, and so
    is what programs attached to their memberships. Names of groups, hosts and programs are kept: look at the
    archive before you send it on.

    Examples:

        rostra debug
        rostra debug -f /tmp/before-restart.tar.gz
    """
    path = file or Path(f"rostra-debug-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    console = remarks()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("asking the nodes in sight")
        sight = run_client(_look(agent))
        progress.update(task, description="collecting logs and metrics")
        parts = dict(collect(sight, agent, attachments=attachments))
        progress.update(task, description=f"writing {path}")
        write(path, parts)
    say(path)
    console.print(f"{len(parts)} files, {path.stat().st_size / 1024:.0f} KB; {sight.describe()}")
    return EXIT_OK


async def _look(agent: str | None) -> Sight:
    async with administer(agent) as admin:
        return await look(admin, agent)


def collect(sight: Sight, agent: str | None, *, attachments: bool) -> Iterator[tuple[str, bytes]]:
    yield "README.txt", _readme(sight).encode()
    yield "machine.json", _json(machine())
    yield "environment.json", _json(environment(os.environ))
    for node, document in sorted(sight.documents.items()):
        kept = document if attachments else without_attachments(document)
        yield f"nodes/{file_name(node)}.json", _json(kept)
        if document.get("http"):
            for path, ending in (("/metrics", "txt"), ("/readyz?verbose", "readyz.txt")):
                yield f"metrics/{file_name(node)}.{ending}", of_node(sight, node, path)
    yield "unseen.json", _json(dict(sight.unseen))
    yield from logs(agent)


def _readme(sight: Sight) -> str:
    return (
        f"World {sight.world!r}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}, {sight.describe()}.\n\n"
        "nodes/        what each node knows, and its last events (recent)\n"
        "metrics/      Prometheus text and readiness, of nodes that serve HTTP\n"
        "logs/         ends of logs: of a world of rostra up, or of systemd\n"
        "unseen.json   nodes that could not be asked, and why\n"
    )


def machine() -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for name in ("rostra", "msgspec", "uvloop", "typer", "starlette", "uvicorn", "prometheus-client"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "load": os.getloadavg(),
        "wire_version": WIRE_VERSION,
        "versions": versions,
    }


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Rostra's own only, without secrets."""
    return {
        name: REMOVED if SECRET.search(name) else value
        for name, value in sorted(environ.items())
        if name.startswith("ROSTRA_")
    }


def without_attachments(value: Any) -> Any:
    """The same document; attachments and whatever is called a secret are replaced."""
    if isinstance(value, dict):
        return {
            key: REMOVED
            if isinstance(each, str) and each and (key == "meta" or SECRET.search(key))
            else without_attachments(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        # A member record: endpoint, stamp, attachment.
        if len(value) == 3 and isinstance(value[1], list) and isinstance(value[2], str) and value[2]:
            return [value[0], value[1], REMOVED]
        return [without_attachments(each) for each in value]
    return value


def without_secrets(text: str) -> str:
    return SECRET_IN_TEXT.sub(rf"\1{REMOVED}", text)


def file_name(node: str) -> str:
    """What a node's files are called in the archive, whatever it calls itself."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", node).lstrip(".")


def of_node(sight: Sight, node: Domain, path: str) -> bytes:
    """What a node serves over HTTP, if it does so on the machine where we reached it. Anything else that it
    may name is not fetched."""
    try:
        at, reached = parse_tcp(sight.documents[node]["http"]), parse_address(sight.reached[node])
        if isinstance(reached, TcpAddress) and not _is_same_host(at.host, reached.host):
            return f"not asked: it names {at.host}, and was reached at {reached.host}\n".encode()
        return fetch(at, path)
    except (BadInput, OSError) as error:
        return f"not answered: {error}\n".encode()


def _is_same_host(one: str, other: str) -> bool:
    return one == other or {one, other} <= {"127.0.0.1", "::1", "localhost"}


def fetch(at: TcpAddress, path: str) -> bytes:
    """The body of the answer, whatever its status: no more than a bound, for no longer than a bound, and
    without following links elsewhere."""
    deadline = time.monotonic() + FETCH_WITHIN_S
    answer = bytearray()
    with (
        socket.create_connection((at.host, at.port), timeout=FETCH_WITHIN_S) as sock,
        contextlib.suppress(TimeoutError),
    ):
        sock.sendall(f"GET {path} HTTP/1.0\r\nHost: {at}\r\n\r\n".encode())
        while len(answer) < FETCH_BYTES_MAX and (left_s := deadline - time.monotonic()) > 0:
            sock.settimeout(left_s)
            if not (more := sock.recv(FETCH_BYTES_MAX - len(answer))):
                return bytes(answer.partition(b"\r\n\r\n")[2])
            answer += more
    return bytes(answer.partition(b"\r\n\r\n")[2]) + b"\n(cut off: it went on)\n"


def logs(agent: str | None) -> Iterator[tuple[str, bytes]]:
    where = find_agent() if agent is None else parse_address(agent)
    if isinstance(where, SocketPath):
        directory = Path(where.path).parent
        if directory.name.startswith(SMALL_WORLD_PREFIX):
            for file in sorted((directory / "logs").glob("*.log")):
                yield f"logs/{file.name}", _scrubbed(_end_of(file))
            return
    if shutil.which("journalctl"):
        done = subprocess.run(
            ("journalctl", "--no-pager", "-o", "short-iso", "-n", str(JOURNAL_LINES), "-u", "rostra-*"),
            capture_output=True,
            timeout=20,
        )
        yield "logs/journal.txt", _scrubbed((done.stdout or done.stderr)[-LOG_BYTES_MAX:])


def _end_of(file: Path) -> bytes:
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LOG_BYTES_MAX))
        return log.read()


def _scrubbed(log: bytes) -> bytes:
    return without_secrets(log.decode(errors="replace")).encode()


def write(path: Path, parts: Mapping[str, bytes]) -> None:
    stem = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    try:
        # No other user may read it before its owner has.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}", fix="choose another --file") from None
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))


def _json(document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
