#!/usr/bin/env python3
"""Tests data.cache: training from decoded samples that the ranks of a host share gives the same bits as
training without a cache, and each sample is decoded only once."""
import os
import shutil
import tempfile
import unittest

from data_formats_test import FILES, IDX_SOURCE, coloured, coloured_png
from tethys_run import JOB, Run, TethysTest, command

SAMPLES = {"train": 400, "test": 100}
MIRRORED = ["strategy=mirrored", "workers=2", "epochs=2", "data.loader_threads=2",
            "data.augment.random_crop.pad=2", "data.augment.flip_horizontal=true"]


class CacheTest(TethysTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tethys-cache-test-")
        for split, count in SAMPLES.items():
            with open(FILES[f"{split}_images"], "rb") as file:
                content = file.read()[16:16 + 784 * count]
            with open(FILES[f"{split}_labels"], "rb") as file:
                labels = file.read()[8:8 + count]
            for i in range(count):
                planes = coloured(content[784 * i:784 * (i + 1)])
                pixels = bytes(plane[at] for at in range(len(planes[0])) for plane in planes)
                folder = os.path.join(cls.folder, split, str(labels[i]))
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f"{i:05}.png"), "wb") as file:
                    file.write(coloured_png(pixels))
        cls.source = "".join(f'{split}: "{cls.folder}/{split}" ' for split in SAMPLES)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.cache = tempfile.mkdtemp(dir=self.folder)

    def job(self, validation=60, limit=300):
        return (JOB.replace(IDX_SOURCE, f"  image_folder {{ {self.source} }}\n")
                .replace("validation_samples: 1000", f"validation_samples: {validation}")
                .replace("limit_samples: 3001", f"limit_samples: {limit}"))

    def run_with(self, cache, *overrides, **job):
        return Run([*MIRRORED, f"data.cache={cache}", f"data.cache_dir={self.cache}", *overrides],
                   job=self.job(**job)).run()

    def entries(self):
        """{name: inode} of the cache."""
        return {name: os.stat(os.path.join(self.cache, name)).st_ino for name in os.listdir(self.cache)}

    def test_cached_samples_train_the_same_bits(self):
        with self.run_with("NONE") as plain:
            self.assertEqual(self.entries(), {})
            for cache in ("DISK", "MEMORY"):
                with self.subTest(cache=cache), self.run_with(cache) as cached:
                    self.assert_same_bits(cached, plain)
                    self.assertEqual(cached.summary()["test"], plain.summary()["test"])
            # The cache has one file for the training and validation samples, one file for the test samples,
            # and notes (*.memory) about samples that were cached in memory.
            names = sorted(self.entries())
            self.assertEqual([name.endswith(".memory") for name in names].count(False), 2, names)
            self.assertFalse([name for name in names if name.endswith((".lock", ".partial"))])

    def test_next_run_finds_the_entry_unless_the_data_changed(self):
        with self.run_with("DISK") as first:
            before = self.entries()
            with self.run_with("DISK") as second:
                self.assert_same_bits(second, first)
            self.assertEqual(self.entries(), before)
            with self.run_with("DISK", "data.mean=0.5", "epochs=1"):  # Changes no sample.
                self.assertEqual(self.entries(), before)
            os.utime(os.path.join(self.folder, "train", "0", sorted(os.listdir(f"{self.folder}/train/0"))[0]))
            with self.run_with("DISK") as third:
                self.assert_same_bits(third, first)
            self.assertEqual(len(self.entries()), len(before) + 1)
            self.assertEqual(len(self.entries().items() & before.items()), len(before))

    def test_damaged_entry_is_made_anew(self):
        with self.run_with("DISK", "epochs=1") as first:
            for name in self.entries():
                with open(os.path.join(self.cache, name), "r+b") as file:
                    file.seek(40)
                    file.write(b"damaged")
            with self.run_with("DISK", "epochs=1") as second:
                self.assert_same_bits(second, first)

    def test_plan_says_what_the_cache_will_hold(self):
        path = os.path.join(self.cache, "job.textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.job())
        for cache, place in (("DISK", f"the folder {self.cache}"), ("MEMORY", "memory that the workers of the host share")):
            status, output = command(["plan", path, f"--set=data.cache={cache}", f"--set=data.cache_dir={self.cache}"])
            self.assertEqual(status, 0, output)
            self.assertRegex(output, f"Each host with workers keeps 1.4 MiB of decoded samples in {place}")

    def test_resized_samples_of_8_bit_integers_are_cached(self):
        """IDX images have no decoder that resizes them."""
        with Run([*MIRRORED, "epochs=1", "data.resize.height=14", "data.resize.width=20"]).run() as plain:
            self.assertIn("samples of [14, 20]", plain.output)
            with Run([*MIRRORED, "epochs=1", "data.resize.height=14", "data.resize.width=20", "data.cache=MEMORY",
                      f"data.cache_dir={self.cache}"]).run() as cached:
                self.assert_same_bits(cached, plain)

    def test_unpacked_data_are_kept_for_the_next_run(self):
        """Gzipped IDX files, and their mean and deviation, with no data.cache in the job."""
        kept = [*MIRRORED, "data.compute_standardisation=true", f"data.cache_dir={self.cache}"]
        with Run([*kept, "data.cache=NONE"]).run() as plain:
            self.assertEqual(self.entries(), {})
            with Run(kept).run() as first:
                self.assert_same_bits(first, plain)
            before = self.entries()
            self.assertEqual(sorted(name.split("-")[0] for name in before if not name.endswith(".of")),
                             ["samples", "samples", "scaling"])
            with Run(kept).run() as second:
                self.assert_same_bits(second, plain)
                self.assertEqual(second.summary()["test"], plain.summary()["test"])
            self.assertEqual(self.entries(), before)
            for name in before:
                path = os.path.join(self.cache, name)
                with open(path, "r+b") as file:
                    if name.startswith("scaling"):
                        file.write(b"damaged")
                    elif os.path.getsize(path) > 2 << 20:  # The samples for training.
                        file.seek(1 << 20)
                        file.write(b"damaged" * 1000)
            with Run(kept) as damaged:
                self.assertEqual(damaged.start().finish(), 1)
                self.assertRegex(damaged.output, f"{self.cache}/samples-.*checksum is wrong.*start the job again")
            with Run(kept).run() as third:
                self.assert_same_bits(third, plain)

    def test_data_are_unpacked_by_every_process_without_a_cache(self):
        blocked = os.path.join(self.cache, "file")
        with open(blocked, "w", encoding="utf-8"):
            pass
        with Run([*MIRRORED, "data.cache=NONE"]).run() as plain:
            with Run([*MIRRORED, f"data.cache_dir={blocked}/below"]).run() as without:
                self.assert_same_bits(without, plain)

    def test_folder_that_cannot_be_written_is_named(self):
        blocked = os.path.join(self.cache, "file")
        with open(blocked, "w", encoding="utf-8"):
            pass
        with Run([*MIRRORED, "data.cache=DISK", f"data.cache_dir={blocked}/below"], job=self.job()) as run:
            self.assertNotEqual(run.start().finish(), 0)
            self.assertIn("data.cache_dir", run.output)
            self.assertIn(blocked, run.output)


if __name__ == "__main__":
    unittest.main()
