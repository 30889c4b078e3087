"""Brief runs of one job in several shapes (strategy, workers, servers) on simulated machines (namespaces.py)."""
import csv
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from namespaces import Cluster, why_not  # pylint: disable=wrong-import-position

MOST_OTHERS_CPU = 0.2
SECONDS_OF_STEPS = 1.2
NEAR_THE_FASTEST = 0.85
LAYERS = {
    "mlp": "layer { flatten {} } layer { dense { units: 128 activation: RELU } } layer { dense { units: 10 } }",
    "deep": "layer { flatten {} } layer { dense { units: 300 activation: RELU } } "
            "layer { dense { units: 100 activation: RELU } } layer { dense { units: 10 } }",
    "wide": "layer { flatten {} } layer { dense { units: 1024 activation: RELU } } layer { dense { units: 10 } }",
    "lenet": "lenet {}",
}
# The job for which `tethys advise` is called. The benchmarks compare rates, so the job has 100 epochs: in a
# job of one epoch, which takes a second, starting one more host would take longer than the higher rate saves.
JOB = """name: "{name}"
model {{ {layers} }}
data {{
  synthetic {{ noise {{ shape: [ 28, 28, 1 ] }} train_samples: 16384 }}
  classes: 10
  cache: MEMORY
}}
optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.01 }}
global_batch_size: {batch}
epochs: 100
"""


def overrides(strategy, workers, servers):
    if strategy == "local":
        return ["strategy=local", "workers=1"]
    if strategy == "mirrored":
        return ["strategy=mirrored", f"workers={workers}"]
    return ["strategy=parameter_server", f"workers={workers}", f"strategy.parameter_server.servers={servers}"]


def rate_of(run_dir):
    """Samples a second in the last 70 % of a run."""
    with open(f"{run_dir}/steps.csv", encoding="utf-8") as file:
        steps = [(int(row["begin_ns"]), int(row["total_ns"]), int(row["samples"])) for row in csv.DictReader(file)]
    first = min(begin for begin, _, _ in steps)
    last = max(begin + total for begin, total, _ in steps)
    begin = first + 0.3 * (last - first)
    counted = [step for step in steps if step[0] >= begin]
    return sum(samples for _, _, samples in counted) / ((last - min(step[0] for step in counted)) * 1e-9)


def name_of(place):
    rate, machines, model, _, *cores = place
    return "-".join([model, rate, str(machines), *(f"{part}cores" for part in cores)])


class ShapedRuns:
    """The machines of a place and the runs on them. A place is a rate of links, a number of machines, a model and global
    batches, and possibly how much of a core each machine has of its own; `other_rates`, `cores` and `memory` are those of
    namespaces.Cluster. A job file and a host file are in `home`, the
    home directory on the machine called master."""

    def __init__(self, tethys, place, other_rates=None, cores=None, memory=None):
        self.tethys = tethys
        self.rate, self.machines, model, self.batches, *own_cores = place
        cores = own_cores[0] if own_cores else cores
        self.name = name_of(place)
        self.job = JOB.format(name=self.name, layers=LAYERS[model], batch=self.batches[0])
        names = ["master"] + [f"slave{i}" for i in range(1, self.machines)]
        self.hosts = "".join(f"{name}\n" for name in names)
        self.steps = {}  # The number of steps of a run, by strategy.
        self.left_out = 0
        self.cluster = Cluster(names, rate=self.rate, other_rates=other_rates, cores=cores, memory=memory)
        self.home = self.cluster["master"].home
        for name, text in (("hosts", self.hosts), ("job.textproto", self.job)):
            with open(f"{self.home}/{name}", "w", encoding="utf-8") as file:
                file.write(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.close()

    def command(self, *words, hosts="hosts"):
        status, output = self.cluster.run("master", [self.tethys, *words, f"--hostfile={self.home}/{hosts}",
                                                     f"--ssh_config={self.cluster.ssh_config}"])
        if status != 0:
            raise RuntimeError(f"{self.name}: {' '.join(words)}:\n{output}")
        return output

    def calibrate(self, seconds):
        """Calibrates; sets the numbers of steps of runs by the calibration, and returns it."""
        print(self.command("calibrate", f"{self.home}/job.textproto", f"--seconds={seconds}",
                           f"--out={self.home}/calibration"))
        with open(f"{self.home}/calibration", encoding="utf-8") as file:
            calibration = json.load(file)
        for anchor in calibration["anchor"]:
            steps = max(15, min(600, round(SECONDS_OF_STEPS / anchor["step"])))
            self.steps[anchor["strategy"]] = min(steps, self.steps.get(anchor["strategy"], steps))
        return calibration

    def runs(self, batch, chosen):
        """Runs each shape once, and those near the fastest a second time. Returns rows [batch, strategy, workers,
        servers, samples a second, share of others' CPU]."""
        first = self.run_each(batch, chosen)
        near = NEAR_THE_FASTEST * max((row[4] for row in first), default=0)
        return first + self.run_each(batch, [tuple(row[1:4]) for row in first if row[4] >= near])

    def run_each(self, batch, chosen):
        rows = []
        for shape in chosen:
            run_dir = f"{self.home}/run"
            shutil.rmtree(run_dir, ignore_errors=True)
            self.command("train", f"{self.home}/job.textproto", "--plain", f"--run_dir={run_dir}",
                         f"--set=global_batch_size={batch}", f"--set=max_steps={self.steps[shape[0]]}",
                         "--set=epochs=1000", *(f"--set={text}" for text in overrides(*shape)))
            others = others_cpu(run_dir)
            if others > MOST_OTHERS_CPU:
                self.left_out += 1
                continue
            rows.append([batch, *shape, round(rate_of(run_dir), 1), round(others, 3)])
            print(self.name, rows[-1], flush=True)
        return rows


def others_cpu(run_dir):
    """The share of CPU that no process of the job used, on one computer with several hosts."""
    with open(f"{run_dir}/summary.json", encoding="utf-8") as file:
        uses = json.load(file).get("resources", [])
    every = [use["cpu_percent"]["mean"] for use in uses if use.get("host") and not use.get("process")]
    own = sum(use["cpu_percent"]["mean"] for use in uses if use.get("process"))
    return max(0, max(every) - own) / (100 * os.cpu_count()) if every else 0


def all_shapes(machines):
    """Bulk-synchronous shapes that have a machine for each process; servers at most three."""
    found = [("local", 1, 0)] + [("mirrored", workers, 0) for workers in range(2, machines + 1)]
    return found + [("ps_sync", workers, servers) for workers in range(1, machines) for servers in (1, 2, 3)
                    if servers <= workers and workers + servers <= machines]
