"""A job on synthetic 28 x 28 images of 10 classes, and single runs of it, for the benchmarks beside this file."""
import json
import os
import subprocess
import sys

# Models, in the text format of job files.
PERCEPTRON = """
  layer { flatten {} }
  layer { dense { units: 128 activation: RELU } }
  layer { dense { units: 10 } }
"""
LENET = "lenet {}"


def write_job(path, samples, fields, model=PERCEPTRON):
    """Writes a job file. `fields` is text with the job's other fields: those of batches, epochs, workers and strategy,
    and the optimizer where it is not plain SGD."""
    if "optimizer" not in fields:
        fields += "\noptimizer { sgd {} learning_rate: 0.01 }"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""name: "{os.path.splitext(os.path.basename(sys.argv[0]))[0]}"
model {{ {model} }}
data {{ synthetic {{ noise {{ shape: [ 28, 28, 1 ] }} train_samples: {samples} }} classes: 10 }}
evaluate_each_epoch: false
{fields}
""")


def train_command(tethys, job, directory, *flags):
    return [tethys, "train", job, "--plain", f"--run_dir={directory}", *flags]


def train(tethys, job, directory):
    """Trains once; ends the benchmark with the run's output if the run fails."""
    command = train_command(tethys, job, directory)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{' '.join(command)} failed with status {done.returncode}")


def summary(directory):
    with open(os.path.join(directory, "summary.json"), encoding="utf-8") as file:
        return json.load(file)
