"""Every bound on what callers and workers may send, with its reason. Times in milliseconds, sizes in bytes."""

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS + 6 * HOUR_MS

# A DNS label's length: namespaces and queues end up in metric labels, host names and file names.
NAMESPACE_MAX_LENGTH = 63
QUEUE_MAX_LENGTH = 63
# Long enough for a path-like name, short enough for a column of a table.
NAME_MAX_LENGTH = 200
HANDLER_MAX_LENGTH = 200
# The store interns tenants under keys of at most 510 bytes, and a character may take four.
TENANT_MAX_LENGTH = 100
# RFC 6838 allows 127 + 1 + 127 characters in a media type; the rest is for a parameter such as charset.
CONTENT_TYPE_MAX_LENGTH = 300
REQUEST_ID_MAX_LENGTH = 200
WORKER_NAME_MAX_LENGTH = 200

# A job's payload is an argument, not a data set: it goes through the log of every node.
PAYLOAD_MAX_BYTES = 256 * 1024
# What one create may carry in all, so that a batch stays one log entry that a follower receives in one message.
BATCH_MAX_JOBS = 10_000
BATCH_MAX_BYTES = 16 * 1024 * 1024

# Jobs that one job may wait for: a lease names them all to its worker.
UPSTREAMS_MAX_COUNT = 500
# Dependencies that one create may hold in all: each is two rows in one log entry.
EDGES_MAX_COUNT = 50_000
WORKFLOW_MAX_NODES = 10_000
NODE_NAME_MAX_LENGTH = 100
# What a handler returns goes through the log of every node, as a payload does.
RESULT_MAX_BYTES = 64 * 1024

# Why a job is paused: a sentence or two for whoever finds it so.
PAUSE_NOTE_MAX_LENGTH = 500

# A job that may fail more often in a row is never paused for it.
PAUSE_AFTER_FAILURES_MAX = 10_000

# One list in one log entry, below a megabyte; a year of one time every five minutes.
BACKFILL_MAX_TICKS = 100_000
# Each execution of a backfill is a step of its own.
BACKFILL_INTERVAL_MIN_MS = 100
BACKFILL_INTERVAL_MAX_MS = DAY_MS

# Labels are for filters. A row is read whole to answer a list, so it stays small.
LABELS_MAX_COUNT = 32
LABEL_KEY_MAX_LENGTH = 63
LABEL_VALUE_MAX_LENGTH = 200

# One decimal digit: lanes of the ready queue.
PRIORITY_MAX = 9

# A backoff capped at an hour makes 10,000 attempts last more than a year: that is retrying for ever.
MAX_ATTEMPTS_MAX = 10_000
MAX_ATTEMPTS_DEFAULT = 3
INITIAL_BACKOFF_DEFAULT_MS = SECOND_MS
MAX_BACKOFF_DEFAULT_MS = HOUR_MS
# A job whose next attempt is further away than this has been forgotten, not delayed.
BACKOFF_MAX_MS = 30 * DAY_MS
MULTIPLIER_DEFAULT = 2.0
# At 100, the third delay is already 10,000 times the first.
MULTIPLIER_MAX = 100.0

# A worker has to hold its lease all the while; a longer process is a service, not a job.
RUN_TIMEOUT_MAX_MS = 30 * DAY_MS
# Jitter spreads a herd; beyond an hour it changes the schedule. Tick tables keep their past for this long.
JITTER_MAX_MS = HOUR_MS
# Sub-second scheduling is out of scope.
INTERVAL_MIN_MS = SECOND_MS
INTERVAL_MAX_MS = 10 * YEAR_MS
# A run_at further away is more often a mistake than a plan.
HORIZON_MS = 100 * YEAR_MS
# Cron expressions with every minute of an hour listed are under 200 characters a field.
CRON_MAX_LENGTH = 1_000
# What a person can oversee in one schedule.
EXPRESSIONS_MAX = 32
EXCLUSIONS_MAX = 32
CALENDARS_MAX = 8
# A calendar of some decades of holidays; a row of at most some 100 KB.
CALENDAR_DATES_MAX = 5_000
CALENDAR_WINDOWS_MAX = 1_000
CALENDAR_NAME_MAX_LENGTH = 63
# Moving to another day is for schedules of a few times a day; what ticks more often is left out, or goes on.
MOVED_TICKS_PER_DAY_MAX = 96
# The longest name in the tz database has 32 characters.
TIME_ZONE_MAX_LENGTH = 64

# Each lost lease may have been a crash of its worker: past this number the execution itself is the suspect.
MAX_LOST_LEASES = 20
# An error message is for people; a stack trace fits, a core dump does not.
ERROR_MAX_BYTES = 4 * 1024
RETENTION_AGE_MIN_MS = SECOND_MS
RETENTION_AGE_MAX_MS = 10 * YEAR_MS
# Finding the oldest one that is kept takes as many steps.
RETENTION_EXECUTIONS_MAX = 100_000
# What a handler claims lives as long as what might run again; longer than a year it is a database.
DEDUP_KEY_MAX_LENGTH = 200
DEDUP_KEEP_MIN_MS = SECOND_MS
DEDUP_KEEP_DEFAULT_MS = 7 * DAY_MS
DEDUP_KEEP_MAX_MS = YEAR_MS
# A class, and what it derives from: deep hierarchies have some ten.
ERROR_CLASS_MAX_LENGTH = 200
ERROR_CLASSES_MAX_COUNT = 16
NON_RETRYABLE_MAX_COUNT = 32
# Who still tries after so long has given up on giving up.
MAX_ELAPSED_MAX_MS = YEAR_MS

# What waits in an overlap queue; more would be an outage, not a delay.
OVERLAP_QUEUE_DEFAULT = 100
OVERLAP_LIMIT_MAX = 1_000
# A due time that is missed by no more than this is not late: a node may be busy, the clock's own steps are smaller.
MISSED_AFTER_MS = SECOND_MS
# With CATCH_UP_POLICY_NONE an occurrence may be so late, unless it was missed in a pause: an election is no outage.
CATCH_UP_NONE_WINDOW_MS = MINUTE_MS
# Missed occurrences of one job that run at most, the latest ones: a week of minutes. Tick tables keep as many.
CATCH_UP_MAX = 10_000
CATCH_UP_WINDOW_MAX_MS = 10 * YEAR_MS
CATCH_UP_INTERVAL_MAX_MS = DAY_MS
# As with run_timeout: a worker that comes a month late is for another occurrence.
START_DEADLINE_MAX_MS = 30 * DAY_MS

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 1_000
# What this server hands out stays far below.
PAGE_TOKEN_MAX_LENGTH = 1_024
REPLAY_MAX_EXECUTIONS = 1_000

SESSION_QUEUES_MAX = 64
NODE_ID_MAX = 65_535

# More than anybody's workers, and few enough to hold all limits in memory.
LIMITS_MAX = 10_000
CONCURRENCY_MAX = 1_000_000
RATE_PER_S_MIN = 0.001
RATE_PER_S_MAX = 1_000_000
BURST_MAX = 1_000_000
# A turn of more executions than that is no turn.
WEIGHT_MAX = 100
# With a namespace it is interned under a key of at most 510 bytes, and a character may take four.
CONCURRENCY_KEY_MAX_LENGTH = 100
