#!/usr/bin/env python3
"""Records how well calibrations predict runs, on simulated machines (tests/integration/namespaces.py).

    tests/bench/prediction_corpus.py [TETHYS [FOLDER [SECONDS]]]
        default: build/release/deploy/tethys tests/deploy/predict/corpus 25

Each place is a rate of links, a number of machines and a model. The place is calibrated once, for the first
of its global batches. Then the job runs with each global batch in about a dozen shapes, in random order. In
most of these shapes the calibration made no brief run. Shapes within 15 % of the fastest run twice.
FOLDER/PLACE/ gets the job, the host file, the calibration and runs.csv. Places that are there already are
kept, so an interrupted recording can be continued. predict_test replays the places (corpus_test.cc).

Needs root; the machine should do nothing else. The share of the CPU that other programs use is recorded with
each run. Runs with a share above 20 % are left out; the last line says how many.
"""
import csv
import glob
import json
import os
import random
import sys

from shaped_runs import ShapedRuns, all_shapes, name_of, why_not

# Each place is a tuple: the rate of the links, the number of machines, the model, the global batches, and how much of a
# core each machine has. Without the last element, all machines share the cores of this machine. The model that predicts
# rates was developed on the first four places only. The other places were used neither to fit this model nor to choose
# it. Their links of 200 and 500 Mbit/s, their 6 and 8 machines, and the models "deep" and "wide" do not occur in the
# first four places. The places from lenet-1gbit-9 on were recorded after the last change of the predicting model and
# its intervals.
PLACES = [("1gbit", 9, "mlp", (384, 768)), ("1gbit", 4, "mlp", (384, 768)), ("100mbit", 7, "mlp", (384, 768)),
          ("1gbit", 7, "lenet", (112, 224)),
          ("200mbit", 6, "mlp", (384, 768)), ("500mbit", 8, "mlp", (384, 768)), ("1gbit", 6, "deep", (384, 768)),
          ("200mbit", 6, "lenet", (192, 384)), ("1gbit", 5, "wide", (256, 512)), ("500mbit", 8, "lenet", (256, 512)),
          ("200mbit", 9, "deep", (576, 1152)), ("500mbit", 6, "wide", (240, 480)), ("1gbit", 8, "lenet", (128, 256)),
          ("500mbit", 3, "deep", (96, 192)), ("200mbit", 4, "mlp", (128, 256)), ("1gbit", 8, "deep", (768, 1536)),
          ("50mbit", 6, "lenet", (384, 768)), ("200mbit", 8, "wide", (512, 1024)), ("500mbit", 6, "mlp", (96, 192)),
          ("1gbit", 6, "wide", (960, 1920)), ("500mbit", 4, "lenet", (64, 128)), ("200mbit", 5, "deep", (192, 384)),
          ("1gbit", 3, "lenet", (96, 192)), ("500mbit", 9, "mlp", (1152, 2304)), ("100mbit", 6, "deep", (384, 768)),
          ("1gbit", 6, "mlp", (192, 1152)), ("500mbit", 8, "wide", (256, 2048)), ("200mbit", 3, "lenet", (96, 384)),
          ("100mbit", 8, "lenet", (512, 1024)), ("500mbit", 5, "deep", (160, 640)),
          ("1gbit", 9, "lenet", (576, 1152)), ("200mbit", 8, "mlp", (768, 1536)), ("500mbit", 9, "deep", (288, 576)),
          ("1gbit", 7, "wide", (448, 896)), ("50mbit", 4, "mlp", (256, 512)), ("100mbit", 9, "wide", (1024, 2048)),
          ("1gbit", 8, "mlp", (1024, 2048)), ("500mbit", 4, "mlp", (64, 256)), ("200mbit", 9, "lenet", (288, 576)),
          ("1gbit", 4, "lenet", (256, 512)), ("500mbit", 3, "mlp", (96, 192)),
          ("1gbit", 6, "lenet", (1152, 2304), 0.3), ("200mbit", 6, "lenet", (1152, 2304), 0.3),
          ("100mbit", 4, "lenet", (768, 1536), 0.45), ("50mbit", 6, "lenet", (1152, 2304), 0.3)]


def shapes(machines, calibrated, random_order):
    """Seven shapes that the calibration did not run, and four that anybody would try."""
    new = [shape for shape in all_shapes(machines) if shape not in calibrated]
    usual = [("local", 1, 0), ("mirrored", 2, 0), ("mirrored", machines, 0), ("ps_sync", machines - 1, 1)]
    chosen = usual + [shape for shape in random_order.sample(new, min(len(new), 7)) if shape not in usual]
    random_order.shuffle(chosen)
    return chosen


def record(place, folder, tethys, seconds):
    """Returns how many runs were left out."""
    with ShapedRuns(tethys, place) as recording:
        calibration = recording.calibrate(seconds)
        calibrated = {(one["strategy"], one["workers"], one.get("servers", 0)) for one in calibration["anchor"]}
        rows = []
        for batch in recording.batches:
            random_order = random.Random(f"{recording.name} {batch}")
            rows += recording.runs(batch, shapes(recording.machines, calibrated, random_order))
        os.makedirs(folder + ".new", exist_ok=True)
        for name, text in (("hosts", recording.hosts), ("job.textproto", recording.job),
                           ("calibration.json", json.dumps(calibration, separators=(",", ":")))):
            with open(f"{folder}.new/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        with open(f"{folder}.new/runs.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["global_batch", "strategy", "workers", "servers", "samples_per_second", "others_cpu"])
            writer.writerows(sorted(rows))
        os.rename(folder + ".new", folder)
        return recording.left_out


def main():
    tethys = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/deploy/tethys")
    folder = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "tests/deploy/predict/corpus")
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 25
    if missing := why_not():
        sys.exit(missing)
    os.makedirs(folder, exist_ok=True)
    left_out = 0
    for place in PLACES:
        of_place = f"{folder}/{name_of(place)}"
        if not os.path.exists(of_place):
            left_out += record(place, of_place, tethys, seconds)
    print(f"{len(glob.glob(folder + '/*/runs.csv'))} places; {left_out} runs left out, because others used the CPU")


if __name__ == "__main__":
    main()
