"""Is this story legal? A second opinion on every played or lived history, written from the rules alone.

It reads the lines of a story file and nothing else: it knows no kernel, no table and no order of deciding.
Each broken rule is one sentence, `line N: RULE: what`, where RULE is a number of the sharing rules (S1 …),
`job` (what a job may ask for) or `file` (the story's own form). An empty list means legal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from checker_facts import NEVER_S, Attempt, Facts, Job, facts_of
from checker_promises import Promises
from checker_sums import Shares

KEYS = {
    "began": ("lab", "policy", "seed", "warmup_s", "until_s"),
    "submitted": ("job", "account", "gpus", "min_runtime_s", "resumable"),
    "planned": ("job", "account", "at_s"),
    "started": ("job", "account", "attempt", "cluster", "nodes", "protected_until_s", "reason"),
    "notice": ("job", "account", "attempt", "interruptible_at_s"),
    "stopping": ("job", "account", "attempt", "cause", "by", "rule", "mine", "theirs", "grace_until_s"),
    "stopped": ("job", "account", "attempt", "end", "held_gpu_s", "lost_gpu_s"),
    "requeued": ("job", "account", "attempt"),
    "cancelled": ("job", "account", "by", "reason"),
    "held": ("by", "reason"),
    "released": ("by", "reason"),
    "waiting": ("job", "account", "reason", "need", "have"),
    "node": ("node", "state", "reason"),
    "share": ("account", "old", "new", "by", "reason"),
}
BY_US = {"preempted", "drain", "moved"}
CAUSES = BY_US | {"node_down", "cancelled", "timed_out", "forced"}
#: How an attempt told to stop for a cause may end; it may also finish, or die with its node, in its grace.
ENDS = {
    **{cause: {"preempted"} for cause in (*BY_US, "forced")},
    "cancelled": {"cancelled"},
    "timed_out": {"timed_out"},
    "node_down": {"node_failed"},
}
NEAR = 1e-6
STATES = {"up", "down", "draining", "drained", "repairing", "testing"}


def check_story(
    lines: Iterable[Mapping[str, Any]],
    lab: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    *,
    asked: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[str]:
    """Every violation of a story, in the order of its lines.

    `lab` (as in a lab file) and `policy` stand in for what the first line does not tell. `asked` gives, by
    job id, what a story does not carry: `clusters`, `gpu`, `same_rack`, `max_runtime`, `runtime`, `restart`.
    """
    story = list(lines)
    if not story:
        return ["line 0: file: the story is empty"]
    checker = Checker(facts_of(story[0], lab, policy), asked or {})
    for _, instant in groupby(story, key=lambda line: line.get("t")):
        checker.instant(list(instant))
    checker.finish(story[-1])
    return checker.broken


class Checker:
    """Walks a story instant by instant and keeps what is so far: jobs, nodes, shares, promises."""

    def __init__(self, facts: Facts, asked: Mapping[str, Mapping[str, Any]]) -> None:
        self.facts, self.asked = facts, asked
        self.broken: list[str] = []
        self.jobs: dict[str, Job] = {}
        self.state = dict.fromkeys(facts.nodes, "up")
        self.used: dict[str, int] = defaultdict(int)
        self.on: dict[str, set[str]] = defaultdict(set)
        self.down: set[str] = set()
        self.draining_since: dict[str, int] = {}
        self.closing: dict[str, int] = {}  #: node -> from when on it is to be out of service
        self.account_gpus: dict[str, int] = defaultdict(int)
        self.accounts_on_hold: set[str] = set()
        self.to_requeue: dict[str, Mapping[str, Any]] = {}
        self.stopping: set[str] = set()
        self.expected_n, self.last_t = 1, 0
        self.downs: set[str] = set()
        self.promises = Promises(self)
        self.shares = Shares(self)

    def says(self, line: Mapping[str, Any], rule: str, what: str) -> None:
        self.broken.append(f"line {line.get('n', '?')}: {rule}: {what}")

    # --- an instant -----------------------------------------------------------------------------------

    def instant(self, lines: list[Mapping[str, Any]]) -> None:
        first, t = lines[0], lines[0].get("t")
        if not isinstance(t, int) or t < 0:
            self.says(first, "file", f"t is {t!r}, not whole seconds from 0 on")
            return
        if t < self.last_t:
            self.says(first, "file", f"time runs backwards, from {self.last_t} to {t}")
        self.before(first, t)
        self.last_t = max(self.last_t, t)
        self.downs = {x["node"] for x in lines if x.get("event") == "node" and x.get("state") == "down"}
        for line in lines:
            self.line(line)
        self.after(lines[-1], t)

    def before(self, line: Mapping[str, Any], t: int) -> None:
        """What must have happened before this instant and did not."""
        for job in sorted(self.stopping):
            attempt = self.jobs[job].attempt
            if attempt and attempt.grace_until_s is not None and attempt.grace_until_s < t:
                self.says(line, "S15", f"{job} still runs at {t}, its grace ended at {attempt.grace_until_s}")
                self.stopping.discard(job)
        for node, since in list(self.draining_since.items()):
            for job in sorted(self.on[node]):
                attempt = self.jobs[job].attempt
                if attempt and attempt.stopping is None:
                    leaves_s = max(since, attempt.leaves_s)
                    if leaves_s < t and not attempt.told_late:
                        attempt.told_late = True
                        self.says(line, "S19", f"{job} was due to leave draining {node} by {leaves_s}")
        self.closed(line, t - 1)
        self.promises.before(line, t)

    def after(self, line: Mapping[str, Any], t: int) -> None:
        """What must be so once all of an instant is told."""
        for node in sorted(self.down):
            if self.on[node]:
                self.says(line, "S20", f"{node} is down and still holds {sorted(self.on[node])}")
        for job in self.to_requeue:
            self.says(line, "S15", f"{job} is resumable, was stopped at {t} and is not queued again")
        self.to_requeue.clear()
        self.closed(line, t)
        self.shares.after(line)

    def closed(self, line: Mapping[str, Any], t: int) -> None:
        """S19: from the announced instant on a node is not in service."""
        for node in [node for node, from_s in self.closing.items() if from_s <= t]:
            if self.state[node] == "up":
                self.says(line, "S19", f"{node} was to close at {self.closing[node]} and is up")
            del self.closing[node]

    def finish(self, last: Mapping[str, Any]) -> None:
        until_s = self.facts.until_s
        if until_s is not None:
            if last.get("t", 0) > until_s:
                self.says(last, "file", f"the story goes on at {last['t']}, past its end at {until_s}")
            self.before(last, until_s)

    # --- a line ---------------------------------------------------------------------------------------

    def line(self, line: Mapping[str, Any]) -> None:
        if line.get("n") != self.expected_n:
            self.says(line, "file", f"line {self.expected_n} is numbered {line.get('n')}")
            if isinstance(line.get("n"), int):
                self.expected_n = line["n"]
        self.expected_n += 1
        event = line.get("event")
        if (event == "began") != (self.expected_n == 2):
            self.says(line, "file", "`began` is the first line and no other")
        missing = [key for key in KEYS.get(str(event), ()) if key not in line]
        if missing:
            self.says(line, "file", f"{event} lacks {', '.join(missing)}")
            return
        handler = getattr(self, f"on_{event}", None)
        if event in ("began",) or handler is None:  # events of later releases are allowed
            self.promises.other(line)
            return
        job = self.jobs.get(line["job"]) if "job" in line else None
        if "job" in line and event != "submitted":
            if job is None:
                self.says(line, "life", f"{event} of {line['job']}, which was never submitted")
                return
            if line.get("account") != job.account:
                self.says(line, "file", f"{job.id} belongs to {job.account}, not to {line.get('account')}")
        handler(line, job)

    def on_submitted(self, line: Mapping[str, Any], job: Job | None) -> None:
        if job is not None:
            self.says(line, "life", f"{job.id} was submitted before")
            return
        if line["gpus"] < 1 or line["min_runtime_s"] < 0:
            self.says(line, "job", f"{line['job']} asks for {line['gpus']} GPUs, {line['min_runtime_s']} s")
        if self.facts.accounts and line["account"] not in self.facts.accounts:
            self.says(line, "job", f"there is no account {line['account']!r}")
        wish = {**line, **self.asked.get(line["job"], {})}
        self.jobs[line["job"]] = Job.submitted(line, wish, self.facts)

    def on_started(self, line: Mapping[str, Any], job: Job) -> None:
        t = line["t"]
        if job.phase != "waiting":
            self.says(line, "life", f"{job.id} starts while {job.phase}")
        if job.held or job.account in self.accounts_on_hold:
            self.says(line, "life", f"{job.id} starts while held")
        if line["attempt"] != job.attempts + 1:
            self.says(line, "life", f"attempt {line['attempt']} of {job.id} follows attempt {job.attempts}")
        protected_s, leaves_s = self.protection(line, job)
        if not job.min_runtime_s and job.stops and t < job.last_stop_s + job.stops * self.facts.back_off_s:
            self.says(line, "S8", f"{job.id}, unbudgeted and stopped {job.stops} times, is back too soon")
        self.shape(line, job)
        self.promises.started(line, job)
        job.start(Attempt(line["attempt"], t, dict(line["nodes"]), protected_s, leaves_s))
        for node, gpus in line["nodes"].items():
            if node not in self.facts.nodes:
                continue  # told by `shape`
            self.used[node] += gpus
            self.on[node].add(job.id)
            if self.used[node] > self.facts.nodes[node].gpus:
                size = self.facts.nodes[node].gpus
                self.says(line, "S4", f"{node} has {size} GPUs and holds {self.used[node]}")
            if self.state[node] != "up":
                self.says(line, "S19", f"{job.id} starts on {node}, which is {self.state[node]}")
            if leaves_s > self.closing.get(node, NEVER_S):
                self.says(
                    line,
                    "S19",
                    f"{job.id} starts on {node}, protected past its closing at {self.closing[node]}",
                )
        self.charge(line, job, job.gpus)

    def protection(self, line: Mapping[str, Any], job: Job) -> tuple[int, int]:
        """S10: until when order may not stop the attempt that starts, and from when a drain may."""
        told, t = line["protected_until_s"], line["t"]
        until_s = t + min(job.min_runtime_s, self.facts.max_protected_s)
        if not self.facts.quotas:
            if told != until_s:
                self.says(line, "S10", f"{job.id} is protected until {told}, not {until_s}")
            return until_s, until_s
        if told is None and job.min_runtime_s:
            self.within_quota(line, job)
            return NEVER_S, until_s
        if told != t:
            self.says(line, "S10", f"{job.id} is protected until {told}, neither for good nor not at all")
        return t, t

    def within_quota(self, line: Mapping[str, Any], job: Job) -> None:
        """Policy `priority`: what is kept for good is within its account's part of the healthy GPUs."""
        cluster, kept = line["cluster"], job.gpus
        here = (node.name for node in self.facts.nodes.values() if node.cluster == cluster)
        for other in (self.jobs[name] for name in sorted({name for node in here for name in self.on[node]})):
            attempt = other.attempt
            if attempt and other.account == job.account and attempt.protected_until_s == NEVER_S:
                kept += other.gpus if attempt.stopping is None else 0
        quota = self.shares.of(job.account, cluster) * self.healthy_gpus(cluster)
        if kept > quota + NEAR:
            self.says(line, "S10", f"{job.account} would keep {kept} GPUs for good, its quota is {quota:g}")

    def healthy_gpus(self, cluster: str) -> int:
        there = (n for n in self.facts.nodes.values() if n.cluster == cluster)
        return sum(
            n.gpus
            for n in there
            if self.state[n.name] == "up" or (self.state[n.name] != "down" and self.used[n.name] > 0)
        )

    def shape(self, line: Mapping[str, Any], job: Job) -> None:
        """S18 and what a job may ask for: whole gangs, one node up to a node's size, its own wishes."""
        nodes = [self.facts.nodes[name] for name in line["nodes"] if name in self.facts.nodes]
        if not nodes or len(nodes) < len(line["nodes"]):
            self.says(line, "file", f"{job.id} starts on nodes nobody knows: {list(line['nodes'])}")
            return
        if sum(line["nodes"].values()) != job.gpus or min(line["nodes"].values()) < 1:
            self.says(line, "S18", f"{job.id} needs {job.gpus} GPUs and starts on {line['nodes']}")
        clusters = {node.cluster for node in nodes}
        if clusters != {line["cluster"]}:
            self.says(line, "S1", f"{job.id} starts in {line['cluster']} on nodes of {sorted(clusters)}")
        largest = max(n.gpus for n in self.facts.nodes.values() if n.cluster in clusters)
        if job.gpus <= largest and len(nodes) != 1:
            self.says(line, "S18", f"{job.id} fits one node and starts on {len(nodes)}")
        if len(nodes) > 1 and any(n.gpus != line["nodes"][n.name] for n in nodes):
            self.says(line, "S18", f"{job.id} is a gang and takes part of a node: {line['nodes']}")
        if job.clusters and not clusters <= job.clusters:
            self.says(line, "job", f"{job.id} may not run in {sorted(clusters)}")
        if job.gpu and any(n.gpu != job.gpu for n in nodes):
            self.says(line, "job", f"{job.id} asks for {job.gpu}")
        if job.same_rack and len({n.rack for n in nodes}) > 1:
            self.says(line, "job", f"{job.id} asks for one rack and starts in several")

    def charge(self, line: Mapping[str, Any], job: Job, gpus: int) -> None:
        for path in self.facts.line_of(job.account):
            self.account_gpus[path] += gpus
            limit = self.facts.max_gpus.get(path)
            if gpus > 0 and limit is not None and self.account_gpus[path] > limit:
                self.says(
                    line, "S9", f"{path or 'the lab'} holds {self.account_gpus[path]} GPUs of at most {limit}"
                )

    def running(self, line: Mapping[str, Any], job: Job) -> Attempt | None:
        attempt = job.attempt
        if attempt is None or line["attempt"] != attempt.number:
            now = f"attempt {attempt.number}" if attempt else job.phase
            self.says(
                line, "life", f"{line['event']} of attempt {line['attempt']} of {job.id}, which is {now}"
            )
            return None
        return attempt

    def on_notice(self, line: Mapping[str, Any], job: Job) -> None:
        attempt = self.running(line, job)
        if attempt is None:
            return
        if attempt.stopping:
            self.says(line, "S15", f"notice to {job.id}, which is stopping already")
        if line["interruptible_at_s"] < min(attempt.protected_until_s, attempt.leaves_s):
            self.says(line, "S15", f"{job.id} is told {line['interruptible_at_s']}, inside its protection")
        attempt.notice = line

    def on_stopping(self, line: Mapping[str, Any], job: Job) -> None:
        attempt, cause, t = self.running(line, job), line["cause"], line["t"]
        if attempt is None:
            return
        if cause not in CAUSES:
            self.says(line, "file", f"no such cause: {cause}")
            return
        if attempt.stopping and cause in BY_US:
            self.says(line, "life", f"{job.id} is told to stop twice")
        self.may_stop(line, job, attempt)
        grace_s = self.facts.grace_s(job)
        exact = cause in BY_US and line["grace_until_s"] != t + grace_s
        if exact or not t <= line["grace_until_s"] <= t + grace_s:
            self.says(line, "S15", f"grace of {job.id} is {line['grace_until_s'] - t} s, not {grace_s}")
        attempt.stop(line)
        self.stopping.add(job.id)
        if cause == "preempted":
            self.promises.taken(line, job, attempt)

    def may_stop(self, line: Mapping[str, Any], job: Job, attempt: Attempt) -> None:
        """S10–S12, S15: which attempts may be told to stop now, and for what."""
        cause, t = line["cause"], line["t"]
        until_s = attempt.leaves_s if cause == "drain" else attempt.protected_until_s
        if cause in BY_US and t < until_s:
            self.says(line, "S10", f"{job.id} is stopped at {t}, protected until {until_s}")
        if cause in BY_US and job.min_runtime_s:
            if attempt.notice is None:
                self.says(line, "S15", f"{job.id} is stopped without notice")
            elif t < attempt.notice["interruptible_at_s"]:
                self.says(line, "S15", f"{job.id} is stopped before the instant its notice named")
        if cause == "forced" and not (line["by"] and line.get("reason")):
            self.says(line, "S11", f"{job.id} is forced to stop without name and reason")
        if cause == "timed_out" and (job.max_runtime_s is None or t < attempt.t + job.max_runtime_s):
            if job.max_runtime_s is not None or job.id in self.asked:
                self.says(line, "S11", f"{job.id} is timed out before its own max_runtime")
        if cause == "node_down" and not self.downs & set(attempt.nodes):
            self.says(line, "S11", f"{job.id} stops for a dead node, and none of its nodes died")
        if cause == "drain" and not any(self.state[node] != "up" for node in attempt.nodes):
            self.says(line, "S11", f"{job.id} stops for a drain, and none of its nodes drains")

    def on_stopped(self, line: Mapping[str, Any], job: Job) -> None:
        attempt = self.running(line, job)
        if attempt is None:
            return
        t, end = line["t"], line["end"]
        if attempt.grace_until_s is not None and t > attempt.grace_until_s:
            self.says(line, "S15", f"{job.id} stops at {t}, its grace ended at {attempt.grace_until_s}")
        self.right_end(line, job, attempt)
        held = job.gpus * (t - attempt.t)
        if line["held_gpu_s"] != held:
            self.says(line, "S2", f"{job.id} held {held} GPU-seconds, not {line['held_gpu_s']}")
        most = 0 if end == "finished" else (held + job.held_gpu_s) + job.gpus * job.restart_s
        if not 0 <= line["lost_gpu_s"] <= most:
            self.says(line, "S13", f"{job.id} lost {line['lost_gpu_s']} GPU-seconds of at most {most}")
        if job.max_runtime_s is not None and t - attempt.t > job.max_runtime_s + self.facts.grace_s(job):
            self.says(line, "S11", f"{job.id} ran {t - attempt.t} s, its max_runtime is {job.max_runtime_s}")
        for node, gpus in attempt.nodes.items():
            self.used[node] -= gpus
            self.on[node].discard(job.id)
        self.charge(line, job, -job.gpus)
        self.stopping.discard(job.id)
        self.promises.freed(line, job, attempt)
        job.stop(line, attempt)
        self.work(line, job)
        if job.phase == "stopped":
            self.to_requeue[job.id] = line

    def right_end(self, line: Mapping[str, Any], job: Job, attempt: Attempt) -> None:
        end, died = line["end"], bool(self.downs & set(attempt.nodes))
        allowed = {"finished", "failed"}
        for cause in attempt.causes:
            allowed |= ENDS[cause]
        if died:
            allowed.add("node_failed")
        if end not in allowed:
            told = ", ".join(attempt.causes) or "nothing"
            self.says(line, "S20" if end == "node_failed" else "S15", f"{job.id} ends {end} after {told}")

    def work(self, line: Mapping[str, Any], job: Job) -> None:
        """What a job's work comes to, where its run time is known (S13, S15): none is done twice unsaid."""
        if job.runtime_s is None or line["end"] not in ("finished", "failed"):
            return
        slack_s = (job.attempts - 1) * (job.restart_s + self.facts.grace_s(job))
        held_s, lost_s = job.held_gpu_s / job.gpus, job.lost_gpu_s / job.gpus
        whole = job.runtime_s if line["end"] == "finished" else 0
        if held_s < whole or held_s - lost_s > job.runtime_s + slack_s:
            self.says(
                line, "S15", f"{job.id} did {held_s:g} s, {lost_s:g} lost, for {job.runtime_s} s of work"
            )

    def on_requeued(self, line: Mapping[str, Any], job: Job) -> None:
        if job.phase != "stopped":
            self.says(line, "S15", f"{job.id} is queued again while {job.phase}")
        if line["attempt"] != job.attempts:
            self.says(
                line, "life", f"{job.id} is queued again after attempt {job.attempts}, not {line['attempt']}"
            )
        self.to_requeue.pop(job.id, None)
        job.phase = "waiting"

    def on_cancelled(self, line: Mapping[str, Any], job: Job) -> None:
        if job.phase != "waiting":
            self.says(line, "life", f"{job.id} leaves the queue while {job.phase}")
            return
        job.phase = "ended"
        self.promises.left(job)

    def on_held(self, line: Mapping[str, Any], job: Job | None) -> None:
        if job is None:
            self.accounts_on_hold.add(line.get("account", ""))
        elif job.phase != "waiting" or job.held:
            self.says(line, "life", f"{job.id} is put on hold while {'held' if job.held else job.phase}")
        else:
            job.held = True
            self.promises.left(job)

    def on_released(self, line: Mapping[str, Any], job: Job | None) -> None:
        if job is None:
            self.accounts_on_hold.discard(line.get("account", ""))
        elif not job.held:
            self.says(line, "life", f"{job.id} is released and was not held")
        else:
            job.held = False

    def on_waiting(self, line: Mapping[str, Any], job: Job) -> None:
        if job.phase != "waiting":
            self.says(line, "S21", f"{job.id} has a reason to wait while {job.phase}")

    def on_planned(self, line: Mapping[str, Any], job: Job) -> None:
        self.promises.planned(line, job)

    def on_node(self, line: Mapping[str, Any], job: None) -> None:
        node, state = line["node"], line["state"]
        if state not in STATES or node not in self.facts.nodes:
            self.says(line, "file", f"no such node or state: {node} {state}")
            return
        if state in ("draining", "drained", "repairing", "testing"):
            self.draining_since.setdefault(node, line["t"])
        else:
            self.draining_since.pop(node, None)
        self.state[node] = state
        if "closed_from_s" in line:
            self.closing.pop(node, None)
            if line["closed_from_s"] is not None:
                self.closing[node] = line["closed_from_s"]
        self.down.discard(node)
        if state == "down":
            self.down.add(node)
        self.promises.node_changed(line)

    def on_share(self, line: Mapping[str, Any], job: None) -> None:
        self.shares.changed(line)
