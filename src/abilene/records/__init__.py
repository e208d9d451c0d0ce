"""The record: one row per agent and round, where everything meets; files, adapters, counts, audit."""
