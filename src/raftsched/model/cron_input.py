"""What callers may write for a cron expression beyond what cron.py knows: `H`, and `@every` with a span of time.

`H` stands for a number that is derived from a job's name, so that jobs of one expression do not all run at once: `H`
is any number of the field, `H(0-29)` one of these, `H/15` every 15 from a number below 15 on, `H(0-29)/10` both. It
becomes a plain number once, when the job is created. Days of the month are taken from 1–28, which every month has.
"""

import re
from hashlib import blake2b

from raftsched.model import limits
from raftsched.model.cron import FIELDS, CronField, invalid_term, normalized, parse_number
from raftsched.model.errors import InvalidField

_HASHED = re.compile(r"h(?:\(([0-9]+|[a-z]{3})-([0-9]+|[a-z]{3})\))?(?:/([0-9]{1,4}))?", re.IGNORECASE)
# "thu" and "@hourly" hold the letter too.
_HAS_HASHED = re.compile(r"(?<![a-z@])h(?![a-z])", re.IGNORECASE)
_EVERY = re.compile(r"@every(?:\s+(\S*))?", re.IGNORECASE)
_SPAN = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?", re.IGNORECASE)
_SPAN_UNITS_MS = (limits.DAY_MS, limits.HOUR_MS, limits.MINUTE_MS, limits.SECOND_MS)
# The last number that is taken for H, where it is not the field's last.
_LAST_HASHED = {"day of month": 28, "day of week": 6}


def is_hashed(expression: str) -> bool:
    """Whether the expression's meaning depends on a job's name."""
    return bool(_HAS_HASHED.search(expression))


def resolved(expression: str, seed: str) -> str:
    """The expression with single spaces and a number for each `H`, the same for the same `seed`.

    Raises InvalidField, field "expression", for an `H` that is written wrong; says nothing on the rest.
    """
    text = normalized(expression)
    if not is_hashed(text):
        return text
    parts = text.split(" ")
    if len(parts) not in (5, 6):
        return text
    return " ".join(
        ",".join(_number_for(which, term, seed) for term in part.split(","))
        for which, part in zip(FIELDS[-len(parts) :], parts, strict=True)
    )


def every_ms(expression: str) -> int | None:
    """The interval that `@every 1h30m` asks for; None for any other expression. Raises InvalidField."""
    match = _EVERY.fullmatch(expression.strip())
    if match is None:
        return None
    span = _SPAN.fullmatch(match[1] or "")
    if span is None or not any(span.groups()):
        raise InvalidField(
            "@every is followed by a span of time such as 90s, 5m, 1h30m or 2d, in this order of units",
            field="expression",
        )
    span_ms = sum(int(number or 0) * unit_ms for number, unit_ms in zip(span.groups(), _SPAN_UNITS_MS, strict=True))
    if not limits.INTERVAL_MIN_MS <= span_ms <= limits.INTERVAL_MAX_MS:
        raise InvalidField("@every takes 1 s to 10 years", field="expression")
    return span_ms


def _number_for(which: CronField, term: str, seed: str) -> str:
    match = _HASHED.fullmatch(term)
    if match is None:
        # What is not understood is refused when the whole is parsed.
        return term
    first_text, last_text, step_text = match.groups()
    first, last = which.low, _LAST_HASHED.get(which.title, which.high)
    if first_text:
        first = parse_number(which, term, first_text.lower())
        last = parse_number(which, term, last_text.lower())
        if last < first:
            raise invalid_term(which, term, "the range ends before it begins")
    count = last - first + 1
    if not step_text:
        return str(first + _hash(which, seed) % count)
    step = int(step_text)
    if not 1 <= step <= count:
        raise invalid_term(which, term, f"a step is 1–{count} here")
    return f"{first + _hash(which, seed) % step}-{last}/{step}"


def _hash(which: CronField, seed: str) -> int:
    # The field is part of it: else the minute would follow from the hour.
    return int.from_bytes(blake2b(f"{which.title}/{seed}".encode(), digest_size=8).digest(), "big")
