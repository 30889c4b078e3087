"""Checks that the parts of the Kubernetes manifest agree with each other. No test tries it on a cluster."""
import os
import re
import unittest

import yaml

MANIFEST = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "kubernetes", "job.yaml")


class ManifestTest(unittest.TestCase):
    def setUp(self):
        with open(MANIFEST, encoding="utf-8") as file:
            self.service, self.job = yaml.safe_load_all(file)
        self.pod = self.job["spec"]["template"]["spec"]
        (self.container,) = self.pod["containers"]

    def test_service_is_headless_and_selects_the_jobs_pods(self):
        self.assertEqual((self.service["apiVersion"], self.service["kind"]), ("v1", "Service"))
        self.assertEqual(self.service["spec"]["clusterIP"], "None")
        self.assertTrue(self.service["spec"]["publishNotReadyAddresses"])
        self.assertEqual(self.service["spec"]["selector"], {"job-name": self.job["metadata"]["name"]})
        self.assertEqual(self.pod["subdomain"], self.service["metadata"]["name"])

    def test_job_is_indexed_and_starts_all_processes_at_once(self):
        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("batch/v1", "Job"))
        counts = {entry["name"]: int(entry["value"]) for entry in self.container["env"]}
        self.assertEqual(self.job["spec"]["completionMode"], "Indexed")
        self.assertEqual(self.job["spec"]["completions"], 1 + counts["SERVERS"] + counts["WORKERS"])
        self.assertEqual(self.job["spec"]["parallelism"], self.job["spec"]["completions"])
        self.assertEqual((self.job["spec"]["backoffLimit"], self.pod["restartPolicy"]), (0, "Never"))

    def test_script_looks_for_the_chief_on_the_first_pod(self):
        name = f"{self.job['metadata']['name']}-0.{self.service['metadata']['name']}"
        self.assertIn(f"chief={name}\n", self.container["args"][0])

    def test_token_is_readable_by_owner_only(self):
        (secret,) = [volume["secret"] for volume in self.pod["volumes"] if "secret" in volume]
        self.assertEqual(secret["defaultMode"] & 0o077, 0)

    def test_every_file_named_by_the_command_is_mounted(self):
        mounts = {mount["mountPath"]: mount["name"] for mount in self.container["volumeMounts"]}
        self.assertEqual(set(mounts.values()), {volume["name"] for volume in self.pod["volumes"]})
        for path in re.findall(r"--(?:job|run_dir|token_file)=(/\w+)", self.container["args"][0]):
            self.assertIn(path, mounts)


if __name__ == "__main__":
    unittest.main()
