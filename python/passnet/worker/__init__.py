"""The worker: one process that speaks frames of JSON and answers a fixed table of commands."""
