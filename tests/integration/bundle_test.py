"""The bundle runs where nothing is installed: a root that holds bash, the C library for it, and the bundle.

Needs root, for chroot, and a mount namespace of its own, which cannot be had under another chroot; skipped without.
"""
import os
import shutil
import subprocess
import tempfile
import unittest

from tethys_run import FULL_JOB, PATIENCE, TETHYS

DATA = "/usr/share/datasets/fashion-mnist"
BUNDLE_SCRIPT = os.path.join(os.path.dirname(__file__), "../../deploy/bundle.sh")


# In seconds.
MONTH = 30 * 24 * 3600


def copy_into(root, path):
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(os.path.realpath(path), target)


def bare_root(root):
    """bash as /bin/bash and /bin/sh, and what it is linked to."""
    copy_into(root, "/bin/bash")
    os.symlink("bash", root + "/bin/sh")
    for word in subprocess.check_output(["ldd", "/bin/bash"], text=True).split():
        if word.startswith("/"):
            copy_into(root, word)
    for folder in ("proc", "dev", "tmp", "work"):
        os.mkdir(f"{root}/{folder}")


def why_not():
    """What a root of its own lacks here, in words; None when it can be made."""
    if os.geteuid() != 0:
        return "a root of its own takes root's rights"
    if subprocess.run(["unshare", "--mount", "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return "a root of its own takes a mount namespace, and unshare --mount fails here"
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
        subprocess.run([BUNDLE_SCRIPT, os.path.abspath(TETHYS), cls.bundle], check=True, stdout=subprocess.DEVNULL)
        os.mkdir(cls.root + "/bundle")
        subprocess.run(["tar", "-xzf", cls.bundle, "-C", cls.root + "/bundle"], check=True)
        for name in os.listdir(DATA):
            copy_into(cls.root, f"{DATA}/{name}")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_inside(self, *words):
        """In a mount namespace of its own, so that nothing stays mounted."""
        script = 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", self.root, *words],
                              capture_output=True, text=True, timeout=PATIENCE)

    def test_it_is_small_enough_to_be_sent_to_many(self):
        self.assertLessEqual(os.path.getsize(self.bundle), 25 << 20)

    def test_the_root_holds_no_library_but_bash_s(self):
        missing = self.run_inside("/bundle/lib/tethys", "--help")
        self.assertNotEqual(missing.returncode, 0, "the program found its libraries outside the bundle")

    def test_a_job_of_several_processes_trains_there(self):
        with open(self.root + "/work/job.textproto", "w") as job:
            job.write(FULL_JOB)
        for strategy in ("mirrored", "parameter_server"):
            os.utime(self.root + "/bundle", (0, 0))
            done = self.run_inside("/bundle/tethys", "train", "/work/job.textproto", f"--run_dir=/work/{strategy}",
                                   f"--set=strategy={strategy}", "--set=workers=2", "--set=epochs=1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertGreater(os.stat(self.root + "/bundle").st_mtime, MONTH, "it looks as if nobody used it")
            with open(f"{self.root}/work/{strategy}/summary.json") as summary:
                self.assertIn('"succeeded"', summary.read())

    def test_a_host_file_may_name_the_machine_itself(self):
        with open(self.root + "/work/job.textproto", "w") as job:
            job.write(FULL_JOB)
        with open(self.root + "/work/hosts", "w") as hosts:
            hosts.write("here address=127.0.0.1 slots=2\n")
        done = self.run_inside("/bundle/tethys", "train", "/work/job.textproto", "--run_dir=/work/hosts-run",
                               "--hostfile=/work/hosts", "--set=strategy=mirrored", "--set=workers=2", "--set=epochs=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_part_of_the_c_library_is_its_own(self):
        # NVIDIA's libraries need them, and the host's need not fit the bundle's C library.
        for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"):
            self.assertTrue(os.path.exists(f"{self.root}/bundle/lib/{name}"), name)

    def test_it_starts_from_any_folder(self):
        done = self.run_inside("/bin/sh", "-c", "cd /bundle && ./tethys --help && cd lib && ../tethys --help")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
