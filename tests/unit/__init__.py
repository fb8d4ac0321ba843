"""Unit tests; folders mirror src/raftsched."""
