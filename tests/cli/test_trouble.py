"""Bad input, tried and answered: what is said, and with which exit code."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.cluster import Cluster, rostra, start
from support.lab import ROSTRA, WITHIN_S, member
from support.privileges import without_privileges

from rostra.cli import COMMANDS
from rostra.cli.following import until_told
from rostra.wire.frames import FrameKind


@pytest.fixture
def world(tmp_path: Path) -> Path:
    file = tmp_path / "world.toml"
    file.write_text('[world]\nname = "w"\n[servers]\neu = "127.0.0.1:0"\n')
    return file


# Words


def test_a_mistyped_command_names_the_closest() -> None:
    answer = rostra("memebrs", "chess")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines() == [
        "error: there is no command 'memebrs'",
        "  closest: members",
        "  all of them: rostra --help",
    ]


def test_a_command_that_is_elsewhere_is_named() -> None:
    for word, other in (("show", "rostra views"), ("list", "rostra groups")):
        answer = rostra("group", word, "db@eu")
        assert answer.code == 2 and f"  closest: {other}\n" in answer.err


def test_a_membership_that_is_for_programs_is_refused_with_what_does_it() -> None:
    answer = rostra("join", "db@eu", "--membership", "agreed")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[0] == "error: rostra join --membership agreed: join has no views to show"
    assert 'membership="agreed"' in answer.err and "rostra lead NAME -- COMMAND" in answer.err
    other = rostra("join", "db@eu", "--membership", "strong")
    assert other.code == 2 and "use one of: relaxed, led" in other.err


def test_why_of_a_group_names_the_commands_that_show_one() -> None:
    answer = rostra("why", "db@eu")
    assert answer.code == 2 and "'db@eu' is a group" in answer.err and "rostra views db@eu" in answer.err


@pytest.mark.parametrize(
    ("words", "said", "see"),
    [
        (["members"], "missing argument GROUP", "rostra members --help"),
        (["members", "chess", "--no-such"], "no such option: --no-such", "rostra members --help"),
        (["members", "chess", "--scop", "eu"], "no such option: --scop", "closest: --scope"),
        (["members", "chess", "--json"], "no such option: --json", "for programs: -o json\n"),
        (["watch", "chess", "--jsonl"], "no such option: --jsonl", "for programs: -o jsonl\n"),
        (["config", "show"], "missing option --world", "make one: rostra config example > world.toml"),
        (["config", "validate"], "missing argument FILE", "rostra config example"),
        (["agent", "eu.h1"], "missing option --world", "name one: --world FILE, or ROSTRA_WORLD"),
        (["sim", "nope.story"], "nope.story cannot be read: No such file or directory", "name a text file"),
        (["members", "chess", "-o", "yaml"], "'yaml'", "rostra members --help"),
        (["watch", "chess", "-n", "0"], "invalid value for '--changes'", "rostra watch --help"),
        (["config", "shwo"], "there is no command 'shwo'", "closest: show"),
        (["join", "-rare"], "no such option: -r", "stands after --: rostra join -- -NAME"),
        (
            ["members", "g", "-a", "http://127.0.0.1:7780"],
            "'http://127.0.0.1:7780' is a URL",
            "write host:port",
        ),
        (["members", "chess", "more"], "too many words: more", "rostra members --help"),
        (["up", "--port", "99999"], "invalid value for '--port': write at most 65535", "rostra up --help"),
        (["resolve", "g", "--deadline", "x"], "'--deadline': write a number", "rostra resolve --help"),
        (["resolve", "g", "--deadline", "-1"], "--deadline -1 is no time to wait", "how many seconds"),
        (["members", "g", "--deadline", "0"], "--deadline 0 is no time to wait", "how many seconds"),
        (["why", "ann", "--deadline", "-1"], "--deadline -1 is no time to wait", "how many seconds"),
        (["-o", "json", "members"], "no such option: -o", "options stand after the command"),
    ],
)
def test_wrong_use_says_where_to_read_on(words: list[str], said: str, see: str) -> None:
    answer = rostra(*words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err.splitlines()[0] and see in answer.err


def test_the_version_is_printed_by_option_and_command() -> None:
    asked, told = rostra("--version"), rostra("version")
    assert (asked.code, asked.err) == (0, "") and asked.out == told.out
    assert re.fullmatch(r"rostra \S+ \(wire version \d+, Python 3\.\S+\)\n", asked.out)
    assert rostra("version", "-o", "json").json.keys() == {"rostra", "wire", "python"}


@pytest.mark.parametrize(
    "words",
    [
        ["sim", "nope.story"],
        ["completion", "tcsh"],
        ["members", "chess", "-o", "yaml"],
        ["members", "chess", "-a", "127.0.0.1:1"],
        ["members", "chess", "-a", "localhost:1"],
    ],
)
def test_no_library_speaks_in_our_place(words: list[str]) -> None:
    answer = rostra(*words)
    assert answer.code in (2, 4) and answer.err.startswith("error: ")
    for leak in ("Errno", "Value error", "Connect call", "Multiple exceptions", "Traceback"):
        assert leak not in answer.err


def test_without_an_agent_the_ways_to_one_are_named() -> None:
    answer = rostra("members", "chess", "--agent", "127.0.0.1:1")
    assert answer.code == 4
    first, *fixes = answer.err.splitlines()
    assert first == "error: no agent at 127.0.0.1:1: Connection refused"
    assert "`rostra up`" in fixes[0] and " --agent ADDRESS after a command" in fixes[1]


def test_help_is_on_stdout_with_examples_and_exit_codes() -> None:
    for words in ([], ["--help"]):
        answer = rostra(*words)
        assert (answer.code, answer.err) == (0, "")
        assert "Exit codes:" in answer.out and "Examples:" in answer.out
        assert all(len(line) <= 80 for line in answer.lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_the_same_form(name: str) -> None:
    assert rostra(name, "--help").out.startswith(f"Usage: rostra {name}")


def on_a_terminal(*words: str, **env: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    screen, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    with subprocess.Popen(
        [*ROSTRA, *words], stdin=other, stdout=other, stderr=other, env={**plain, "TERM": "xterm", **env}
    ) as process:
        os.close(other)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says EIO when the last writer has gone
            while chunk := os.read(screen, 4096):
                shown += chunk
        assert process.wait(WITHIN_S) == 0
    os.close(screen)
    return shown.decode()


def test_a_terminal_is_not_left_and_colours_only_go_where_they_are_wanted(cluster: Cluster) -> None:
    agent = cluster.socket("eu.h1")
    with member(cluster.socket("eu.h1"), "ann", "coloured", "world"):
        bold = on_a_terminal("members", "coloured", "-a", agent)
        plain = on_a_terminal("members", "coloured", "-a", agent, NO_COLOR="1")
        groups = on_a_terminal("groups", "-a", agent, NO_COLOR="1")
    assert "\x1b[1mcoloured@world" in bold
    assert not re.search(r"\x1b\[[0-9;]*m", plain)
    for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", plain + groups).splitlines():
        assert len(line) <= 80, line


@pytest.mark.parametrize("during", ["rostra.cli", "typer", "rostra.client"])
def test_ctrl_c_while_a_command_is_being_imported_is_quiet(during: str) -> None:
    script = f"""
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {during!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from rostra.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "members", "chess"], capture_output=True, timeout=WITHIN_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_finds_no_import_outside_of_the_handler_that_makes_it_quiet() -> None:
    """`rostra.__main__` and the package are imported before `main` can catch anything."""
    script = "import sys; before = {*sys.modules}; import rostra.__main__; print({*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=WITHIN_S, text=True)
    assert sorted(eval(done.stdout)) == ["rostra", "rostra.__main__"]


