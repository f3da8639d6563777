"""Listening sockets, and connections whose caller is not identified yet.

A caller that sends nothing for a few seconds, sends what cannot be decoded or belongs to another world is
disconnected with a reason. However many there are, they cannot take the places of identified peers, nor the
file descriptors that the process itself needs: a caller for which there is no room is refused, and counted.
"""

import asyncio
import contextlib
import hmac
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rostra.errors import BadInput, Malformed, NotAllowed, RostraError, Unreachable
from rostra.protocols.front.config import WATCH_TICK_S
from rostra.protocols.links.packets import Hello
from rostra.runtime.links import HANDSHAKE_TIMEOUT_S, LinkEnd, let_in
from rostra.transport.addresses import SocketPath, TcpAddress
from rostra.transport.connection import Connection
from rostra.transport.trusted import check_directory
from rostra.wire import Arrived, FrameKind, FrameReader, ProgramHello, Refusal

if TYPE_CHECKING:
    from rostra.runtime.process import Process

PENDING_MAX: Final = 1024
"""Callers that are not identified yet. Raising it costs a few KB for each, for as long as a handshake may
take."""

FILES_KEPT_LEAST: Final = 64
"""Files that connections may not take, an eighth of all that the process may open or these: for the disk, for
HTTP, for our own calls to neighbours, and for telling callers that there is no room."""

REJECTED_TIMEOUT_S: Final = 1.0
"""How long a caller for whom there is no room may take to say something."""

BACKLOG: Final = 4096


class PendingConnection:
    """A caller that is not identified yet."""

    __slots__ = ("_connection", "_listener", "_ticks", "name")

    def __init__(self, listener: "Listener", connection: Connection) -> None:
        self._listener = listener
        self._connection = connection
        self._ticks = 0
        self.name = ""
        listener.pending[self] = None

    def arrived(self, items: list[Arrived]) -> None:
        first, *rest = items
        if isinstance(first, Hello):
            self.name = first.path
            self._let_neighbour_in(first, items)
        elif isinstance(first, ProgramHello):
            self.name = first.program
            if first.ticket:
                self._hand_over_arena(first.ticket)
            else:
                self._let_program_in(first, rest)
        else:
            self._connection.refuse(Malformed(f"{type(first).__name__} before the handshake"))

    def refused(self, refusal: Refusal) -> None:
        self._listener.process.record.count("callers_refused_us", refusal.code)

    def lost(self, why: str) -> None:
        self._gone()
        self._listener.process.record.count("callers_gone")

    def full(self) -> None:
        self._connection.abort("it does not read")

    def drained(self) -> None:
        pass

    def _let_neighbour_in(self, hello: Hello, items: list[Arrived]) -> None:
        process = self._listener.process
        hosted = let_in(process, hello)
        if isinstance(hosted, RostraError):
            self._connection.refuse(hosted)
            return
        end = LinkEnd(process, hosted, hello.path, self._connection)
        self._gone()
        self._connection.role = end
        end.open()
        end.arrived(items)

    def _let_program_in(self, hello: ProgramHello, rest: list[Arrived]) -> None:
        process = self._listener.process
        hosted = process.hosted_nodes.get(hello.to) if hello.to else process.default_node()
        if hosted is None:
            here = ", ".join(process.hosted_nodes)
            fix = f"ask its own server, by its address or its socket; here are: {here}"
            self._connection.refuse(NotAllowed(f"{hello.to} is not served here", fix=fix))
            return
        shown, is_ours = hello.secret.encode(), process.knows_secret(hello.secret)
        if (
            self._listener.token
            and not is_ours
            and not hmac.compare_digest(shown, self._listener.token.encode())
        ):
            self._connection.refuse(
                NotAllowed(
                    f"{hosted.path} lets programs in over TCP only with its token"
                    + (", and was shown another" if hello.secret else ""),
                    fix="connect(address, token=...), $ROSTRA_TOKEN, or --token-file FILE after a command",
                )
            )
            return
        programs = process.programs[hosted.path]
        if programs.front.draining:
            self._connection.refuse(Unreachable(f"{hosted.path} is shutting down", fix="try again later"))
            return
        if (
            refusal := programs.connection_refusal(self._connection, self._listener.places_left + 1)
        ) is not None:
            self._connection.refuse(refusal)
            return
        administers = not self._listener.over_tcp or bool(self._listener.token) or is_ours
        program = programs.welcome(hello, self._connection, administers=administers)
        self._gone()
        self._connection.count_in(process.half_received_of_programs)
        self._connection.role = program
        if rest:
            program.arrived(rest)

    def _hand_over_arena(self, ticket: bytes) -> None:
        """A program fetches shared memory, with a ticket that we gave it."""
        process = self._listener.process
        files = [programs.arenas.fetch(ticket) for programs in process.programs.values()]
        file = next((each for each in files if each is not None), None)
        if file is None or not self._connection.hand_over(file):
            self._connection.refuse(NotAllowed("no arena here is for this ticket"))
        else:
            self._connection.close("has fetched an arena")

    def tick(self) -> None:
        """Count its time in our ticks: what it sent while we stalled still waits to be read."""
        self._ticks += 1
        if self._ticks * WATCH_TICK_S > HANDSHAKE_TIMEOUT_S:
            self._connection.refuse(
                Malformed(f"no hello within {HANDSHAKE_TIMEOUT_S:g} s", fix="say hello first")
            )

    def _gone(self) -> None:
        self._listener.pending.pop(self, None)


