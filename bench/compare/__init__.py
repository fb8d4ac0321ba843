"""The hot bucket drained by other schedulers, on the same machine and by the same definition."""
