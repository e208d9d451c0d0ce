"""Discussions on Inspect AI: tasks, solver, scorer, model providers, runs and their logs (extra `run`)."""
