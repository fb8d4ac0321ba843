"""Whether something grows: the slope through samples that does not heed single outliers."""

from collections.abc import Sequence
from statistics import median


def growth_per_minute(seconds: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of samples (Theil–Sen); 0 for fewer than two."""
    slopes = [
        (values[later] - values[earlier]) / (seconds[later] - seconds[earlier])
        for later in range(len(values))
        for earlier in range(later)
        if seconds[later] > seconds[earlier]
    ]
    return 60 * median(slopes) if slopes else 0.0
