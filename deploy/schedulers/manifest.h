// What a scheduler is given to run a job: manifests for kubectl, and scripts for sbatch. Each kind is one
// text that needs no file beside it and no editing. Called by `tethys manifest`. Pure; any thread. Each kind
// has a file of its own and a row in ManifestKinds().
#ifndef TETHYS_DEPLOY_SCHEDULERS_MANIFEST_H_
#define TETHYS_DEPLOY_SCHEDULERS_MANIFEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"
#include "runtime/shape/job_shape.h"

namespace tethys {

struct ManifestRequest {
  std::string name = {};      // Of the job on the scheduler (ManifestName).
  std::string job_text = {};  // The job file, without `base`.
  JobShape shape = {};
  bool gpu = false;                // Workers compute on GPUs.
  std::string secret = {};         // The line TOKEN JOB_ID, of manifests that hold it.
  std::string image = {};          // The container image.
  std::string data_claim = {};     // The volume claim with the data; empty: none.
  std::string data_folder = {};    // Where the data's claim is mounted (DataFolder).
  std::string results_claim = {};  // The volume claim for results; empty: they vanish with the pods.
};

struct ManifestKind {
  absl::string_view name;
  bool pods;  // The processes run in pods, so that images and claims apply, and the text holds the secret.
  std::string (*write)(const ManifestRequest& request);
};
const std::vector<ManifestKind>& ManifestKinds();
// The names of all kinds: "kubernetes|slurm|tfjob".
std::string ManifestKindNames();

std::string KubernetesManifest(const ManifestRequest& request);
std::string TfJobManifest(const ManifestRequest& request);
std::string SlurmScript(const ManifestRequest& request);

// The name of a job as Kubernetes takes it for a service and, with an index, for a pod: "my-net" for
// "My_net".
std::string ManifestName(absl::string_view job_name);

// InvalidArgument: a name, an image or a claim is none that Kubernetes takes; the message begins with the
// flag.
absl::Status CheckManifest(const ManifestRequest& request);

// The deepest folder that contains all files of the job's data that are no URLs; empty if there is no such
// file. InvalidArgument: the files have only the root folder in common, or a path is relative.
absl::StatusOr<std::string> DataFolder(const proto::Data& data);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SCHEDULERS_MANIFEST_H_