def test_the_list_of_commands_imports_no_simulator_and_a_wrong_name_no_command() -> None:
    script = """
import sys
from rostra.cli import main
try:
    main()
except SystemExit:
    pass
print(*(name for name in sys.modules if name.startswith(("rostra.sim", "rostra.history", "rostra.cli"))))
"""
    imported = {}
    for word in ("--help", "memebrs"):
        done = subprocess.run(
            [sys.executable, "-c", script, word], capture_output=True, timeout=WITHIN_S, text=True
        )
        imported[word] = done.stdout.splitlines()[-1].split()
    assert [each for each in imported["--help"] if each.startswith("rostra.sim")] == []
    assert set(imported["memebrs"]) == {f"rostra.cli{room}" for room in ("", ".common", ".house", ".output")}


@pytest.mark.parametrize("daemon", ["agent", "server"])
def test_a_daemon_imports_nothing_that_draws(daemon: str) -> None:
    """It starts on every machine, and many of them in every test of a real world."""
    script = f"import sys; import rostra.cli.{daemon}, rostra.cli.daemon; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=WITHIN_S, text=True)
    assert done.stdout == "False\n", done.stderr


# Files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[world", "not valid TOML"),
        ('[world]\nname = "w"\n[server]\neu = "h:1"', "did you mean 'servers'?"),
        (
            '[world]\nname = "w"\n[servers]\neu = "h:1"\n[detect]\ndown_after = 3',
            "did you mean 'down_after_s'?",
        ),
        ('[world]\nname = "w"\n[servers]\neu = "h:1"\n[detect]\ndown_after_s = "3"', "write it as a number"),
        (
            '[world]\nname = "w"\n[servers]\neu = "h:1"\n[detect]\ndown_after_s = 0.5',
            "longer than a heartbeat",
        ),
        ('[world]\nname = "w"\n[servers]\neu = "h:1"\n[http]\nagents = "0.0.0.0:80"', "knows no passwords"),
        ('[world]\nname = "w"\n[servers]\neu = "h:1"\n[logs]\njson = "yes"', "write true or false"),
    ],
)
def test_a_wrong_world_file_is_found_by_validate(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "world.toml"
    file.write_text(text)
    answer = rostra("config", "validate", str(file))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: world file {file}: ") and said in answer.err


def test_a_key_that_cannot_be_written_is_refused_with_its_place(tmp_path: Path) -> None:
    key, nowhere = tmp_path / "a.key", tmp_path / "nope" / "b.key"
    made = rostra("authority", "key", "acme", "--of", "w", "--to", str(key))
    assert made.code == 0, made.err
    before = key.read_bytes()
    for words in (("key", "acme", "--of", "w"), ("delegate", str(key), "hr")):
        refused = rostra("authority", *words, "--to", str(nowhere))
        assert refused.code == 2 and "Traceback" not in refused.err
        assert f"cannot write key file {nowhere}: No such file or directory" in refused.err
        assert f"make {nowhere.parent} a directory" in refused.err
    assert key.read_bytes() == before


def test_an_authority_is_as_good_as_those_above_it_and_revoked_one_step_down(tmp_path: Path) -> None:
    top, middle, low = (str(tmp_path / name) for name in ("top", "middle", "low"))
    rostra("authority", "key", "acme", "--of", "w", "--to", top)
    rostra("authority", "delegate", top, "hr", "--to", middle, "--days", "30")
    longer = rostra("authority", "delegate", middle, "fr", "--to", low, "--days", "400")
    assert longer.code == 0 and "but no longer than that of acme/hr: until 20" in longer.err
    refused = rostra("authority", "revoke", top, "acme/hr/fr")
    assert refused.code == 2
    assert (
        "acme has not established acme/hr/fr\n  acme/hr did, or one below it: use the key of" in refused.err
    )


def test_the_example_of_an_authority_ends_with_one_line_that_says_why(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "authority.py"
    command = [sys.executable, str(example), str(tmp_path / "nokey"), str(tmp_path / "allowed")]
    environment = {**os.environ, "ROSTRA_AGENT": str(tmp_path / "no.sock")}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 1 and ended.stderr.startswith("error: ") and "Traceback" not in ended.stderr


def test_the_example_of_a_world_file_is_right(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_text(rostra("config", "example").out)
    answer = rostra("config", "validate", str(file))
    assert answer.code == 0 and "world 'acme', 4 domain servers at 2 addresses" in answer.out


def test_a_right_world_file_is_described(world: Path) -> None:
    answer = rostra("config", "validate", str(world))
    assert answer.code == 0
    assert (
        "world 'w', 1 domain server at 1 address, 1 cluster, 0 links " in answer.out
        and "within 5 s" in answer.out
    )
    assert rostra("config", "validate", str(world), "-o", "json").json["servers"] == {"eu": "127.0.0.1:0"}


@pytest.mark.parametrize(
    "words", ["--help", "members --help", "version -o json", "config example", "sim explore"]
)
def test_an_answer_that_finds_no_room_is_an_error_in_one_line(words: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ROSTRA, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            "error: cannot write the answer: No space left on device",
            "  make room there, or write elsewhere",
        ],
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_without_the_streams_that_its_shell_closed(closed: str, world: Path) -> None:
    script = f'"$@" {closed}'
    words = [*ROSTRA, "config", "validate", str(world), "-o", "json"]
    done = subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Ctrl-C


@pytest.mark.parametrize("turns", range(5))
def test_ctrl_c_in_the_turn_in_which_the_work_ends_cancels_nothing_after_it(turns: int) -> None:
    async def work() -> str:
        async with until_told():
            signal.raise_signal(signal.SIGINT)
            for _ in range(turns):
                await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        return "ended in good order"

    assert asyncio.run(work()) == "ended in good order"


def test_ctrl_c_before_the_work_of_a_command_has_begun_is_quiet() -> None:
    script = """
import asyncio, signal
asyncio.Runner.__enter__ = lambda runner: signal.raise_signal(signal.SIGINT)
from rostra.cli import main
main()
"""
    words = [sys.executable, "-c", script, "members", "chess"]
    done = subprocess.run(words, capture_output=True, timeout=WITHIN_S)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# Daemons


def rostra_fails(*words: str, before: Sequence[str] = ()) -> tuple[int, list[str]]:
    done = subprocess.run([*before, *ROSTRA, *words], capture_output=True, text=True, timeout=WITHIN_S)
    return done.returncode, done.stderr.splitlines()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "world.toml"
        file.write_text(f'[world]\nname = "w"\n[servers]\neu = "127.0.0.1:{port}"\n')
        code, lines = rostra_fails("server", "-d", "eu", "-w", str(file))
        assert (code, lines[0]) == (2, f"error: port {port} of 127.0.0.1 is in use")


def test_a_host_without_its_server_says_that_it_knows_only_its_own_part(tmp_path: Path) -> None:
    file, at = tmp_path / "world.toml", str(tmp_path / "s")
    file.write_text('[world]\nname = "w"\n[servers]\neu = "127.0.0.1:1"\n')
    with start("agent", "eu.h1", "-w", str(file), "--socket", at) as agent:
        try:
            assert agent.stderr is not None
            while " configured " not in agent.stderr.readline():
                pass
            answer = rostra("members", "chess", "--agent", at)
        finally:
            agent.kill()
    assert answer.code == 1
    assert answer.err.splitlines()[0] == "eu.h1 is cut off from eu: only its own part is known"


def test_an_http_port_in_use_is_named(world: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = rostra_fails(
            *("agent", "eu.h1", "-w", str(world), "--socket", str(tmp_path / "s")),
            *("--http", f"127.0.0.1:{port}"),
        )
    assert code == 2
    assert (
        lines[0] == f"error: cannot serve HTTP at 127.0.0.1:{port}: Address already in use"
    )  # no door was open


def test_flags_and_variables_that_cannot_be_right_are_named(world: Path) -> None:
    answer = rostra("agent", "eu.h1", "-w", str(world), "--http", "0.0.0.0:80")
    assert (answer.code, answer.err.splitlines()[0]) == (
        2,
        "error: --http '0.0.0.0:80' can be reached from other machines, and HTTP here knows no passwords",
    )
    answer = rostra("agent", "eu.h1", "-w", str(world), env={"ROSTRA_PROFILE": "moon"})
    assert (answer.code, answer.err.splitlines()[0]) == (2, "error: ROSTRA_PROFILE 'moon' is unknown")


def test_a_directory_that_may_not_be_written_is_named(world: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    words = ("agent", "eu.h1", "-w", str(world), "--socket", str(closed / "agent.sock"))
    code, lines = rostra_fails(*words, before=without_privileges())
    assert code == 2
    assert lines[0] == f"error: cannot listen at {closed}/agent.sock: Permission denied"


def test_a_state_directory_without_room_is_a_failure_and_not_wrong_use(world: Path, tmp_path: Path) -> None:
    script = """
import resource, sys
from rostra.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # no file may grow beyond a page
sys.dont_write_bytecode = True
main()
"""
    words = ("agent", "eu.h1", "-w", str(world), "--socket", str(tmp_path / "s"), "--state", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 1
    first, fix = done.stderr.splitlines()[-2:]
    assert first.startswith(f"error: cannot write {tmp_path}/eu.h1.sqlite: ") and "free some space" in fix


# Agents that are not what they should be


class FakeAgent:
    """Answers every caller with these bytes."""

    def __init__(self, path: Path, answer: bytes) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller:
                caller.recv(4096)
                caller.sendall(self._answer)
                caller.recv(4096)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def fake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    agent = FakeAgent(tmp_path / "fake", request.param)
    yield tmp_path / "fake"
    agent.close()


@pytest.mark.parametrize(
    "fake", [struct.pack(">IBB4s", 6, 77, FrameKind.TO_PROGRAM, b"\0\0\0\0")], indirect=True
)
def test_an_agent_of_another_version_is_named(fake: Path) -> None:
    answer = rostra("members", "chess", "-a", str(fake))
    assert answer.code == 6
    assert (
        answer.err == "error: the peer speaks wire version 77, we speak 1\n  upgrade the older of the two\n"
    )


@pytest.mark.parametrize("fake", [b"HTTP/1.1 400 Bad Request\r\n\r\n"], indirect=True)
def test_something_that_is_no_agent_is_named(fake: Path) -> None:
    answer = rostra("members", "chess", "-a", str(fake))
    assert answer.code == 6 and answer.err.startswith("error: ")


def test_a_socket_that_may_not_be_opened_is_refused(cluster: Cluster) -> None:
    path = Path(cluster.socket("eu.h1"))
    path.chmod(0o000)
    try:
        code, lines = rostra_fails("members", "chess", "-a", str(path), before=without_privileges())
    finally:
        path.chmod(0o660)
    assert code == 3
    assert lines[0] == f"error: no permission to use the agent's socket {path}"
    assert "ls -l" in lines[1]


def test_an_agent_of_another_world_says_so_in_its_log_and_is_not_ready(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "elsewhere.toml"
    file.write_text(f'[world]\nname = "elsewhere"\n[servers]\neu = "{cluster.address("eu")}"\n')
    words = ("agent", "eu.h9", "-w", str(file), "--socket", str(tmp_path / "s"), "--http", "127.0.0.1:0")
    with start(*words) as agent:
        try:
            assert agent.stderr is not None
            events: dict[str, str] = {}
            while not {"link_refused", "http_listening"} <= events.keys():
                _, event, *_ = line = agent.stderr.readline().split(" ")
                events[event] = " ".join(line).strip()
            assert "the peer is of world 'elsewhere', we are of world 'lab'" in events["link_refused"]
            http = events["http_listening"].rpartition("address=")[2]
            status, body = asyncio.run(_get(http, "/readyz?verbose"))
        finally:
            agent.kill()
    assert status == 503
    assert "[-] eu.h9 above: eu never seen: the peer is of world" in body


async def _get(address: str, path: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body
