"""A machine where no lab can be built says what is missing, and how to get it."""

import os
from pathlib import Path

import pytest

from rostra.errors import BadInput
from rostra.lab import namespaces
from rostra.lab.namespaces import check_possible


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadInput, match="only root may") as refused:
        check_possible()
    assert "sudo make lab" in refused.value.fix and "rostra up" in refused.value.fix


def test_without_iproute(as_root: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "TOOLS_PATH", "/nowhere")
    with pytest.raises(BadInput, match="ip is not installed") as refused:
        check_possible()
    assert refused.value.fix == "apt-get install -y iproute2"


def test_without_tun(as_root: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(namespaces.shutil, "which", lambda *_, **__: "/sbin/ip")  # type: ignore[attr-defined]
    monkeypatch.setattr(namespaces, "TUN", tmp_path / "tun")
    with pytest.raises(BadInput, match="needs TUN devices") as refused:
        check_possible()
    assert "modprobe tun" in refused.value.fix


def test_with_a_tun_that_cannot_be_opened(
    as_root: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(namespaces.shutil, "which", lambda *_, **__: "/sbin/ip")  # type: ignore[attr-defined]
    monkeypatch.setattr(namespaces, "TUN", tmp_path)  # a directory cannot be opened for writing, by anybody
    with pytest.raises(BadInput, match="cannot be opened") as refused:
        check_possible()
    assert "--cap-add NET_ADMIN" in refused.value.fix


def test_where_namespaces_are_forbidden(as_root: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(name: str) -> None:
        raise BadInput("ip netns add: Operation not permitted")

    monkeypatch.setattr(namespaces.shutil, "which", lambda *_, **__: "/sbin/ip")  # type: ignore[attr-defined]
    monkeypatch.setattr(namespaces, "TUN", Path("/dev/null"))
    monkeypatch.setattr(namespaces, "add", forbidden)
    with pytest.raises(BadInput, match="Operation not permitted") as refused:
        check_possible()
    assert "--cap-add SYS_ADMIN" in refused.value.fix
