"""Runs jobs on this machine, and lets them run on when the daemon dies (`engine.LocalEngine`).

Nothing is imported here: a shepherd's process imports from this folder, and must begin quickly.
"""
