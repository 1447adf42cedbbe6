"""The record: append-only events, jobs, attempts, turns, tokens, in SQLite or PostgreSQL."""
