"""Delays that look random and are the same on every replica: integer hashes of ids, never a random generator."""

_MASK = (1 << 64) - 1


def mix64(value: int) -> int:
    """A 64-bit hash of `value`: the output function of SplitMix64 (Steele, Lea, Flood 2014), in the public domain."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def job_jitter_ms(job_id: int, window_ms: int) -> int:
    """How long after its tick each occurrence of the job is due: 0 to `window_ms`, both included.

    The same for every occurrence, so that a job's occurrences stay as far apart as its ticks.
    """
    if window_ms <= 0:
        return 0
    return mix64(job_id) % (window_ms + 1)
