#!/usr/bin/env python3
"""Runs a manifest that `tethys manifest kubernetes` writes as pods: each a machine of network namespaces (namespaces.py)
with a root folder of its own, the name and the variables that Kubernetes gives, and the manifest's own command, user
and volumes. Needs root, for namespaces; `PodsTest` is skipped without."""
import glob
import os
import re
import subprocess
import unittest

import yaml

import namespaces
from namespaces import PATIENCE, Cluster
from tethys_run import DATA, JOB, TETHYS, command

SERVICE_DOMAIN = "default.svc.cluster.local"

# Makes a container's root folder, and runs a command there as the user of the pod.
START_POD = """
set -e
mount -t tmpfs tmpfs {root}
cd {root}
mkdir -p usr proc dev etc opt/tethys
for link in bin sbin lib lib64; do ln -s usr/$link $link; done
mount --bind /usr usr
mount --rbind /dev dev
mount -t proc proc proc
mount --bind {program} opt/tethys
touch etc/hosts
mount --bind {hosts} etc/hosts
{mounts}
exec chroot . setpriv --reuid={user} --regid={group} --groups={groups} --no-new-privs --bounding-set=-all "$@"
"""


class Manifest:
    """The objects of a manifest, by kind."""

    def __init__(self, text):
        self.text = text
        self.objects = {each["kind"]: each for each in yaml.safe_load_all(text)}
        self.job = self.objects["Job"]
        self.name = self.job["metadata"]["name"]
        self.pod = self.job["spec"]["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.pods = self.job["spec"]["completions"]
        self.secret = self.objects["Secret"]["stringData"]

    def environment(self, index):
        values = {"PATH": "/opt/tethys:/usr/bin", "JOB_COMPLETION_INDEX": str(index),
                  "HOSTNAME": f"{self.name}-{index}"}
        for entry in self.container["env"]:
            source = entry.get("valueFrom", {}).get("secretKeyRef")
            values[entry["name"]] = self.secret[source["key"]] if source else entry["value"]
        return values


def written(*words):
    """Calls `tethys manifest kubernetes`; returns the manifest and the notes on standard error."""
    done = subprocess.run([TETHYS, "manifest", "kubernetes", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return Manifest(done.stdout), done.stderr


class ManifestTest(unittest.TestCase):
    JOB = "examples/fashion_mnist_ps_sync.textproto"

    @classmethod
    def setUpClass(cls):
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        cls.job = f"{source}/{cls.JOB}"

    def test_counts_names_and_mounts_agree(self):
        manifest, notes = written(self.job, "--set=workers=3", "--image=example.org/tethys:1", "--data=datasets",
                                  "--results=runs")
        self.assertEqual(notes, "")
        spec, name = manifest.job["spec"], manifest.name
        self.assertEqual(name, "fashion-mnist-ps-sync")
        self.assertEqual((spec["completionMode"], spec["completions"], spec["parallelism"]), ("Indexed", 6, 6))
        service = manifest.objects["Service"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])
        self.assertEqual(service["spec"]["selector"], {"job-name": name})
        self.assertEqual(manifest.pod["subdomain"], service["metadata"]["name"])
        mounts = {mount["name"]: mount["mountPath"] for mount in manifest.container["volumeMounts"]}
        self.assertEqual(set(mounts), {volume["name"] for volume in manifest.pod["volumes"]})
        self.assertEqual(mounts["data"], "/usr/share/datasets/fashion-mnist")
        self.assertIn("--run_dir=/results/fashion-mnist-ps-sync", manifest.container["command"])
        self.assertRegex(manifest.secret["token"], r"^[0-9a-f]{32} fashion-mnist-ps-sync-[0-9a-f]{8}$")
        text = manifest.objects["ConfigMap"]["data"]["job.textproto"]
        self.assertIn("workers: 3", text)
        self.assertNotIn("base:", text)

    def test_two_manifests_have_different_tokens_and_notes_say_what_is_missing(self):
        first, notes = written(self.job)
        second, _ = written(self.job)
        self.assertNotEqual(first.secret, second.secret)
        for part in ("--image=IMAGE", "--data=CLAIM", "--results=CLAIM"):
            self.assertIn(part, notes)

    def test_gpu_jobs_ask_for_gpus(self):
        manifest, _ = written(self.job, "--set=device.kind=CUDA")
        self.assertEqual(manifest.container["resources"]["limits"], {"nvidia.com/gpu": 1})

    def test_tfjob_has_the_jobs_replicas(self):
        status, text = command(["manifest", "tfjob", self.job, "--set=workers=3", "--image=i", "--data=d", "--results=r"])
        self.assertEqual(status, 0, text)
        config, secret, job = yaml.safe_load_all(text)
        self.assertEqual((config["kind"], secret["kind"], job["kind"]), ("ConfigMap", "Secret", "TFJob"))
        replicas = job["spec"]["tfReplicaSpecs"]
        self.assertEqual({kind: replica["replicas"] for kind, replica in replicas.items()},
                         {"Chief": 1, "PS": 2, "Worker": 3})
        for replica in replicas.values():
            self.assertEqual(replica["template"]["spec"]["containers"][0]["name"], "tensorflow")

    def test_wrong_requests_are_refused(self):
        for words, message in (
                (["nomad", self.job], "there is no manifest 'nomad': write one of kubernetes|slurm|tfjob"),
                (["slurm", self.job, "--image=i"], "--image is for pods"),
                (["kubernetes"], "write `tethys manifest kubernetes JOB`"),
                (["kubernetes", self.job, "--name=My_Job"], "--name=My_Job: a job has a name of"),
                (["kubernetes", self.job, "--image=a b"], "--image=a b: an image is written as"),
                (["kubernetes", self.job, "--results=A"], "--results=A: a volume claim has"),
                (["kubernetes", "/nowhere.textproto"], "/nowhere.textproto"),
                (["kubernetes", self.job, "--data=d", "--set=data=synthetic", "--set=data.synthetic=noise",
                  "--set=data.synthetic.noise.shape=8,8,1", "--set=data.synthetic.train_samples=100",
                  "--set=data.validation_samples=0"],
                 "--data=d: the job reads no local files"),
                (["kubernetes", self.job, "--data=d", "--set=data.idx.train_images=x"],
                 "the path x is relative: processes in pods need absolute paths")):
            with self.subTest(words=words):
                status, output = command(["manifest", *words])
                self.assertEqual(status, 2, output)
                self.assertIn(message, output)


@unittest.skipIf(namespaces.why_not(), namespaces.why_not())
class PodsTest(unittest.TestCase):
    """A mirrored job with a base, as four pods."""

    def make_manifest(self, folder):
        for name, text in (("base.textproto", JOB), ("job.textproto", 'base: "base.textproto"\nname: "trial"\n'
                                                     "workers: 3\nstrategy { mirrored {} }\nepochs: 1\n")):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        return written(f"{folder}/job.textproto", "--data=data", "--results=results")[0]

    def volume(self, cluster, manifest, pod, volume):
        """The folder that a pod mounts for a volume."""
        if volume.get("persistentVolumeClaim", {}).get("claimName") == "data":
            os.chmod(DATA.name, 0o755)
            return DATA.name
        shared = volume.get("persistentVolumeClaim") is not None
        path = f"{cluster.root}/{volume['name']}" if shared else f"{cluster.root}/{pod}/{volume['name']}"
        os.makedirs(path, exist_ok=True)
        if "configMap" in volume:
            for name, text in manifest.objects["ConfigMap"]["data"].items():
                with open(f"{path}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
        else:
            group = manifest.pod["securityContext"]["fsGroup"]  # Kubernetes gives volumes to this group.
            os.chown(path, 0, group)
            os.chmod(path, 0o2775)
        return path

    def start(self, cluster, manifest, index):
        pod = f"{manifest.name}-{index}"
        folder = cluster[pod].folder
        os.mkdir(f"{folder}/root")
        volumes = {volume["name"]: self.volume(cluster, manifest, pod, volume) for volume in manifest.pod["volumes"]}
        mounts = "".join(f"mkdir -p .{mount['mountPath']}\nmount --bind {'-o ro ' if mount.get('readOnly') else ''}"
                         f"{volumes[mount['name']]} .{mount['mountPath']}\n"
                         for mount in manifest.container["volumeMounts"])
        rights = manifest.pod["securityContext"]
        script = START_POD.format(root=f"{folder}/root", program=os.path.dirname(os.path.abspath(TETHYS)),
                                  hosts=f"{folder}/hosts", mounts=mounts, user=rights["runAsUser"],
                                  group=rights["runAsGroup"], groups=rights["fsGroup"])
        environment = [f"{name}={value}" for name, value in manifest.environment(index).items()]
        # A PID namespace, so that the process is number 1, as in a container.
        words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", script, "pod", "env", "-i",
                 *environment, *manifest.container["command"]]
        process = cluster.popen(pod, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def add_names(self, cluster, manifest, pod, others):
        """Lets a pod resolve the names of pods: its own name as kubelet writes it, and others as a headless Service."""
        with open(f"{cluster[pod].folder}/hosts", "a", encoding="utf-8") as file:
            for name in others:
                file.write(f"{cluster[name].address}\t{name}.{manifest.name}.{SERVICE_DOMAIN}\t{name}\n")

    def test_job_with_a_base_trains_in_pods_that_are_not_root(self):
        with Cluster([f"trial-{index}" for index in range(4)]) as cluster:
            manifest = self.make_manifest(cluster.root)
            self.assertEqual((manifest.name, manifest.pods), ("trial", 4))
            names = list(cluster.machines)
            for name in names:
                self.add_names(cluster, manifest, name, [name])
            # The chief's name has no address yet when the workers start.
            workers = [self.start(cluster, manifest, index) for index in (3, 2, 1)]
            self.assertIn("waiting until trial-0.trial.", workers[0].stdout.readline())
            for name in names:
                self.add_names(cluster, manifest, name, [other for other in names if other != name])
            chief = self.start(cluster, manifest, 0)
            output, _ = chief.communicate(timeout=PATIENCE)
            self.assertEqual(chief.returncode, 0, output)
            self.assertRegex(output, r"epoch +1/1 ")
            self.assertIn("test accuracy", output)
            outputs = [output] + [worker.communicate(timeout=PATIENCE)[0] for worker in workers]
            self.assertEqual([worker.returncode for worker in workers], [0, 0, 0], outputs)
            self.assert_complete(f"{cluster.root}/results/trial", manifest, outputs)

    def assert_complete(self, run, manifest, outputs):
        self.assertEqual(os.stat(f"{run}/report.html").st_uid, manifest.pod["securityContext"]["runAsUser"])
        with open(f"{run}/summary.json", encoding="utf-8") as file:
            self.assertRegex(file.read(), r'"status": *"succeeded"')
        token = manifest.secret["token"].split()[0]
        for path in glob.glob(f"{run}/**", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    outputs.append(file.read().decode(errors="replace"))
        for text in outputs:
            self.assertIsNone(re.search(token, text), "the token is secret")


if __name__ == "__main__":
    unittest.main()
