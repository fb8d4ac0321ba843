"""Page sizes and tokens: what went in comes out, and whatever is not a token of this list is refused with its field."""

import base64

import pytest

from raftsched.api.paging import Listing, decode_token, encode_token, page_size
from raftsched.model.errors import InvalidField

TOKEN = encode_token(Listing.JOBS, b"filter", 12_345)


@pytest.mark.parametrize("position", [0, 1, 12_345, 2**64 - 1])
def test_a_token_gives_its_position_back(position: int) -> None:
    token = encode_token(Listing.JOBS, b"filter", position, 7)
    assert decode_token(token, Listing.JOBS, b"filter") == (position, 7)


def test_no_token_means_the_first_page() -> None:
    assert decode_token("", Listing.JOBS, b"filter") is None


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "!!!!",
        "ключ",
        TOKEN[:-1],
        TOKEN + "A",
        TOKEN[:5] + "!" + TOKEN[5:],
        TOKEN[:5] + ("A" if TOKEN[5] != "A" else "B") + TOKEN[6:],
        TOKEN.swapcase(),
        TOKEN * 100,
        " " + TOKEN,
        base64.urlsafe_b64encode(b"1" * 22).decode(),
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidField) as caught:
        decode_token(token, Listing.JOBS, b"filter")
    assert caught.value.field == "page_token"


def test_a_token_of_another_filter_is_refused() -> None:
    with pytest.raises(InvalidField, match="another list"):
        decode_token(TOKEN, Listing.JOBS, b"other filter")


def test_a_token_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidField, match="another list"):
        decode_token(TOKEN, Listing.DEAD_LETTERS, b"filter")


@pytest.mark.parametrize(("requested", "size"), [(0, 100), (1, 1), (1_000, 1_000)])
def test_page_sizes(requested: int, size: int) -> None:
    assert page_size(requested) == size


@pytest.mark.parametrize("requested", [1_001, 2**32 - 1])
def test_a_page_too_large_is_refused(requested: int) -> None:
    with pytest.raises(InvalidField) as caught:
        page_size(requested)
    assert caught.value.field == "page_size"
