#!/usr/bin/env python3
"""Judges `tethys advise` on clusters of four simulated machines (tests/integration/namespaces.py), one of which differs: it
has a part of a core, a slower link, or is the only one with a faster core or link.

    tests/bench/odd_host_bench.py [TETHYS [NUMBER...]]     default: build/release/deploy/tethys, all clusters

In each cluster `tethys advise` answers, calibration included. Then the job runs briefly in every bulk-synchronous way
that has one process a machine. Ways that differ only by the roles of the three equal machines count as one way. The
ways near the fastest run twice more. Prints the answer, its rate, the best way, and the rate that the answer loses.
Takes about two and a half minutes for a cluster. Needs root; the machine should do nothing else.
"""
import os
import re
import shutil
import sys
import time

from shaped_runs import JOB, LAYERS, ShapedRuns, overrides, rate_of, why_not

MACHINES = ["master", "slave1", "slave2", "slave3"]
# The columns: how one machine differs from the others, the rate of the links, the model, the global batch,
# the machine that differs, and arguments of ShapedRuns.
CLUSTERS = [
    ("a fifth of a core", "1gbit", "mlp", 384, "slave1", {"cores": {"slave1": 0.2}}),
    ("0.1 of a core among 0.45", "1gbit", "lenet", 384, "slave3",
     {"cores": {"master": 0.45, "slave1": 0.45, "slave2": 0.45, "slave3": 0.1}}),
    ("a link of 50 Mbit/s among 1 Gbit/s", "1gbit", "mlp", 384, "slave1", {"other_rates": {"slave1": "50mbit"}}),
    ("a link of 100 Mbit/s among 500, and much to compute", "500mbit", "lenet", 768, "slave3",
     {"other_rates": {"slave3": "100mbit"}}),
    ("half a core among quarters", "1gbit", "lenet", 384, "slave2",
     {"cores": {"master": 0.25, "slave1": 0.25, "slave2": 0.5, "slave3": 0.25}}),
    ("0.3 of a core and 100 Mbit/s", "500mbit", "wide", 512, "slave2",
     {"cores": {"slave2": 0.3}, "other_rates": {"slave2": "100mbit"}}),
    ("a third of a core, many parameters", "200mbit", "wide", 1024, "slave1", {"cores": {"slave1": 0.33}}),
    ("a link of 1 Gbit/s among 100 Mbit/s", "100mbit", "lenet", 1536, "slave3", {"other_rates": {"slave3": "1gbit"}}),
]
ACCEPTED = 0.1  # The share of the best rate that the advice may lose.
NEAR = 0.85     # Ways with at least this share of the fastest way's rate run again.
BRIEF = 1.0     # The approximate time of a run's steps, in seconds.


def ways():
    """All ways to run, each (strategy, workers on equal machines, workers on the odd one, servers
    likewise)."""
    found = [("local", 1, 0, 0, 0), ("local", 0, 1, 0, 0)]
    found += [("mirrored", equal, odd, 0, 0) for equal in range(4) for odd in (0, 1) if equal + odd > 1]
    for equal_workers in range(4):
        for equal_servers in range(4 - equal_workers):
            for odd_worker, odd_server in ((0, 0), (1, 0), (0, 1)):
                if equal_workers + odd_worker > 0 and equal_servers + odd_server > 0:
                    found.append(("ps_sync", equal_workers, odd_worker, equal_servers, odd_server))
    return found


def host_file(way, odd_machine):
    """The host file that gives each machine exactly its roles. The first of the equal machines, which has the
    chief, is the last to get a worker or server."""
    _, equal_workers, odd_workers, equal_servers, odd_servers = way
    equal = [name for name in MACHINES[1:] + MACHINES[:1] if name != odd_machine]
    roles = {name: ["worker"] for name in equal[:equal_workers]}
    roles.update({name: ["ps"] for name in equal[equal_workers:equal_workers + equal_servers]})
    if odd_workers + odd_servers > 0:
        roles[odd_machine] = ["worker" if odd_workers else "ps"]
    roles["master"] = ["chief"] + roles.get("master", [])
    return "".join(f"{name} role={','.join(roles[name])}\n" for name in MACHINES if name in roles)


