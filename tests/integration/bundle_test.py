"""Tests that the bundle, an archive of the command and its libraries, runs without installed packages: in a chroot
that has only bash, the C library that bash needs, the data files and the bundle.

Needs root, for chroot, and a mount namespace, which cannot be made inside another chroot. Skipped otherwise.
"""
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from tethys_run import FULL_JOB, PATIENCE, TETHYS

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{SOURCE}/deploy")
import make_wheel  # pylint: disable=wrong-import-position

DATA = "/usr/share/datasets/fashion-mnist"
BUNDLE_SCRIPT = f"{SOURCE}/deploy/bundle.sh"


# A month in seconds.
MONTH = 30 * 24 * 3600


def copy_into(root, path):
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(os.path.realpath(path), target)


def bare_root(root):
    """Fills `root` with bash, as /bin/bash and /bin/sh, the libraries of bash, and some empty directories."""
    copy_into(root, "/bin/bash")
    os.symlink("bash", root + "/bin/sh")
    for word in subprocess.check_output(["ldd", "/bin/bash"], text=True).split():
        if word.startswith("/"):
            copy_into(root, word)
    for folder in ("proc", "dev", "tmp", "work"):
        os.mkdir(f"{root}/{folder}")


def why_not():
    """The reason why chroot cannot be used here, or None."""
    if os.geteuid() != 0:
        return "chroot needs root"
    if subprocess.run(["unshare", "--mount", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return "chroot needs a mount namespace, and unshare --mount fails here"
    return None


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if (lacking := why_not()) is not None:
            raise unittest.SkipTest(lacking)
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = cls.folder.name + "/root"
        os.mkdir(cls.root)
        bare_root(cls.root)
        cls.bundle = cls.folder.name + "/bundle.tar.gz"
        # Files that two earlier runs of the script have left (one of these runs may still be at work), and a
        # file of the user.
        for name, age in (("part-killed", 2 * 3600), ("part-atwork", 60), ("sha256", 2 * 3600)):
            with open(f"{cls.bundle}.{name}", "wb"):
                pass
            os.utime(f"{cls.bundle}.{name}", times=(time.time() - age,) * 2)
        subprocess.run([BUNDLE_SCRIPT, os.path.abspath(TETHYS), cls.bundle], check=True, stdout=subprocess.DEVNULL)
        os.mkdir(cls.root + "/bundle")
        subprocess.run(["tar", "-xzf", cls.bundle, "-C", cls.root + "/bundle"], check=True)
        for name in os.listdir(DATA):
            copy_into(cls.root, f"{DATA}/{name}")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_inside(self, *words):
        """Runs a command in the chroot, in a new mount namespace, so that nothing stays mounted."""
        script = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", self.root, *words],
                              capture_output=True, text=True, timeout=PATIENCE)

    def test_files_that_a_killed_run_has_left_are_removed(self):
        self.assertFalse(os.path.exists(self.bundle + ".part-killed"))
        self.assertTrue(os.path.exists(self.bundle + ".part-atwork"))
        self.assertTrue(os.path.exists(self.bundle + ".sha256"))

    def test_bundle_takes_at_most_26_mib_and_libraries_for_urls_4_more(self):
        program = self.folder.name + "/program.tar.gz"
        libraries = self.folder.name + "/libraries"  # All optional libraries except libtethys_remote.so.
        os.mkdir(libraries)
        cuda = os.path.join(os.path.dirname(os.path.abspath(TETHYS)), "libtethys_cuda.so")
        if os.path.exists(cuda):
            shutil.copy(cuda, libraries)
        subprocess.run([BUNDLE_SCRIPT, os.path.abspath(TETHYS), program, libraries], check=True,
                       stdout=subprocess.DEVNULL)
        self.assertLessEqual(os.path.getsize(program), 26 << 20)
        self.assertLessEqual(os.path.getsize(self.bundle), 30 << 20)

    def test_bundle_has_the_licence_of_every_packed_library(self):
        documents = self.root + "/bundle/share/doc"
        with open(documents + "/packages", encoding="utf-8") as packages:
            names = [line.split()[0] for line in packages]
        for begin in ("libc6", "libdnnl", "libjs-chart.js", "libssl"):
            self.assertTrue(any(name.startswith(begin) for name in names), begin)
        for name in ["tethys", *names]:
            self.assertGreater(os.path.getsize(f"{documents}/{name}/copyright"), 500, name)
        self.assertTrue(os.path.exists(documents + "/common-licenses/LGPL-2.1"))

    def test_wheel_trains_where_no_temporary_folder_is_writable(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            name = make_wheel.main(SOURCE, self.root + "/bundle", "1.2.3", "x86_64", folder, level=1)
            with zipfile.ZipFile(f"{folder}/{name}") as wheel:
                wheel.extractall(f"{folder}/site")
                record = wheel.read("tethys-1.2.3.dist-info/RECORD").decode().split()
                self.assertEqual(len(record), len(wheel.infolist()))
                for path, digest, size in (line.split(",") for line in record[:-1]):
                    content = wheel.read(path)
                    self.assertEqual(len(content), int(size), path)
                    self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(
                        hashlib.sha256(content).digest()).rstrip(b"=").decode(), path)
                for entry in wheel.infolist():  # As pip does.
                    if entry.external_attr >> 16 & 0o111:
                        os.chmod(f"{folder}/site/{entry.filename}", 0o755)
            script = ("import numpy, tethys; x = numpy.zeros((64, 4)); "
                      "job = {'model': {'layer': [{'dense': {'units': 2}}]}, 'data': {'classes': 2}, 'epochs': 1, "
                      "'optimizer': {'sgd': {}, 'learning_rate': 0.1}, 'global_batch_size': 32}; "
                      "run = tethys.train(job, data=(x, x[:, 0] > 0), workers=2, strategy='mirrored'); "
                      "print(tethys.program(), run.weights()['dense_0.bias'].shape, run.predict(x).shape)")
            # numpy is a package of the distribution's Python.
            done = subprocess.run(
                ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro tmpfs /tmp && exec /usr/bin/python3 -c "$1"', "sh",
                 script],
                env={"PYTHONPATH": folder + "/site", "HOME": folder, "PATH": os.environ["PATH"], "TMPDIR": "/nowhere"},
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(done.stdout, f"{folder}/site/tethys/_bundle/tethys (2,) (64, 2)\n")

    def test_program_started_without_bundled_loader_fails(self):
        missing = self.run_inside("/bundle/lib/tethys", "--help")
        self.assertNotEqual(missing.returncode, 0, "the program found its libraries outside the bundle")

    def test_job_of_several_processes_trains(self):
        with open(self.root + "/work/job.textproto", "w") as job:
            job.write(FULL_JOB)
        for strategy in ("mirrored", "parameter_server"):
            os.utime(self.root + "/bundle", (0, 0))
            done = self.run_inside("/bundle/tethys", "train", "/work/job.textproto", f"--run_dir=/work/{strategy}",
                                   f"--set=strategy={strategy}", "--set=workers=2", "--set=epochs=1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertGreater(os.stat(self.root + "/bundle").st_mtime, MONTH, "the bundle's folder was not touched")
            with open(f"{self.root}/work/{strategy}/summary.json") as summary:
                self.assertIn('"succeeded"', summary.read())

    def test_host_file_may_name_this_machine(self):
        with open(self.root + "/work/job.textproto", "w") as job:
            job.write(FULL_JOB)
        with open(self.root + "/work/hosts", "w") as hosts:
            hosts.write("here address=127.0.0.1 slots=2\n")
        done = self.run_inside("/bundle/tethys", "train", "/work/job.textproto", "--run_dir=/work/hosts-run",
                               "--hostfile=/work/hosts", "--set=strategy=mirrored", "--set=workers=2", "--set=epochs=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_bundle_has_c_library_parts_for_nvidia_libraries(self):
        # NVIDIA's libraries need these files, and the host's versions of them may not fit the bundle's C
        # library.
        for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"):
            self.assertTrue(os.path.exists(f"{self.root}/bundle/lib/c/{name}"), name)

    def test_host_with_c_library_of_same_age_uses_its_own(self):
        # NVIDIA's libraries on a host can need the host's C library, and two C libraries cannot be mixed.
        with tempfile.TemporaryDirectory() as folder:
            bundle = f"{self.root}/bundle"
            started = subprocess.Popen([f"{bundle}/tethys", "meter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            started.stdin.write(b"?\n")
            started.stdin.flush()
            started.stdout.readline()  # The program runs now.
            with open(f"/proc/{started.pid}/maps", encoding="utf-8") as maps:
                used = maps.read()
            started.communicate()
            self.assertIn(f"{bundle}/lib/tethys", used)
            self.assertIn("/libc.so.6", used)
            self.assertNotIn("/lib/c/", used)
            with open(f"{folder}/job.textproto", "w", encoding="utf-8") as job:
                job.write(FULL_JOB)
            done = subprocess.run([f"{bundle}/tethys", "train", f"{folder}/job.textproto", f"--run_dir={folder}/run",
                                   "--set=strategy=mirrored", "--set=workers=2", "--set=max_steps=3"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            # The bundle's libraries are found too: fetching fails, but not because libtethys_remote.so is
            # missing.
            lost = subprocess.run([f"{bundle}/tethys", "data", "show", "http://127.0.0.1:1/lost.npy"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                                  check=False)
            self.assertNotEqual(lost.returncode, 0)
            self.assertIn("127.0.0.1", lost.stdout)
            self.assertNotIn("libtethys_remote.so", lost.stdout)

    def test_bundle_starts_from_any_folder(self):
        done = self.run_inside("/bin/sh", "-c", "cd /bundle && ./tethys --help && cd lib && ../tethys --help")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
