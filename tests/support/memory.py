"""How much memory a process of a lab has used."""

from pathlib import Path

from support.lab import Lab


def forget_peak(lab: Lab, node: str) -> int:
    """Count anew; the answer is how many MB it has now."""
    Path(f"/proc/{lab[node].pid}/clear_refs").write_text("5")
    return peak_mb(lab, node)


def peak_mb(lab: Lab, node: str) -> int:
    """The most that it had at a time, in MB."""
    status = Path(f"/proc/{lab[node].pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