def advised_way(output, odd_machine):
    """The way that the table of hosts in the output of advise describes."""
    counts = {"worker": [0, 0], "ps": [0, 0]}
    for name in MACHINES:
        line = re.search(rf"(?m)^{name} .*$", output).group(0)
        for role, count in counts.items():
            tasks = re.search(rf"\b{role}((?: \d+)+)", line)
            count[name == odd_machine] += len(tasks.group(1).split()) if tasks else 0
    (equal_workers, odd_workers), (equal_servers, odd_servers) = counts["worker"], counts["ps"]
    strategy = "ps_sync" if equal_servers + odd_servers else "mirrored" if equal_workers + odd_workers > 1 else "local"
    return strategy, equal_workers, odd_workers, equal_servers, odd_servers


def run(cluster, way, odd_machine, step):
    """Samples a second of a brief run; 0 if it fails."""
    strategy, equal_workers, odd_workers, equal_servers, odd_servers = way
    run_dir = f"{cluster.home}/run"
    shutil.rmtree(run_dir, ignore_errors=True)
    with open(f"{cluster.home}/own", "w", encoding="utf-8") as file:
        file.write(host_file(way, odd_machine))
    steps = max(20, min(800, round(BRIEF / step)))
    try:
        cluster.command("train", f"{cluster.home}/job.textproto", "--plain", f"--run_dir={run_dir}", "--set=epochs=1000",
                        f"--set=max_steps={steps}", hosts="own",
                        *(f"--set={text}" for text in overrides(strategy, equal_workers + odd_workers,
                                                                equal_servers + odd_servers)))
    except RuntimeError as error:
        print(f"  {way}: fails: {str(error).splitlines()[-1]}", flush=True)
        return 0
    return rate_of(run_dir)


def judge(tethys, what, rate, model, batch, odd_machine, arguments):
    """Returns what the advice loses, as a share of the best rate."""
    with ShapedRuns(tethys, (rate, len(MACHINES), model, (batch,)), **arguments) as cluster:
        with open(f"{cluster.home}/job.textproto", "w", encoding="utf-8") as file:
            file.write(JOB.format(name="odd", layers=LAYERS[model], batch=batch))
        begin = time.monotonic()
        output = cluster.command("advise", f"{cluster.home}/job.textproto", f"--out={cluster.home}/advised.textproto",
                                 "--seconds=60", *(["--max_others_cpu=100"] if "--busy" in sys.argv else []))
        seconds = time.monotonic() - begin
        print(f"{what}: {odd_machine} of {', '.join(MACHINES)}\n{output}", flush=True)
        advised = advised_way(output, odd_machine)
        rates = {}
        step = 0.02
        for way in ways():
            rates[way] = [run(cluster, way, odd_machine, step)]
            if rates[way][0] > 0:
                step = batch / rates[way][0]
        near = [way for way, of_way in rates.items() if of_way[0] >= NEAR * max(of_way[0] for of_way in rates.values())]
        for way in 2 * list({*near, advised}):
            rates[way].append(run(cluster, way, odd_machine, batch / max(rates[way][0], 1)))
        middle = {way: sorted(of_way)[len(of_way) // 2] for way, of_way in rates.items()}
        best = max(middle, key=middle.get)
        lost = 1 - middle[advised] / middle[best]
        for way in sorted(middle, key=middle.get, reverse=True)[:8]:
            print(f"  {way}: {middle[way]:.0f} samples/s, of {[round(one) for one in rates[way]]}")
        print(f"{what}: advised {advised} in {seconds:.0f} s, {middle[advised]:.0f} samples/s; measured best {best}, "
              f"{middle[best]:.0f}; lost {100 * lost:.1f} %, of {len(middle)} ways; all in "
              f"{time.monotonic() - begin:.0f} s\n", flush=True)
        return lost


def main():
    words = [word for word in sys.argv[1:] if word != "--busy"]  # --busy: to try this on a machine that does other work.
    tethys = os.path.abspath(words[0] if words else "build/release/deploy/tethys")
    chosen = [int(word) for word in words[1:]] or range(len(CLUSTERS))
    if missing := why_not():
        sys.exit(missing)
    lost = {}
    for number in chosen:
        lost[number] = judge(tethys, *CLUSTERS[number])
    for number, part in lost.items():
        print(f"{number}: {CLUSTERS[number][0]}: lost {100 * part:.1f} %")
    good = sum(part <= ACCEPTED for part in lost.values())
    print(f"within {100 * ACCEPTED:.0f} % of the best: {good} of {len(lost)}")
    sys.exit(0 if good == len(lost) else 1)


if __name__ == "__main__":
    main()
