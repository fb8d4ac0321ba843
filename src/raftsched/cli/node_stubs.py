"""Plain calls to the ClusterService of one node, for commands that need more of it than the client offers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import grpc

from raftsched.client.channels import CHANNEL_OPTIONS
from raftsched.client.errors import from_rpc
from raftsched.v1.cluster_pb2_grpc import ClusterServiceStub

# A node whose machine is gone should be noticed, also in the midst of a long stream.
_OPTIONS = (*CHANNEL_OPTIONS, ("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000))


@contextmanager
def cluster_stub(address: str, credentials: grpc.ChannelCredentials | None) -> Iterator[Any]:
    """A ClusterServiceStub. Failed calls inside raise the client's errors."""
    if credentials is None:
        channel = grpc.insecure_channel(address, options=_OPTIONS)
    else:
        channel = grpc.secure_channel(address, credentials, options=_OPTIONS)
    with channel:
        try:
            yield ClusterServiceStub(channel)
        except grpc.RpcError as failure:
            # It answers as the asyncio client's error does.
            raise from_rpc(cast("grpc.aio.AioRpcError", failure)) from None
