#!/usr/bin/env python3
"""Tests that jobs use every sample as often as data.sharding says, each worker its own samples, and that they resume
inside an epoch.

    sample_order_test.py TETHYS ORDER_MAP
"""
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import check_journal
from tethys_run import JOB, PATIENCE, Run, STRATEGIES, TethysTest, command

ORDER_MAP = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else \
    "build/release/tests/integration/order_map"

SAMPLES = 600
WORKERS = 3
EPOCHS = 2
# Overrides for a short job whose workers cannot share a batch evenly and whose epochs end with a short batch.
SHORT = [f"data.limit_samples={SAMPLES}", "data.validation_samples=0", f"epochs={EPOCHS}", "global_batch_size=64"]
STALE = [*STRATEGIES["ps_async"][:3], "strategy.parameter_server.consistency=stale_synchronous",
         "optimizer.sgd.momentum=0.5"]
LOCK_STEP = {name: STRATEGIES[name] for name in ("mirrored", "ps_sync")}
LEASED = {"ps_async": STRATEGIES["ps_async"], "ps_stale": STALE}
BLOCKS = ["data.shuffle.blocks.samples=16", "data.shuffle.blocks.window=3"]
RECORD = 1 + 3 * 32 * 32
FILES = (100, 250, 150, 100)  # The number of samples in each file.


def cifar_job(folder):
    """JOB on files of random images in CIFAR-10's binary version."""
    for number, samples in enumerate(FILES):
        with open(f"{folder}/batch_{number}.bin", "wb") as file:
            for _ in range(samples):
                file.write(bytes([os.urandom(1)[0] % 10]) + os.urandom(RECORD - 1))
    source = f'  cifar {{ train: "{folder}/batch_*.bin" }}\n'
    return re.sub(r"  idx \{.*?\n  \}\n", source, JOB, count=1, flags=re.S)


