"""A real slurmdbd over a MariaDB of its own, beside a Slurm in one folder; torn down with it.

Needs Debian's packages slurmdbd and mariadb-server beside those of `slurm_site`.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from slurm_site import SlurmSite, free_block
from slurm_site import why_not as why_no_slurm

PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb-admin", "mariadb")
DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db_port}
StorageUser=slurm
StoragePass=open
StorageLoc=acct
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
"""


def why_not() -> str:
    """Why no site with accounting can be made here; empty where one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return why_no_slurm() or (f"no accounting ({', '.join(missing)} missing)" if missing else "")


class AccountedSite(SlurmSite):
    """A Slurm whose jobs are accounted for, and kept nowhere else when slurmctld has forgotten them."""

    def __init__(self, folder: Path, *, nodes: int = 2, worker: int = 0) -> None:
        super().__init__(folder, nodes=nodes, worker=worker)
        self.dbd_port = free_block(2, self.base + nodes + 8)
        self.db_socket = folder / "run" / "db.sock"
        self.options |= {
            "JobCompType": "jobcomp/none",
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(self.dbd_port),
            "AccountingStoragePass": "{folder}/run/munge.sock",
        }
        del self.options["JobCompLoc"]
        self._database: subprocess.Popen[bytes] | None = None

    def start_slurmctld(self) -> None:
        """The first time its accounting is started before it, and told of the cluster."""
        if self._database is None:
            self._start_database()
            conf = self.conf.with_name("slurmdbd.conf")
            conf.write_text(
                DBD_CONF.format(folder=self.folder, dbd_port=self.dbd_port, db_port=self.dbd_port + 1)
            )
            conf.chmod(0o600)
            self._started("slurmdbd")
            self.wait(lambda: "lab" in self._told_of_cluster(), "slurmdbd knows the cluster")
        super().start_slurmctld()

    def _told_of_cluster(self) -> str:
        self.run("sacctmgr", "-i", "add", "cluster", "lab", check=False)
        return self.run("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster", check=False)

    def _start_database(self) -> None:
        data = self.folder / "db"
        data.mkdir()
        options = ["--no-defaults", f"--datadir={data}", "--user=root"]
        made = subprocess.run(
            ["mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            env=self.env, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        with (self.folder / "log" / "db.log").open("wb") as log:
            self._database = subprocess.Popen(
                ["mariadbd", *options, f"--socket={self.db_socket}", f"--port={self.dbd_port + 1}",
                 "--bind-address=127.0.0.1", f"--pid-file={self.folder}/run/db.pid",
                 "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"],
                env=self.env, stdout=log, stderr=log,
            )  # fmt: skip
        self.wait(lambda: "alive" in self._sql_admin("ping"), "the database is up")
        self.run(
            "mariadb", "--no-defaults", f"--socket={self.db_socket}", "-u", "root", "-e",
            "CREATE DATABASE acct; CREATE USER slurm@localhost IDENTIFIED BY 'open';"
            " CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'open';"
            " GRANT ALL ON acct.* TO slurm@localhost; GRANT ALL ON acct.* TO slurm@'127.0.0.1'",
        )  # fmt: skip

    def _sql_admin(self, *words: str) -> str:
        return self.run(
            "mariadb-admin", "--no-defaults", f"--socket={self.db_socket}", "-u", "root", *words, check=False
        )

    def stop(self) -> None:
        """All of it, the database last."""
        try:
            super().stop()
        finally:
            if self._database is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._database.kill()
                self._database.wait()
