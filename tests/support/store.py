"""An S3 server on loopback, for as long as it is needed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pyarrow.fs as pafs
import pytest
from moto.server import ThreadedMotoServer

from rostra.history import files


@contextmanager
def s3_store() -> Iterator[str]:
    """A bucket of its own; how it is reached is said as S3's users say it, also to
    processes that are started."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server.start()
    _, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "us")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        files._client.cache_clear()
        files._bucket.cache_clear()
        boto3.client("s3").create_bucket(Bucket="history")
        yield "s3://history"
    server.stop()


def up(local: Path, where: str) -> None:
    """Everything that is in a directory of this machine."""
    there, path = files.open_files(where)
    pafs.copy_files(str(local), path, destination_filesystem=there)
