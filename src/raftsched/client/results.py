"""What a handler returns, as the bytes that others read."""

import inspect
import json

from raftsched.client.failures import PlainFailure

MAX_RESULT_BYTES = 64 * 1024


def encode_result(result: object) -> bytes:
    """bytes as they are, a str in UTF-8, anything else as JSON; None is no result.

    Raises PlainFailure, which is not retried, for what is too large or cannot be told, and for what still has to be
    run: the handler's body never ran.
    """
    if result is None:
        return b""
    if isinstance(result, bytes | bytearray | memoryview):
        encoded = bytes(result)
    elif isinstance(result, str):
        encoded = result.encode(errors="replace")
    else:
        _refuse_unrun(result)
        try:
            encoded = json.dumps(result, ensure_ascii=False).encode(errors="replace")
        except (TypeError, ValueError, RecursionError) as error:
            raise PlainFailure(
                f"the handler returned a {type(result).__name__} that is not JSON ({error}): return bytes, a str or"
                " what json.dumps takes",
                permanent=True,
            ) from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise PlainFailure(
            f"the handler returned {len(encoded):,} bytes; a result has at most {MAX_RESULT_BYTES:,}: store it"
            " elsewhere, and return where it is",
            permanent=True,
        )
    return encoded


def _refuse_unrun(result: object) -> None:
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise PlainFailure(
            f"the handler returned a {type(result).__name__}, which nobody runs: declare the handler with async def",
            permanent=True,
        )
