"""How long what is finished is kept, for jobs that do not say so themselves, and how many dead letters are too many."""

from dataclasses import dataclass

from raftsched.model.errors import InvalidField
from raftsched.model.limits import DAY_MS, RETENTION_AGE_MAX_MS, RETENTION_AGE_MIN_MS, RETENTION_EXECUTIONS_MAX

DEFAULT_AGE_MS = 30 * DAY_MS
# A request is repeated within minutes; who repeats it a week later is told as much as anyone needs.
DEFAULT_REQUEST_ID_AGE_MS = 7 * DAY_MS
DEFAULT_DEAD_LETTER_QUOTA = 100_000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """One node's; the leader's count. Raises InvalidField."""

    # Of executions, skipped ranges and closed sessions, from their end; 0: for ever.
    age_ms: int = DEFAULT_AGE_MS
    # Of each job, the newest ones; 0: any number.
    executions: int = 0
    # Of idempotency keys, from the first request on; 0: for ever.
    request_id_age_ms: int = DEFAULT_REQUEST_ID_AGE_MS
    # More raise an alarm: none is ever dropped. 0: never.
    dead_letter_quota: int = DEFAULT_DEAD_LETTER_QUOTA

    def __post_init__(self) -> None:
        for name in ("age_ms", "request_id_age_ms"):
            age_ms = getattr(self, name)
            if age_ms and not RETENTION_AGE_MIN_MS <= age_ms <= RETENTION_AGE_MAX_MS:
                raise InvalidField("must be 1 s to 10 years, or 0", field=f"retention.{name}")
        if not 0 <= self.executions <= RETENTION_EXECUTIONS_MAX:
            raise InvalidField(f"must be at most {RETENTION_EXECUTIONS_MAX:,}", field="retention.executions")
        if self.dead_letter_quota < 0:
            raise InvalidField("must not be negative", field="retention.dead_letter_quota")
