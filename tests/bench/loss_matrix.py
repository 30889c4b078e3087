#!/usr/bin/env python3
"""Trains on nine machines, loses processes and machines in each way, and checks what is left.

The machines are network namespaces (tests/integration/namespaces.py), reached by ssh; the job's traffic is encrypted. A
worker, a server, the chief and a machine with two workers are each killed, stopped for 10 s, and cut off from the network
for 5 s, at random moments of training. Then the job must train two epochs or end; a minute of neither counts as a hang.
In the end the run is interrupted, if it still trains, and resumed on the machines that are left, until it succeeds.
Checks that

  - every sample was used exactly once, and the summary has the steps of all epochs;
  - 30 s after the end of a run no process of it is left, on any machine.

Prints a line for each case: how many jobs trained on, how many ended, and the longest time from the loss until two epochs
(of 24 steps) had followed or the run had ended. Exit status 1 if a check failed. Needs root.

  tests/bench/loss_matrix.py TETHYS [--rounds=20] [--strategies=NAME,...] [--victims=NAME,...] [--faults=NAME,...]
"""
import argparse
import json
import os
import random
import signal
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
import check_journal  # pylint: disable=wrong-import-position
import cluster_test  # pylint: disable=wrong-import-position  # It takes TETHYS from the command line.
import namespaces  # pylint: disable=wrong-import-position
import tethys_run  # pylint: disable=wrong-import-position

MACHINES = ["master", *(f"slave{i}" for i in range(1, 9))]
CHIEF, WORKER, CROWD, SERVERS = "slave1", "slave3", "slave6", ("slave7", "slave8")
SERVERS_JOB = ["strategy=parameter_server", "strategy.parameter_server.servers=2"]
ASYNCHRONOUS = ["strategy.parameter_server.consistency=asynchronous", "optimizer.sgd.momentum=0.5"]
STRATEGIES = {"mirrored": ["strategy=mirrored"], "ps_sync": SERVERS_JOB,
              "ps_copied": [*SERVERS_JOB, "strategy.parameter_server.replicas=2"],
              "ps_async": [*SERVERS_JOB, *ASYNCHRONOUS],
              "ps_async_copied": [*SERVERS_JOB, *ASYNCHRONOUS, "strategy.parameter_server.replicas=2"]}
# The machine of each victim, and what the command lines of its processes contain.
VICTIMS = {"worker": (WORKER, "tethys worker "), "ps": (SERVERS[1], "tethys ps "), "chief": (CHIEF, "tethys chief "),
           "machine": (CROWD, "tethys ")}
FAULTS = ["kill", "stop", "cut"]
STEPS_OF_AN_EPOCH, SAMPLES_OF_AN_EPOCH = 24, 3001
HANG_SECONDS, LEFT_SECONDS = 60, 30


def hosts(strategy, without=()):
    """The lines of the host file, and the number of workers that they have."""
    lines = {CHIEF: "role=chief", **{f"slave{i}": "role=worker" for i in range(2, 6)}, CROWD: "slots=2 role=worker"}
    if strategy != "mirrored":
        lines.update({name: "role=ps" for name in SERVERS})
    left = {name: words for name, words in lines.items() if name not in without}
    workers = sum(2 if "slots=2" in words else 1 for words in left.values() if "role=worker" in words)
    return "".join(f"{name} {words}\n" for name, words in left.items()), workers


def strike(cluster, victim, fault):
    """Lets the fault happen; returns a thread that ends when the fault has passed."""
    name, pattern = VICTIMS[victim]
    machine = cluster[name]
    seconds, undo = 0, lambda: None
    if fault == "stop":
        machine.kill(pattern, signal.SIGSTOP)
        seconds, undo = 10, lambda: machine.kill(pattern, signal.SIGCONT)
    elif fault == "cut":
        machine.cut_off()
        seconds, undo = 5, machine.reconnect
    elif victim == "machine":
        machine.stop()
    else:
        machine.kill(pattern)
    passing = threading.Timer(seconds, undo)
    passing.start()
    return passing