def order_of(run, epochs=EPOCHS):
    """{(epoch, position): (rank, sample)} of the first epochs, from order_map."""
    done = subprocess.run([ORDER_MAP, run.path("job.textproto"), str(epochs)], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    rows = (map(int, line.split()) for line in done.stdout.splitlines())
    return {(epoch, position): (rank, sample) for epoch, position, rank, sample in rows}


def uses_of(run):
    """[(worker, epoch, position)] of all samples that workers used, from the journal of a single attempt."""
    lines = run.read("journal").splitlines()
    attempt = next(line.split() for line in lines if line.startswith("attempt "))
    length = int(attempt[4])
    uses = []
    for line in lines:
        if line.startswith("used "):
            _, worker, _, begin, count = line.split()
            uses += [(int(worker), *divmod(position, length)) for position in range(int(begin), int(begin) + int(count))]
    return uses


class ShardingTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tethys-sharding-")
        cls.files = cifar_job(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_used_as_often(self, run, times, samples=SAMPLES):
        """Every sample of every epoch was used `times` times; returns the number of uses by another rank's worker."""
        order, used, strangers = order_of(run), collections.Counter(), 0
        for worker, epoch, position in uses_of(run):
            rank, sample = order[epoch, position]
            used[epoch, sample] += 1
            strangers += rank != worker
        self.assertEqual(used, {(epoch, sample): times for epoch in range(EPOCHS) for sample in range(samples)})
        self.assertEqual(run.samples_used(), times * samples * EPOCHS)
        return strangers

    def test_every_sample_is_used_as_often_as_sharding_says(self):
        for name, strategy in {**LOCK_STEP, **LEASED}.items():
            for sharding in ("FILE", "DATA", "OFF"):
                with self.subTest(strategy=name, sharding=sharding), \
                        Run([*strategy, *SHORT, f"data.sharding={sharding}"], job=self.files) as run:
                    run.run()
                    strangers = self.assert_used_as_often(run, WORKERS if sharding == "OFF" else 1)
                    self.assertEqual(strangers, 0, "workers used positions of other workers")

    def test_workers_use_their_own_samples(self):
        even = [*SHORT, "global_batch_size=60"]
        with Run([*STRATEGIES["ps_async"], *even, "data.sharding=DATA", *BLOCKS], job=self.files).run() as run:
            order = order_of(run)
            for worker, epoch, position in uses_of(run):
                self.assertEqual(order[epoch, position][1] % WORKERS, worker)
        # 600 samples in files of 100, 250, 150 and 100: worker 0 has 250 samples, the others 150 and 200.
        with Run([*STRATEGIES["mirrored"], *even, "data.sharding=FILE"], job=self.files).run() as run:
            order, own = order_of(run), {0: range(100, 350), 1: range(350, 500), 2: [*range(100), *range(500, 600)]}
            strangers = sum(order[epoch, position][1] not in own[worker] for worker, epoch, position in uses_of(run))
            self.assertEqual(strangers, EPOCHS * 50, "worker 0 has 50 more samples than positions")

    def test_lost_worker_without_replacement_leaves_its_samples_to_others(self):
        for sharding, times in (("DATA", 1), ("OFF", WORKERS)):
            long = [f"data.sharding={sharding}", "data.limit_samples=12000", f"epochs={EPOCHS}", "global_batch_size=48"]
            for name, strategy in LEASED.items():
                with self.subTest(strategy=name, sharding=sharding), Run([*strategy, *long]) as run:
                    run.start().wait_for_training()
                    os.kill(run.process("worker", 1), signal.SIGKILL)
                    self.assertEqual(run.finish(), 0, run.output)
                    strangers = self.assert_used_as_often(run, times, 12000)
                    self.assertGreater(strangers, 0, "no other worker used the lost worker's samples")

    def test_replaced_worker_leaves_no_sample_unused(self):
        long = ["data.sharding=DATA", "data.limit_samples=12000", f"epochs={EPOCHS}", "global_batch_size=48",
                "max_restarts=1", "timeouts.worker_silence=10"]
        for name, strategy in LEASED.items():
            with self.subTest(strategy=name), Run([*strategy, *long]) as run:
                run.start().wait_for_training()
                with run.held("worker", 0):
                    os.kill(run.process("worker", 1), signal.SIGKILL)
                    run.wait_for_output("takes part again")
                self.assertEqual(run.finish(), 0, run.output)
                self.assert_used_as_often(run, 1, 12000)

    def test_interrupted_and_resumed_run_uses_every_sample_once_per_epoch(self):
        for name, strategy in LEASED.items():
            long = ["data.sharding=DATA", "epochs=1000", "checkpoint.every_epochs=0", "global_batch_size=48"]
            with self.subTest(strategy=name), Run([*strategy, *long]) as run:
                run.start().wait_for_training()
                run.launcher.send_signal(signal.SIGINT)
                self.assertEqual(run.finish(), 1, run.output)
                self.assertEqual(run.summary()["status"], "interrupted")
                epochs = run.saved_epoch() + 1
                run.run(resume=True, overrides=[f"epochs={epochs}"])
                self.assertEqual(run.samples_used(), epochs * 3001)

    def test_sharded_strategies_equal_virtual_replicas(self):
        slow = [*SHORT, "optimizer.learning_rate=0.001"]
        few = [*slow, "data.sharding=DATA", *BLOCKS]
        smooth = self.files.replace("activation: RELU", "activation: TANH")
        with Run(["strategy=local", f"strategy.local.virtual_replicas={WORKERS}", *few], job=smooth).run() as virtual:
            self.assert_used_as_often(virtual, 1)
            for name, strategy in LOCK_STEP.items():
                with self.subTest(strategy=name), Run([*strategy, *few], job=smooth).run() as run:
                    self.assert_close(run, virtual)
                    with Run([*strategy, *slow], job=smooth).run() as unsharded:
                        distances = self.distances(run, unsharded)
                        self.assertGreater(max(distances.values()), 1e-3, "sharding did not change the order of samples")

    def test_resume_inside_an_epoch_is_bit_equal(self):
        augmented = [*STRATEGIES["mirrored"], *SHORT, "data.sharding=DATA", *BLOCKS, "data.augment.random_crop.pad=2",
                     "data.augment.flip_horizontal=true", "optimizer.schedule=constant"]
        with Run([*augmented, "max_steps=17"], job=self.files).run() as straight, \
                Run([*augmented, "max_steps=13"], job=self.files).run() as run:
            run.run(resume=True, overrides=["max_steps=17"])
            self.assert_same_bits(run, straight)
            self.assertEqual(run.samples_used(), straight.samples_used())

    def test_resume_inside_an_epoch_with_another_order_is_refused(self):
        with Run([*STRATEGIES["mirrored"], *SHORT, "data.sharding=DATA", "max_steps=13"], job=self.files).run() as run:
            before = run.contents()
            for changed in (["workers=2"], ["global_batch_size=60"], ["data.sharding=GLOBAL"], ["data.shuffle=none"]):
                with self.subTest(changed=changed):
                    self.assertEqual(run.start(resume=True, overrides=[*changed, "max_steps=17"]).finish(), 2, run.output)
                    self.assertIn("whose order is DATA over 3 workers in steps of 64", run.output)
                    self.assertEqual(run.contents(), before)

    def test_resume_at_the_end_of_an_epoch_takes_another_order(self):
        for first, then in ((["data.sharding=OFF"], ["workers=2"]), (["data.sharding=OFF"], ["data.sharding=DATA"]),
                            (["data.sharding=FILE"], ["data.sharding=OFF", "workers=2"])):
            with self.subTest(first=first, then=then), \
                    Run([*STRATEGIES["ps_sync"], *SHORT, *first, "epochs=1"], job=self.files).run() as run:
                run.run(resume=True, overrides=[*then, "epochs=2"])
                lengths = [attempt.samples for attempt in check_journal.parse(run.read("journal"))]
                self.assertEqual(run.samples_used(), sum(lengths))
                self.assertEqual(lengths[0], WORKERS * SAMPLES if "data.sharding=OFF" in first else SAMPLES)

    def test_plan_says_what_each_worker_has(self):
        with Run([*STRATEGIES["mirrored"], *SHORT], job=self.files) as run:
            for overrides, text in (
                    (["data.sharding=AUTO"], "FILE (chosen by AUTO): worker 0 250 samples in 1 file, worker 1 150 samples"),
                    (["data.sharding=AUTO", "workers=5"], "DATA (chosen by AUTO): each worker 120 samples"),
                    (["data.sharding=OFF"], "OFF: each worker 600 samples, 1,800 in an epoch"),
                    (BLOCKS, "blocks of 16 samples, in windows of 3 blocks")):
                arguments = [f"--set={value}" for value in [*run.overrides, *overrides]]
                status, output = command(["plan", run.job, *arguments])
                self.assertEqual(status, 0, output)
                self.assertIn(text, output)
            arguments = [f"--set={value}" for value in [*run.overrides, "workers=5", "data.sharding=FILE"]]
            status, output = command(["plan", run.job, *arguments])
            self.assertEqual(status, 2, output)
            self.assertIn("only 4 of 4 files have samples for training, and each of 5 workers needs a file", output)


if __name__ == "__main__":
    unittest.main()
