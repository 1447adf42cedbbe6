"""The program that a shepherd's process runs: `python -I -S run_shepherd.py FOLDER` (see `shepherd`)."""

import os
import sys

if __name__ == "__main__":
    os.closerange(3, 1 << 20)  # whatever the daemon had open and let slip: a job must not hold it
    ROOT = os.path.abspath(__file__)
    for _ in range(4):
        ROOT = os.path.dirname(ROOT)
    sys.path.insert(0, ROOT)
    from tenure.engines.local.shepherd import main

    sys.exit(main(sys.argv[1]))