class RejectedConnection:
    """A caller for which there is no room. It is refused once it has sent something, not before: one that
    writes to a closed socket gets a broken pipe, and not the reason."""

    __slots__ = ("_connection", "_listener", "_ticks", "_why", "name")

    def __init__(self, listener: "Listener", connection: Connection, why: RostraError) -> None:
        self.name = ""
        self._listener = listener
        self._connection = connection
        self._why = why
        self._ticks = 0
        listener.rejected[self] = None

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks * WATCH_TICK_S > REJECTED_TIMEOUT_S:
            self._connection.refuse(self._why)

    def arrived(self, items: list[Arrived]) -> None:
        self._connection.refuse(self._why)

    def lost(self, why: str) -> None:
        self._listener.rejected.pop(self, None)

    def refused(self, refusal: Refusal) -> None: ...
    def full(self) -> None: ...
    def drained(self) -> None: ...


class DroppedConnection:
    """A caller for which there is not even room to be refused."""

    name = ""

    def arrived(self, items: list[Arrived]) -> None: ...
    def lost(self, why: str) -> None: ...
    def refused(self, refusal: Refusal) -> None: ...
    def full(self) -> None: ...
    def drained(self) -> None: ...


class Listener:
    """One listening socket. With a token, programs must present it; neighbours need none. Over TCP, only
    programs with a token may inspect and administer."""

    def __init__(self, process: "Process", *kinds: FrameKind, token: str = "") -> None:
        self.process = process
        self.kinds = kinds
        self.token = token
        self.over_tcp = False
        self.name = ""
        self.pending: dict[PendingConnection, None] = {}
        self.rejected: dict[RejectedConnection, None] = {}
        self._server: asyncio.Server | None = None
        self._socket_file: Path | None = None
        process.listeners.append(self)

    async def listen(self, address: TcpAddress | SocketPath, mode: int = 0o660) -> TcpAddress | SocketPath:
        """Open the socket; the answer is where, with the real number if a free port was asked for."""
        self.name = str(address)
        if isinstance(address, SocketPath):
            await self._listen_local(Path(address.path), mode)
            return address
        self.over_tcp = True
        try:
            self._server = await self.process.loop.create_server(
                self.caller, address.host, address.port, backlog=BACKLOG, reuse_address=True
            )
        except OSError as error:
            raise _cannot_listen(address, error) from None
        port: int = self._server.sockets[0].getsockname()[1]
        self.name = str(TcpAddress(address.host, port))
        return TcpAddress(address.host, port)

    async def _listen_local(self, path: Path, mode: int) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            check_directory(path.parent)
            _remove_if_dead(path)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            # No program may connect between the creation of the file and the change of its mode.
            old = os.umask(0o777 & ~mode)
            try:
                listener.bind(str(path))
            finally:
                os.umask(old)
            self._server = await self.process.loop.create_unix_server(
                self.caller, sock=listener, backlog=BACKLOG
            )
        except OSError as error:
            raise BadInput(
                f"cannot listen at {path}: {error.strerror or error}",
                fix="choose a socket in a directory that we may write: --socket PATH",
            ) from None
        self._socket_file = path

    def set_mode(self, mode: int) -> None:
        """Set the mode of the socket file; a TCP port has none."""
        if self._socket_file is not None:
            self._socket_file.chmod(mode)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._socket_file is not None:
            with contextlib.suppress(FileNotFoundError):
                self._socket_file.unlink()

    def tick(self) -> None:
        callers: list[PendingConnection | RejectedConnection] = [*self.pending, *self.rejected]
        for caller in callers:
            caller.tick()

    def caller(self) -> Connection:
        """A connection was accepted."""
        process = self.process
        connection = Connection(process, FrameReader(process.world.name, *self.kinds, trusted=False))
        connection.count_in(process.half_received_of_strangers)
        why = self._no_room()
        if why is None:
            connection.role = PendingConnection(self, connection)
            return connection
        process.record.count("callers_turned_away")
        process.record.note_rarely(why.what, "callers_turned_away", door=self.name, because=why.what)
        if len(self.rejected) < files_kept(process.files_max) // 2:
            connection.role = RejectedConnection(self, connection, why)
        else:
            connection.role = DroppedConnection()
            connection.abort(why.what)
        return connection

    @property
    def places_left(self) -> int:
        """Connections that there is room for."""
        process = self.process
        return process.files_max - files_kept(process.files_max) - process.connections

    def _no_room(self) -> RostraError | None:
        process = self.process
        if self.places_left <= 0:
            return Unreachable(
                f"{process.default_node().path} has no room for more callers:"
                f" it may open {process.files_max} files",
                fix="raise that (LimitNOFILE= in its unit, or ulimit -n), or use another agent",
            )
        if len(self.pending) >= PENDING_MAX:
            return Unreachable(
                f"too many callers wait at the door of {process.default_node().path}",
                fix="try again in a moment",
            )
        return None


def files_kept(files_max: int) -> int:
    """How many of them are not for callers."""
    return max(FILES_KEPT_LEAST, files_max // 8)


def _remove_if_dead(path: Path) -> None:
    """A socket file outlives a process that was killed; one that answers belongs to a living one."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadInput(f"{path} exists and is no socket", fix="choose another --socket PATH")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise BadInput(f"another agent listens at {path}", fix="stop it, or choose another --socket PATH")


def _cannot_listen(address: TcpAddress, error: OSError) -> BadInput:
    if error.errno == 98 or "in use" in str(error):
        return BadInput(
            f"port {address.port} of {address.host} is in use",
            fix="stop the process that listens there (ss -ltnp shows which), or choose another port",
        )
    if isinstance(error, socket.gaierror):
        return BadInput(f"{address.host!r} is not a known name", fix="use an IP address of this machine")
    return BadInput(
        f"cannot listen at {address}: {error.strerror or error}",
        fix="use an address of this machine, or --listen",
    )