def check_that_nothing_is_left(cluster):
    seconds = cluster_test.wait_until_nothing_runs(cluster)
    if seconds > LEFT_SECONDS:
        raise AssertionError(f"the last process of the job ended {seconds:.0f} s after its launcher")


def resume(cluster, run, without, strategy):
    """Resumes the run on the machines that are left until it succeeds, and checks its figures."""
    text, workers = hosts(strategy, without)
    run.write("hosts", text)
    epochs = max(map(tethys_run.epoch_of, tethys_run.checkpoints_of(run.directory)), default=0) + 2
    status, output = cluster.run("master", [
        cluster_test.PROGRAM, "train", "--plain", "--resume", "--run_dir=run", "--hostfile=hosts",
        f"--ssh_config={cluster.ssh_config}", f"--set=epochs={epochs}", f"--set=workers={workers}"])
    if status != 0:
        raise AssertionError(f"the resumed run ended with {status}:\n{output}")
    summary = json.loads(run.read("summary.json"))
    found = (check_journal.check(run.read("journal")), int(summary["steps"]), int(summary["epochs"]),
             summary["journal_check"])
    wanted = (epochs * SAMPLES_OF_AN_EPOCH, epochs * STEPS_OF_AN_EPOCH, epochs, "passed")
    if strategy == "ps_async":  # Its steps are batches of workers.
        found, wanted = (found[0], *found[2:]), (wanted[0], *wanted[2:])
    if found != wanted:
        raise AssertionError(f"the run has (samples, steps, epochs, check) {found}, not {wanted}")


def case(strategy, victim, fault):
    """One job with one loss. Returns ("trained on" or "ended", seconds until then)."""
    with namespaces.Cluster(MACHINES, rate="1gbit") as cluster:
        for machine in cluster.machines.values():
            machine.install(cluster_test.PROGRAM, tethys_run.build_id())
        text, workers = hosts(strategy)
        run = cluster_test.Run(cluster, [
            *STRATEGIES[strategy], f"workers={workers}", "epochs=100000", "evaluate_each_epoch=false", "max_restarts=2",
            "checkpoint.every_epochs=5", "checkpoint.min_seconds=0"], hosts=text)
        try:
            run.wait_for_training()
            time.sleep(random.uniform(0, 1))
            begin = time.monotonic()
            passing = strike(cluster, victim, fault)
            epochs = run.output().count("\nepoch ")
            while run.process.poll() is None and run.output().count("\nepoch ") < epochs + 2:
                if time.monotonic() > begin + HANG_SECONDS:
                    raise AssertionError(f"neither an epoch nor the end within {HANG_SECONDS} s")
                time.sleep(0.02)
            seconds = time.monotonic() - begin
            passing.join()
            ending = "ended"
            if run.process.poll() is None:
                ending = "trained on"
                cluster_test.interrupt_launcher(cluster)
            run.finish()
            check_that_nothing_is_left(cluster)
            resume(cluster, run, [VICTIMS[victim][0]] if (victim, fault) == ("machine", "kill") else [], strategy)
            check_that_nothing_is_left(cluster)
            return ending, seconds
        except BaseException:
            print(run.output(), file=sys.stderr)
            run.process.kill()
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    for flag, names in (("strategies", STRATEGIES), ("victims", VICTIMS), ("faults", FAULTS)):
        parser.add_argument(f"--{flag}", type=lambda text: text.split(","), default=list(names))
    flags = parser.parse_args()
    reason = namespaces.why_not()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    failures = 0
    for strategy in flags.strategies:
        for victim in flags.victims:
            if (strategy, victim) == ("mirrored", "ps"):
                continue
            for fault in flags.faults:
                ends = []
                for _ in range(flags.rounds):
                    try:
                        ends.append(case(strategy, victim, fault))
                    except Exception:  # pylint: disable=broad-except  # The other cases are still to be tried.
                        traceback.print_exc()
                        failures += 1
                counts = {what: sum(ending == what for ending, _ in ends) for what in ("trained on", "ended")}
                print(f"{strategy}, {victim}, {fault}: {counts['trained on']} trained on, {counts['ended']} ended, "
                      f"{flags.rounds - len(ends)} failed; at most {max((s for _, s in ends), default=0):.1f} s", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
