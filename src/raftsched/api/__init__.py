"""The public face of a node over gRPC: its services, errors as callers see them, health and reflection."""
