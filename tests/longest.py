"""The test files that take longest, longest first: begun last, one of them would run alone at the end.

The first two are begun together: what compiles the kernels beside what waits for real time to pass.
"""

from __future__ import annotations

LONGEST = (
    "test_scenarios",
    "test_run_torch",
    "test_complaints_trainer",
    "test_demo",  # waits too: a worker that has one test left is given the next file already
    "test_daemon_stories",
    "test_docs",
    "test_run_histories",
    "test_run_rehearsal",
    "test_trainer_adapters",
    "test_live_slurm",
    "test_ordeals",
    "test_kills",
    "test_engine_slurm_site",
    "test_engine_slurm",
    "test_engine_slurm_queue",
    "test_trainer_gangs",
    "test_properties",
    "test_cli_live",
    "test_checkpoint_crashes",
    "test_trainer_histories",
    "test_plan_bench",
    "test_known_values",
    "test_two_ways",
    "test_ledger_size",
    "test_ledger_faults",
    "test_plans",
    "test_engine_local",
)
