"""The proof that raftsched does what it says: tests/unit mirrors src, tests/cluster runs real processes."""
