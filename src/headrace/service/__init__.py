"""The local service: a running session behind a small HTTP API on loopback, and the client that other terminals use."""
