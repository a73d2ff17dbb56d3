"""The connection to a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pymlgo.errors import ConfigError, MLGOError
from pymlgo.optional import need

ANSWER_S = 5.0
"""How long a cluster's head may take to answer. Ray itself would try a wrong address for minutes."""

SETTINGS_HEAD = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The head of an empty HTTP/2 SETTINGS frame: length, type, flags, stream. Source: RFC 9113, sections 4.1 and 6.5."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_HEAD
"""What a client sends first to a gRPC server, which answers with settings of its own. Source: RFC 9113, section 3.4."""


@contextmanager
def connected(address: str | None, cores: int | None) -> Iterator[ModuleType]:
    """The module `ray`, connected to a cluster for the length of the block.

    A connection that this process has already is used and stays.

    Args:
        address: `host:port` of a cluster's head, `auto` for the cluster that this machine belongs to; None for the
            one that `RAY_ADDRESS` names, or else one of this machine alone that ends with the block.
        cores: that a cluster of this machine alone has; None for all.

    Raises:
        ConfigError: no cluster answers there.
        MLGOError: Ray does not start here.
        MissingDependency: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray would warn that it will become
    ray = need("ray", extra="ray", purpose="run compiles on a cluster")
    if ray.is_initialized():
        yield ray
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    if where not in ("auto", "local"):
        _require_head(where)
    own = {"num_cpus": cores, "include_dashboard": False} if where == "local" else {}
    try:
        ray.init(address=where, logging_level="ERROR", log_to_driver=False, **own)
    except Exception as error:  # Ray raises nothing more special when a daemon does not come up
        raise _no_cluster(where, str(error).partition("\n")[0]) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_head(address: str) -> None:
    """Nothing, where a gRPC server answers as the head of a cluster does."""
    if "://" in address:
        raise ConfigError(
            f"{address}: Ray's client is not supported",
            hint="run mlgo on a machine of the cluster, e.g. through `ray job submit`, with --address auto",
        )
    host, separator, port = address.rpartition(":")
    if not (separator and host and port.isdigit() and int(port) < 1 << 16):
        raise ConfigError(f"{address!r} is no address of a Ray cluster", hint="expected HOST:PORT, or auto")
    if os.environ.get("RAY_USE_TLS", "0") == "1":
        return  # the greeting would have to be encrypted
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_S) as connection:
            connection.sendall(GREETING)
            answer = connection.recv(len(SETTINGS_HEAD), socket.MSG_WAITALL)
    except OSError as error:
        raise _no_cluster(address, error.strerror or str(error)) from error
    if answer[3:4] != SETTINGS_HEAD[3:4]:
        raise _no_cluster(address, "something else listens there")


def _no_cluster(address: str, why: str) -> MLGOError:
    if address == "local":
        return MLGOError(f"Ray does not start on this machine: {why}", hint="a busy machine may be too slow for it")
    return ConfigError(
        f"no Ray cluster at {address}: {why}", hint="`ray start --head` starts one and prints its address"
    )
