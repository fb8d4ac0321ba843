from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Entry(_message.Message):
    __slots__ = ("now_ms", "commands", "membership")
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    now_ms: int
    commands: _containers.RepeatedScalarFieldContainer[bytes]
    membership: bytes
    def __init__(self, now_ms: _Optional[int] = ..., commands: _Optional[_Iterable[bytes]] = ..., membership: _Optional[bytes] = ...) -> None: ...

class Membership(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "address", "voter")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    node: int
    address: str
    voter: bool
    def __init__(self, node: _Optional[int] = ..., address: _Optional[str] = ..., voter: _Optional[bool] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("origin", "request", "create_jobs", "cancel_job", "replay_dead_letters", "fire", "tick", "extend_ticks", "assign_shards", "leader_started", "verify", "open_session", "close_session", "renew", "lease", "release", "started", "ack", "fail", "put_calendar", "delete_calendar", "replace_ticks", "pause_job", "resume_job", "cancel_execution", "trigger_job", "update_job", "reschedule_job", "delete_job", "create_backfill", "cancel_backfill", "reclaim", "claim_key", "complete_key", "put_limit", "delete_limit")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CREATE_JOBS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOB_FIELD_NUMBER: _ClassVar[int]
    REPLAY_DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    FIRE_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    EXTEND_TICKS_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_SHARDS_FIELD_NUMBER: _ClassVar[int]
    LEADER_STARTED_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    OPEN_SESSION_FIELD_NUMBER: _ClassVar[int]
    CLOSE_SESSION_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    PUT_CALENDAR_FIELD_NUMBER: _ClassVar[int]
    DELETE_CALENDAR_FIELD_NUMBER: _ClassVar[int]
    REPLACE_TICKS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_JOB_FIELD_NUMBER: _ClassVar[int]
    RESUME_JOB_FIELD_NUMBER: _ClassVar[int]
    CANCEL_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_JOB_FIELD_NUMBER: _ClassVar[int]
    UPDATE_JOB_FIELD_NUMBER: _ClassVar[int]
    RESCHEDULE_JOB_FIELD_NUMBER: _ClassVar[int]
    DELETE_JOB_FIELD_NUMBER: _ClassVar[int]
    CREATE_BACKFILL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_BACKFILL_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_FIELD_NUMBER: _ClassVar[int]
    CLAIM_KEY_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_KEY_FIELD_NUMBER: _ClassVar[int]
    PUT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DELETE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    origin: int
    request: int
    create_jobs: CreateJobs
    cancel_job: CancelJob
    replay_dead_letters: ReplayDeadLetters
    fire: Fire
    tick: Tick
    extend_ticks: ExtendTicks
    assign_shards: AssignShards
    leader_started: LeaderStarted
    verify: Verify
    open_session: OpenSession
    close_session: CloseSession
    renew: Renew
    lease: Lease
    release: Release
    started: Started
    ack: Ack
    fail: Fail
    put_calendar: PutCalendar
    delete_calendar: DeleteCalendar
    replace_ticks: ReplaceTicks
    pause_job: PauseJob
    resume_job: ResumeJob
    cancel_execution: CancelExecution
    trigger_job: TriggerJob
    update_job: UpdateJob
    reschedule_job: RescheduleJob
    delete_job: DeleteJob
    create_backfill: CreateBackfill
    cancel_backfill: CancelBackfill
    reclaim: Reclaim
    claim_key: ClaimKey
    complete_key: CompleteKey
    put_limit: PutLimit
    delete_limit: DeleteLimit
    def __init__(self, origin: _Optional[int] = ..., request: _Optional[int] = ..., create_jobs: _Optional[_Union[CreateJobs, _Mapping]] = ..., cancel_job: _Optional[_Union[CancelJob, _Mapping]] = ..., replay_dead_letters: _Optional[_Union[ReplayDeadLetters, _Mapping]] = ..., fire: _Optional[_Union[Fire, _Mapping]] = ..., tick: _Optional[_Union[Tick, _Mapping]] = ..., extend_ticks: _Optional[_Union[ExtendTicks, _Mapping]] = ..., assign_shards: _Optional[_Union[AssignShards, _Mapping]] = ..., leader_started: _Optional[_Union[LeaderStarted, _Mapping]] = ..., verify: _Optional[_Union[Verify, _Mapping]] = ..., open_session: _Optional[_Union[OpenSession, _Mapping]] = ..., close_session: _Optional[_Union[CloseSession, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., fail: _Optional[_Union[Fail, _Mapping]] = ..., put_calendar: _Optional[_Union[PutCalendar, _Mapping]] = ..., delete_calendar: _Optional[_Union[DeleteCalendar, _Mapping]] = ..., replace_ticks: _Optional[_Union[ReplaceTicks, _Mapping]] = ..., pause_job: _Optional[_Union[PauseJob, _Mapping]] = ..., resume_job: _Optional[_Union[ResumeJob, _Mapping]] = ..., cancel_execution: _Optional[_Union[CancelExecution, _Mapping]] = ..., trigger_job: _Optional[_Union[TriggerJob, _Mapping]] = ..., update_job: _Optional[_Union[UpdateJob, _Mapping]] = ..., reschedule_job: _Optional[_Union[RescheduleJob, _Mapping]] = ..., delete_job: _Optional[_Union[DeleteJob, _Mapping]] = ..., create_backfill: _Optional[_Union[CreateBackfill, _Mapping]] = ..., cancel_backfill: _Optional[_Union[CancelBackfill, _Mapping]] = ..., reclaim: _Optional[_Union[Reclaim, _Mapping]] = ..., claim_key: _Optional[_Union[ClaimKey, _Mapping]] = ..., complete_key: _Optional[_Union[CompleteKey, _Mapping]] = ..., put_limit: _Optional[_Union[PutLimit, _Mapping]] = ..., delete_limit: _Optional[_Union[DeleteLimit, _Mapping]] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("namespace", "handler", "queue", "content_type", "tenant", "priority", "max_attempts", "initial_backoff_ms", "max_backoff_ms", "multiplier", "backoff_jitter", "run_timeout_ms", "jitter_ms", "overlap", "catch_up", "overlap_limit", "catch_up_window_ms", "catch_up_limit", "catch_up_interval_ms", "max_runs", "start_deadline_ms", "backoff", "max_elapsed_ms", "non_retryable_errors", "retention_age_ms", "retention_executions", "concurrency_key", "concurrency_limit", "pause_after_failures", "dependency_rule")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    HANDLER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_JITTER_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    JITTER_MS_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_FIELD_NUMBER: _ClassVar[int]
    START_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    MAX_ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_ERRORS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_AFTER_FAILURES_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_RULE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    handler: str
    queue: str
    content_type: str
    tenant: str
    priority: int
    max_attempts: int
    initial_backoff_ms: int
    max_backoff_ms: int
    multiplier: float
    backoff_jitter: float
    run_timeout_ms: int
    jitter_ms: int
    overlap: int
    catch_up: int
    overlap_limit: int
    catch_up_window_ms: int
    catch_up_limit: int
    catch_up_interval_ms: int
    max_runs: int
    start_deadline_ms: int
    backoff: int
    max_elapsed_ms: int
    non_retryable_errors: _containers.RepeatedScalarFieldContainer[str]
    retention_age_ms: int
    retention_executions: int
    concurrency_key: str
    concurrency_limit: int
    pause_after_failures: int
    dependency_rule: int
    def __init__(self, namespace: _Optional[str] = ..., handler: _Optional[str] = ..., queue: _Optional[str] = ..., content_type: _Optional[str] = ..., tenant: _Optional[str] = ..., priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., initial_backoff_ms: _Optional[int] = ..., max_backoff_ms: _Optional[int] = ..., multiplier: _Optional[float] = ..., backoff_jitter: _Optional[float] = ..., run_timeout_ms: _Optional[int] = ..., jitter_ms: _Optional[int] = ..., overlap: _Optional[int] = ..., catch_up: _Optional[int] = ..., overlap_limit: _Optional[int] = ..., catch_up_window_ms: _Optional[int] = ..., catch_up_limit: _Optional[int] = ..., catch_up_interval_ms: _Optional[int] = ..., max_runs: _Optional[int] = ..., start_deadline_ms: _Optional[int] = ..., backoff: _Optional[int] = ..., max_elapsed_ms: _Optional[int] = ..., non_retryable_errors: _Optional[_Iterable[str]] = ..., retention_age_ms: _Optional[int] = ..., retention_executions: _Optional[int] = ..., concurrency_key: _Optional[str] = ..., concurrency_limit: _Optional[int] = ..., pause_after_failures: _Optional[int] = ..., dependency_rule: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("expression", "time_zone", "every_ms", "more_expressions", "exclude", "gap", "fold", "start_ms", "end_ms", "calendars")
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    EVERY_MS_FIELD_NUMBER: _ClassVar[int]
    MORE_EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    CALENDARS_FIELD_NUMBER: _ClassVar[int]
    expression: str
    time_zone: str
    every_ms: int
    more_expressions: _containers.RepeatedScalarFieldContainer[str]
    exclude: _containers.RepeatedScalarFieldContainer[str]
    gap: int
    fold: int
    start_ms: int
    end_ms: int
    calendars: _containers.RepeatedCompositeFieldContainer[ScheduleCalendar]
    def __init__(self, expression: _Optional[str] = ..., time_zone: _Optional[str] = ..., every_ms: _Optional[int] = ..., more_expressions: _Optional[_Iterable[str]] = ..., exclude: _Optional[_Iterable[str]] = ..., gap: _Optional[int] = ..., fold: _Optional[int] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., calendars: _Optional[_Iterable[_Union[ScheduleCalendar, _Mapping]]] = ...) -> None: ...

class ScheduleCalendar(_message.Message):
    __slots__ = ("namespace", "calendar", "rule")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    calendar: str
    rule: int
    def __init__(self, namespace: _Optional[str] = ..., calendar: _Optional[str] = ..., rule: _Optional[int] = ...) -> None: ...

class CreateJobs(_message.Message):
    __slots__ = ("jobs", "profiles", "schedules", "key_namespace", "key", "fingerprint", "nodes")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    KEY_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    profiles: _containers.RepeatedScalarFieldContainer[bytes]
    schedules: _containers.RepeatedCompositeFieldContainer[NewSchedule]
    key_namespace: str
    key: str
    fingerprint: bytes
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., profiles: _Optional[_Iterable[bytes]] = ..., schedules: _Optional[_Iterable[_Union[NewSchedule, _Mapping]]] = ..., key_namespace: _Optional[str] = ..., key: _Optional[str] = ..., fingerprint: _Optional[bytes] = ..., nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class NewSchedule(_message.Message):
    __slots__ = ("schedule", "ticks_ms", "final", "rules")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TICKS_MS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    schedule: bytes
    ticks_ms: _containers.RepeatedScalarFieldContainer[int]
    final: bool
    rules: TickRules
    def __init__(self, schedule: _Optional[bytes] = ..., ticks_ms: _Optional[_Iterable[int]] = ..., final: _Optional[bool] = ..., rules: _Optional[_Union[TickRules, _Mapping]] = ...) -> None: ...

class NewJob(_message.Message):
    __slots__ = ("profile", "schedule", "due_ms", "name", "payload", "labels", "upstreams", "upstream_positions")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAMS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    profile: int
    schedule: int
    due_ms: int
    name: str
    payload: bytes
    labels: _containers.ScalarMap[str, str]
    upstreams: bytes
    upstream_positions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, profile: _Optional[int] = ..., schedule: _Optional[int] = ..., due_ms: _Optional[int] = ..., name: _Optional[str] = ..., payload: _Optional[bytes] = ..., labels: _Optional[_Mapping[str, str]] = ..., upstreams: _Optional[bytes] = ..., upstream_positions: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelJob(_message.Message):
    __slots__ = ("job", "dropped_token")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DROPPED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    job: int
    dropped_token: int
    def __init__(self, job: _Optional[int] = ..., dropped_token: _Optional[int] = ...) -> None: ...

class ReplayDeadLetters(_message.Message):
    __slots__ = ("executions",)
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    executions: bytes
    def __init__(self, executions: _Optional[bytes] = ...) -> None: ...

class Fire(_message.Message):
    __slots__ = ("shards", "limit")
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedScalarFieldContainer[int]
    limit: int
    def __init__(self, shards: _Optional[_Iterable[int]] = ..., limit: _Optional[int] = ...) -> None: ...

class Tick(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ExtendTicks(_message.Message):
    __slots__ = ("schedule", "after_ms", "ticks_ms", "final", "rules", "omitted")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    TICKS_MS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    schedule: int
    after_ms: int
    ticks_ms: _containers.RepeatedScalarFieldContainer[int]
    final: bool
    rules: TickRules
    omitted: int
    def __init__(self, schedule: _Optional[int] = ..., after_ms: _Optional[int] = ..., ticks_ms: _Optional[_Iterable[int]] = ..., final: _Optional[bool] = ..., rules: _Optional[_Union[TickRules, _Mapping]] = ..., omitted: _Optional[int] = ...) -> None: ...

class TickRules(_message.Message):
    __slots__ = ("time_zone_database", "calendars_version")
    TIME_ZONE_DATABASE_FIELD_NUMBER: _ClassVar[int]
    CALENDARS_VERSION_FIELD_NUMBER: _ClassVar[int]
    time_zone_database: str
    calendars_version: int
    def __init__(self, time_zone_database: _Optional[str] = ..., calendars_version: _Optional[int] = ...) -> None: ...

class ReplaceTicks(_message.Message):
    __slots__ = ("schedule", "replaced", "after_ms", "ticks_ms", "final", "rules")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    TICKS_MS_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    schedule: int
    replaced: TickRules
    after_ms: int
    ticks_ms: _containers.RepeatedScalarFieldContainer[int]
    final: bool
    rules: TickRules
    def __init__(self, schedule: _Optional[int] = ..., replaced: _Optional[_Union[TickRules, _Mapping]] = ..., after_ms: _Optional[int] = ..., ticks_ms: _Optional[_Iterable[int]] = ..., final: _Optional[bool] = ..., rules: _Optional[_Union[TickRules, _Mapping]] = ...) -> None: ...

class PutCalendar(_message.Message):
    __slots__ = ("calendar", "replaced")
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    calendar: bytes
    replaced: int
    def __init__(self, calendar: _Optional[bytes] = ..., replaced: _Optional[int] = ...) -> None: ...

class DeleteCalendar(_message.Message):
    __slots__ = ("namespace", "name", "replaced")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    replaced: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., replaced: _Optional[int] = ...) -> None: ...

class AssignShards(_message.Message):
    __slots__ = ("owners",)
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    owners: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, owners: _Optional[_Iterable[int]] = ...) -> None: ...

class LeaderStarted(_message.Message):
    __slots__ = ("node", "term", "session_grace_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SESSION_GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    node: int
    term: int
    session_grace_ms: int
    def __init__(self, node: _Optional[int] = ..., term: _Optional[int] = ..., session_grace_ms: _Optional[int] = ...) -> None: ...

class Verify(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("worker", "queues", "ttl_ms")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    queues: _containers.RepeatedScalarFieldContainer[str]
    ttl_ms: int
    def __init__(self, worker: _Optional[str] = ..., queues: _Optional[_Iterable[str]] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class CloseSession(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: int
    def __init__(self, session: _Optional[int] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("sessions", "grant_timeout_ms")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    GRANT_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[RenewSession]
    grant_timeout_ms: int
    def __init__(self, sessions: _Optional[_Iterable[_Union[RenewSession, _Mapping]]] = ..., grant_timeout_ms: _Optional[int] = ...) -> None: ...

class RenewSession(_message.Message):
    __slots__ = ("session", "held_tokens", "sequence")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    HELD_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    session: int
    held_tokens: bytes
    sequence: int
    def __init__(self, session: _Optional[int] = ..., held_tokens: _Optional[bytes] = ..., sequence: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("session", "queues", "limit", "payload_bytes_limit")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_LIMIT_FIELD_NUMBER: _ClassVar[int]
    session: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    payload_bytes_limit: int
    def __init__(self, session: _Optional[int] = ..., queues: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., payload_bytes_limit: _Optional[int] = ...) -> None: ...

class LeasedBlock(_message.Message):
    __slots__ = ("token", "executions")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    token: int
    executions: bytes
    def __init__(self, token: _Optional[int] = ..., executions: _Optional[bytes] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[LeasedBlock]
    def __init__(self, blocks: _Optional[_Iterable[_Union[LeasedBlock, _Mapping]]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("blocks", "started_ms")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[LeasedBlock]
    started_ms: int
    def __init__(self, blocks: _Optional[_Iterable[_Union[LeasedBlock, _Mapping]]] = ..., started_ms: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[CompletedBlock]
    def __init__(self, blocks: _Optional[_Iterable[_Union[CompletedBlock, _Mapping]]] = ...) -> None: ...

class CompletedBlock(_message.Message):
    __slots__ = ("token", "executions", "started_ms", "ended_ms", "results")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    token: int
    executions: bytes
    started_ms: bytes
    ended_ms: bytes
    results: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, token: _Optional[int] = ..., executions: _Optional[bytes] = ..., started_ms: _Optional[bytes] = ..., ended_ms: _Optional[bytes] = ..., results: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Fail(_message.Message):
    __slots__ = ("failures",)
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedCompositeFieldContainer[FailedExecution]
    def __init__(self, failures: _Optional[_Iterable[_Union[FailedExecution, _Mapping]]] = ...) -> None: ...

class FailedExecution(_message.Message):
    __slots__ = ("token", "execution", "started_ms", "ended_ms", "error", "permanent", "error_classes", "retry_after_ms", "snooze")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASSES_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SNOOZE_FIELD_NUMBER: _ClassVar[int]
    token: int
    execution: int
    started_ms: int
    ended_ms: int
    error: str
    permanent: bool
    error_classes: _containers.RepeatedScalarFieldContainer[str]
    retry_after_ms: int
    snooze: bool
    def __init__(self, token: _Optional[int] = ..., execution: _Optional[int] = ..., started_ms: _Optional[int] = ..., ended_ms: _Optional[int] = ..., error: _Optional[str] = ..., permanent: _Optional[bool] = ..., error_classes: _Optional[_Iterable[str]] = ..., retry_after_ms: _Optional[int] = ..., snooze: _Optional[bool] = ...) -> None: ...

class Reclaim(_message.Message):
    __slots__ = ("limit", "age_ms", "executions", "request_id_age_ms")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    limit: int
    age_ms: int
    executions: int
    request_id_age_ms: int
    def __init__(self, limit: _Optional[int] = ..., age_ms: _Optional[int] = ..., executions: _Optional[int] = ..., request_id_age_ms: _Optional[int] = ...) -> None: ...

class ClaimKey(_message.Message):
    __slots__ = ("namespace", "key", "execution", "token", "keep_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEEP_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    key: str
    execution: int
    token: int
    keep_ms: int
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., execution: _Optional[int] = ..., token: _Optional[int] = ..., keep_ms: _Optional[int] = ...) -> None: ...

class CompleteKey(_message.Message):
    __slots__ = ("namespace", "key", "token", "result")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    key: str
    token: int
    result: bytes
    def __init__(self, namespace: _Optional[str] = ..., key: _Optional[str] = ..., token: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...

class PauseJob(_message.Message):
    __slots__ = ("job", "note")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    job: int
    note: str
    def __init__(self, job: _Optional[int] = ..., note: _Optional[str] = ...) -> None: ...

class ResumeJob(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class CancelExecution(_message.Message):
    __slots__ = ("execution", "dropped_token", "begun_token")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    BEGUN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    execution: int
    dropped_token: int
    begun_token: int
    def __init__(self, execution: _Optional[int] = ..., dropped_token: _Optional[int] = ..., begun_token: _Optional[int] = ...) -> None: ...

class TriggerJob(_message.Message):
    __slots__ = ("job", "payload", "ignore_overlap", "refuse_overlap", "key")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    IGNORE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    REFUSE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    job: int
    payload: bytes
    ignore_overlap: bool
    refuse_overlap: bool
    key: str
    def __init__(self, job: _Optional[int] = ..., payload: _Optional[bytes] = ..., ignore_overlap: _Optional[bool] = ..., refuse_overlap: _Optional[bool] = ..., key: _Optional[str] = ...) -> None: ...

class UpdateJob(_message.Message):
    __slots__ = ("job", "etag", "settings", "changes_name", "changes_payload", "changes_schedule")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CHANGES_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    job: int
    etag: str
    settings: CreateJobs
    changes_name: bool
    changes_payload: bool
    changes_schedule: bool
    def __init__(self, job: _Optional[int] = ..., etag: _Optional[str] = ..., settings: _Optional[_Union[CreateJobs, _Mapping]] = ..., changes_name: _Optional[bool] = ..., changes_payload: _Optional[bool] = ..., changes_schedule: _Optional[bool] = ...) -> None: ...

class RescheduleJob(_message.Message):
    __slots__ = ("job", "due_ms")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    job: int
    due_ms: int
    def __init__(self, job: _Optional[int] = ..., due_ms: _Optional[int] = ...) -> None: ...

class DeleteJob(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: int
    def __init__(self, job: _Optional[int] = ...) -> None: ...

class CreateBackfill(_message.Message):
    __slots__ = ("job", "start_ms", "end_ms", "interval_ms", "profile", "job_profile", "job_schedule", "ticks_ms", "key")
    JOB_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    JOB_PROFILE_FIELD_NUMBER: _ClassVar[int]
    JOB_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TICKS_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    job: int
    start_ms: int
    end_ms: int
    interval_ms: int
    profile: bytes
    job_profile: int
    job_schedule: int
    ticks_ms: bytes
    key: str
    def __init__(self, job: _Optional[int] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., interval_ms: _Optional[int] = ..., profile: _Optional[bytes] = ..., job_profile: _Optional[int] = ..., job_schedule: _Optional[int] = ..., ticks_ms: _Optional[bytes] = ..., key: _Optional[str] = ...) -> None: ...

class CancelBackfill(_message.Message):
    __slots__ = ("backfill",)
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    backfill: int
    def __init__(self, backfill: _Optional[int] = ...) -> None: ...

class PutLimit(_message.Message):
    __slots__ = ("scope", "name", "concurrency", "rate", "burst", "weight")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    scope: int
    name: str
    concurrency: int
    rate: int
    burst: int
    weight: int
    def __init__(self, scope: _Optional[int] = ..., name: _Optional[str] = ..., concurrency: _Optional[int] = ..., rate: _Optional[int] = ..., burst: _Optional[int] = ..., weight: _Optional[int] = ...) -> None: ...

class DeleteLimit(_message.Message):
    __slots__ = ("scope", "name")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    scope: int
    name: str
    def __init__(self, scope: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
