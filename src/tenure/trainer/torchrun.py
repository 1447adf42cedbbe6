"""How is a gang started so that its launcher does not cut off its last save?

    python -m tenure.trainer.torchrun --nproc-per-node 8 train.py …

is torchrun, with the same options, but for a SIGTERM: torchrun itself passes it on and kills every worker
30 s later, saved or not. This one touches a file that its workers' hooks look at, and waits until they have
left. Who wants them dead sends SIGKILL, or SIGINT for torchrun's own way.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tenure.trainer.words import ASKED

LEFT_TO_TORCHRUN = "SIGINT,SIGHUP,SIGQUIT"


def main(arguments: Sequence[str]) -> None:
    """Run torchrun in this process."""
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        asked = Path(folder) / "drain"
        os.environ[ASKED] = str(asked)

        def drain(signum: int, frame: FrameType | None) -> None:
            asked.touch()

        signal.signal(signal.SIGTERM, drain)
        sys.argv = ["torchrun", f"--signals-to-handle={LEFT_TO_TORCHRUN}", *arguments]
        runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
