"""Page sizes and page tokens. A token names the last row its page looked at, never an offset: rows that come and go
between two pages neither repeat nor hide others.
"""

import binascii
import struct
import zlib
from base64 import b64decode, urlsafe_b64encode
from enum import IntEnum
from hashlib import blake2b

from raftsched.model.errors import InvalidField
from raftsched.model.limits import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PAGE_TOKEN_MAX_LENGTH

# Version, list, digest of what is listed, position (two numbers), CRC-32 of all before. The CRC tells typos from
# tokens; a token grants nothing, so nothing has to keep callers from making their own.
_TOKEN = struct.Struct(">BB8sQQ")
_CHECKSUM = struct.Struct(">I")
_VERSION = 1


class Listing(IntEnum):
    """Which list a token belongs to."""

    JOBS = 1
    EXECUTIONS = 2
    SKIPPED = 3
    DEAD_LETTERS = 4
    LIMITS = 8
    WORKFLOW = 5
    OCCURRENCES = 6
    CALENDARS = 20
    BACKFILLS = 30


def page_size(requested: int) -> int:
    """Raises InvalidField above the limit."""
    if requested > PAGE_SIZE_MAX:
        raise InvalidField(f"At most {PAGE_SIZE_MAX} items a page.", field="page_size", limit=str(PAGE_SIZE_MAX))
    return requested or PAGE_SIZE_DEFAULT


def encode_token(listing: Listing, scope: bytes, position: int, second: int = 0) -> str:
    """`scope` is what is listed (a filter, a job), in bytes that are equal for equal requests."""
    data = _TOKEN.pack(_VERSION, listing, _digest(scope), position, second)
    return urlsafe_b64encode(data + _CHECKSUM.pack(zlib.crc32(data))).rstrip(b"=").decode()


def decode_token(token: str, listing: Listing, scope: bytes) -> tuple[int, int] | None:
    """Both numbers of the position in a token of this list; None for the first page. Raises InvalidField."""
    if not token:
        return None
    data = _checked(token)
    version, kind, digest, position, second = _TOKEN.unpack(data)
    if version != _VERSION:
        raise InvalidField("The token comes from another version of this server.", field="page_token")
    if kind != listing or digest != _digest(scope):
        raise InvalidField("The token belongs to another list; only page_size may differ.", field="page_token")
    return position, second


def encode_text_token(listing: Listing, scope: bytes, position: str) -> str:
    """As encode_token, for a list in order of name."""
    return encode_token(listing, scope, 0) + "." + urlsafe_b64encode(position.encode()).rstrip(b"=").decode()


def decode_text_token(token: str, listing: Listing, scope: bytes) -> str:
    """The position in a token of this list; "" for the first page. Raises InvalidField."""
    if not token:
        return ""
    head, _, tail = token.partition(".")
    decode_token(head, listing, scope)
    try:
        return b64decode(tail + "=" * (-len(tail) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:
        raise InvalidField("This is not a token that an earlier answer contained.", field="page_token") from None


def _checked(token: str) -> bytes:
    broken = InvalidField("This is not a token that an earlier answer contained.", field="page_token")
    if len(token) > PAGE_TOKEN_MAX_LENGTH or not token.isascii():
        raise broken
    try:
        raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise broken from None
    data, checksum = raw[: _TOKEN.size], raw[_TOKEN.size :]
    if len(data) != _TOKEN.size or checksum != _CHECKSUM.pack(zlib.crc32(data)):
        raise broken
    return data


def _digest(scope: bytes) -> bytes:
    return blake2b(scope, digest_size=8).digest()
