"""`rostra history stop`: end the Spark that was kept warm."""

from rostra.cli.common import EXIT_OK, remark


def stop() -> int:
    """End the Spark that the first question started and later ones use.

    It ends by itself after ten idle minutes; this frees its memory now.

    Examples:

        rostra history stop
    """
    from rostra.history import warm

    pid = warm.stop()
    remark("no Spark was kept warm" if pid is None else f"ended process {pid}")
    return EXIT_OK
