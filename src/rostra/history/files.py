"""A directory on any file system that Arrow knows: what tables are made of beside the rows that Spark writes.

Small files appear whole or not at all: by rename where there are names, by one put where there are objects.
In an object store a name is taken, or what is there replaced, by conditional puts: of two writers one is
refused. Arrow has none, so these are boto3's, of the extra `rostra[s3]`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rostra.errors import BadInput, NotAvailable, NotInstalled, RostraError

HIDDEN: Final = (".", "_")
"""Files whose names begin so hold no rows of a table."""

AT_ONCE: Final = 1 << 20
"""Bytes of a file that is read as a whole."""

DAMAGED: Final = re.compile(r"OSError: cannot read (.*)|error while reading file (\S+?)\.? ")
"""What Spark makes of a file that a task of ours, or its own reader, finds damaged."""


OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
"""As Arrow calls them. Spark's wheel can open none of them: they are read and written by Arrow alone."""


S3_FIX: Final = "pip install 'rostra[s3]'"


class FileStatus(NamedTuple):
    """What tells two versions of a file apart."""

    size: int
    mtime_ns: int


def open_files(where: str | Path) -> tuple[pafs.FileSystem, str]:
    """The file system of a path or URI, as Spark or a person writes it, and the path in it."""
    text = str(where)
    if text.startswith("file:"):
        return pafs.LocalFileSystem(), "/" + text.removeprefix("file:").lstrip("/")
    if "://" not in text:
        return pafs.LocalFileSystem(), os.path.abspath(text)
    scheme, _, rest = text.replace("s3a://", "s3://", 1).partition("://")
    if scheme == "s3" and ("?" in rest or "@" in rest):
        raise BadInput(
            "how s3:// is reached is said by variables, and not in the URI",
            fix="set AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    try:
        if scheme == "s3":
            return _bucket(rest.partition("/")[0]), rest.rstrip("/")
        files, path = pafs.FileSystem.from_uri(f"{scheme}://{rest}")
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(
            f"cannot read {text}: {error}", fix="name a directory, or a URI that Arrow knows"
        ) from None
    return files, path


@cache
def _bucket(name: str) -> pafs.FileSystem:
    """To open one takes longer than to read a segment. Where it is and who asks, the environment says."""
    return pafs.FileSystem.from_uri(f"s3://{name}")[0]


def is_object(where: str) -> bool:
    """Is it in an object store, which only Arrow can open?"""
    has_scheme = "://" in where and not where.startswith("file:")
    return has_scheme and open_files(where)[0].type_name in OBJECT_STORES


def open_file(where: str) -> pa.NativeFile:
    """To be read from here and there. A small file is fetched at once: Parquet asks for each column apart,
    and of a segment with a few hundred rows that is most of the time."""
    files, path = open_files(where)
    opened = files.open_input_file(path)
    if opened.size() > AT_ONCE:
        return opened
    with opened:
        return pa.BufferReader(opened.read_buffer())


class LocalDirectory:
    """Paths inside it are given relative to it."""

    def __init__(self, where: str | Path) -> None:
        self.files, self.path = open_files(where)
        self.is_local = isinstance(self.files, pafs.LocalFileSystem)
        self.is_object = self.files.type_name in OBJECT_STORES
        self._prefix = f"file://{self.path}" if self.is_local else str(where).rstrip("/")

    def __str__(self) -> str:
        return self.path if self.is_local else self._prefix

    def uri(self, name: str = "") -> str:
        """As Spark is told."""
        return f"{self._prefix}/{name}".rstrip("/")

    def full(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    def exists(self, name: str = "") -> bool:
        return bool(self.files.get_file_info(self.full(name)).type != pafs.FileType.NotFound)

    def list(self, name: str = "", *, recursive: bool = False) -> Iterator[pafs.FileInfo]:
        yield from self.files.get_file_info(
            pafs.FileSelector(self.full(name), allow_not_found=True, recursive=recursive)
        )

    def read(self, name: str) -> bytes:
        with self.files.open_input_stream(self.full(name)) as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Whole, on the disk, and in the place of whatever had that name."""
        folder, last = self._folder(name)
        if not self.is_local:
            with self.files.open_output_stream(self.full(name)) as file:
                file.write(content)
            return
        part = Path(folder) / f".{last}.part"
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.full(name))
        _sync(folder)

    def create(self, name: str) -> pa.NativeFile:
        """A new file, to be filled."""
        self._folder(name)
        return self.files.open_output_stream(self.full(name))

    def _folder(self, name: str) -> tuple[str, str]:
        """The folder that a file is in, which is there from now on, and its own name. Objects need none."""
        folder, _, last = self.full(name).rpartition("/")
        if not self.is_object:
            self.files.create_dir(folder, recursive=True)
        return folder, last

    def check_commits(self) -> None:
        """Can one of two writers be refused here? Or one line says why not."""
        if self.is_object and self.files.type_name != "s3":
            raise NotAvailable(f"tables cannot be written to {self}", fix="to s3://, or to a file system")
        if self.is_object and find_spec("boto3") is None:
            raise NotInstalled(f"to write to {self} takes boto3, which is not installed", fix=S3_FIX)

    def swap(self, name: str, content: bytes, expected: Callable[[bytes], bool] | None) -> bool:
        """In an object store: write this content under a new name, or in place of the expected content. False
        if another writer was quicker."""
        from botocore.exceptions import ClientError

        bucket, _, key = self.full(name).partition("/")
        client = _client()
        try:
            if expected is None:
                client.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
                return True
            there = client.get_object(Bucket=bucket, Key=key)
            if not expected(there["Body"].read()):
                return False
            client.put_object(Bucket=bucket, Key=key, Body=content, IfMatch=there["ETag"])
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 409, 412):
                return False
            raise
        return True

    def settle(self, name: str) -> None:
        """On the disk, where there is one: a file that was written, or a folder whose names have changed."""
        if self.is_local:
            _sync(self.full(name))

    def put(self, directory: str, files: Sequence[str]) -> None:
        """These files are what is in that directory, and nothing else."""
        self.remove(directory)
        if not files:
            return
        self._folder(f"{directory}/000.parquet")
        for nth, name in enumerate(files):
            self.files.move(self.full(name), self.full(f"{directory}/{nth:03}.parquet"))
        self.settle(directory)
        self.settle(os.path.dirname(directory))

    def write_table(self, name: str, table: pa.Table) -> None:
        self._folder(name)
        pq.write_table(
            table, self.full(name), filesystem=self.files, compression="zstd", write_page_checksum=True
        )

    def read_table(self, name: str) -> pa.Table:
        return pq.read_table(self.full(name), filesystem=self.files, page_checksum_verification=True)

    def remove(self, name: str) -> None:
        """A file or a directory with all that is in it; nothing if it is gone already."""
        match self.files.get_file_info(self.full(name)).type:
            case pafs.FileType.Directory:
                self.files.delete_dir(self.full(name))
            case pafs.FileType.File:
                self.files.delete_file(self.full(name))

    def rows(self, name: str) -> int:
        """So many are in the Parquet files of this directory, by their own word."""
        return sum(many for _, many in parquet_files(self.uri(name)))


def parquet_in(place: LocalDirectory, directory: str) -> list[str]:
    """Its Parquet files, as Spark calls them."""
    names = (str(info.base_name) for info in place.list(directory) if info.type == pafs.FileType.File)
    return sorted(
        place.uri(f"{directory}/{name}".lstrip("/"))
        for name in names
        if name.endswith(".parquet") and is_seen(name)
    )


def parquet_files(directory: str) -> list[tuple[str, int]]:
    """The Parquet files of a directory, and how many rows each has by its own word."""
    place = LocalDirectory(directory)
    found = ((path, open_files(path)) for path in parquet_in(place, ""))
    return [(path, pq.read_metadata(inside, filesystem=files).num_rows) for path, (files, inside) in found]


@cache
def _client() -> Any:
    import boto3

    return boto3.client("s3")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def damaged(path: str, error: Exception) -> OSError:
    """What a task says of a file that is not as it was written."""
    return OSError(f"cannot read {path}: {' '.join(str(error).split())[:200]}")


def unreadable(said: str) -> RostraError | None:
    """For a user, if what was said is that a file is damaged."""
    found = DAMAGED.search(said)
    fix = "put a good copy in its place, or move it away; then ask again"
    return None if found is None else RostraError(f"cannot read {found[1] or found[2]}", fix=fix)


def is_seen(name: str) -> bool:
    return not name.startswith(HIDDEN)


def status(where: str) -> FileStatus | None:
    """None if it is not there."""
    files, path = open_files(where)
    info = files.get_file_info(path)
    if info.type != pafs.FileType.File:
        return None
    return FileStatus(info.size or 0, info.mtime_ns or 0)
