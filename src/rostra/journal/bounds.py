"""Every bound of a journal."""

from msgspec import Struct

from rostra.errors import BadInput


class Bounds(Struct, frozen=True):
    """When a segment is finished, and how much may wait.

    `segment_s`
        A segment is finished this often, with a heartbeat as its last row; a node that is killed loses at
        most this much. Default 10 s. Lowering it: less is lost, and there are more and smaller files.
    `segment_rows`
        Or when it has this many rows. Default 50,000: some megabytes in memory, some hundred kilobytes on
        disk. Raising it: fewer files under load, more memory.
    `waiting_rows`
        Rows that may wait in memory for a disk that does not take them. Default 200,000, at most about
        100 MB. Raising it: longer outages of the disk without a loss.
    `record_mb`
        With `record`: how large the recording of one life of a node may become, in megabytes on disk; then
        it ends. Default 256, some days of a quiet node. Raising it: longer lives can be replayed.
    """

    segment_s: float = 10.0
    segment_rows: int = 50_000
    waiting_rows: int = 200_000
    record_mb: int = 256

    def __post_init__(self) -> None:
        if not (self.segment_s > 0 and self.segment_rows > 0 and self.record_mb > 0):
            raise BadInput("bounds of a journal must be positive", fix="leave them out for the defaults")
        if self.segment_rows > self.waiting_rows:
            raise BadInput(
                f"segments of {self.segment_rows} rows, and only {self.waiting_rows} may wait",
                fix="raise waiting_rows or lower segment_rows",
            )
