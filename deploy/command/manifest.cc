#include "deploy/schedulers/manifest.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "deploy/command/verbs.h"
#include "deploy/run/secret_source.h"
#include "runtime/job/job_file.h"

namespace tethys {
namespace {

constexpr char kDefaultImage[] = "tethys:" TETHYS_VERSION;

// Notes on what the manifest leaves to the user, for standard error.
void PrintNotes(const Flags& flags, const ManifestRequest& request) {
  if (!flags.Has("image")) {
    std::fprintf(stderr, "tethys manifest: the image is %s; --image=IMAGE names another one\n",
                 kDefaultImage);
  }
  if (request.data_claim.empty() && !request.data_folder.empty()) {
    std::fprintf(stderr,
                 "tethys manifest: the image must contain what the job reads from %s; --data=CLAIM mounts a "
                 "volume claim there\n",
                 request.data_folder.c_str());
  }
  if (request.results_claim.empty()) {
    std::fprintf(stderr, "tethys manifest: the results vanish with the pods; --results=CLAIM keeps them\n");
  }
}

// Fills in the token and the folder of the data.
absl::Status PreparePods(const proto::Job& job, ManifestRequest& request) {
  TETHYS_ASSIGN_OR_RETURN(request.secret, NewSecretLine(request.name));
  const absl::StatusOr<std::string> folder = DataFolder(job.data());
  if (!request.data_claim.empty()) {
    TETHYS_RETURN_IF_ERROR(folder.status());
    if (folder->empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--data=", request.data_claim,
                                                     ": the job reads no local files, so it needs no claim"));
    }
  }
  request.data_folder = folder.value_or("its paths");
  return absl::OkStatus();
}

absl::StatusOr<const ManifestKind*> KindOf(const Flags& flags) {
  const std::string& name = flags.arguments()[0];
  const auto kind = std::find_if(ManifestKinds().begin(), ManifestKinds().end(),
                                 [&](const ManifestKind& candidate) { return candidate.name == name; });
  if (kind == ManifestKinds().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no manifest '", name, "': write one of ", ManifestKindNames()));
  }
  for (const char* flag : {"image", "data", "results"}) {
    if (kind->pods || !flags.Has(flag)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, " is for pods; ", name,
                                                   " runs the program as it is installed on its nodes"));
  }
  if (flags.arguments().size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("write `tethys manifest ", name, " JOB` with one job file"));
  }
  return &*kind;
}

absl::StatusOr<std::string> ManifestText(const Flags& flags) {
  TETHYS_ASSIGN_OR_RETURN(const ManifestKind* const kind, KindOf(flags));
  const std::string& file = flags.arguments()[1];
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, LoadJob(file, flags.GetAll("set")));
  ManifestRequest request;
  TETHYS_ASSIGN_OR_RETURN(request.job_text, FlatJobText(file, flags.GetAll("set")));
  request.name = flags.Get("name", ManifestName(job.name()));
  request.shape = ShapeOf(job);
  request.gpu = job.device().kind() == proto::Device::CUDA;
  request.image = flags.Get("image", kDefaultImage);
  request.data_claim = flags.Get("data");
  request.results_claim = flags.Get("results");
  TETHYS_RETURN_IF_ERROR(CheckManifest(request));
  if (kind->pods) {
    TETHYS_RETURN_IF_ERROR(PreparePods(job, request));
    PrintNotes(flags, request);
  }
  return kind->write(request);
}

int Manifest(const Flags& flags) {
  const absl::StatusOr<std::string> text = ManifestText(flags);
  if (!text.ok()) return Fail("manifest", text.status(), kExitBadRequest);
  std::fputs(text->c_str(), stdout);
  return kExitSuccess;
}

}  // namespace

Command ManifestCommand() {
  return {
      {.verb = "manifest",
       .summary = "Writes what Kubernetes, Slurm or Kubeflow needs to run a job.",
       .description =
           "Prints one text that needs no editing. The job file is inside, with its bases and --set.\n"
           "`kubernetes`: a Service, a ConfigMap, a Secret with a new token and an Indexed Job, for kubectl "
           "apply -f -.\n"
           "`slurm`: a batch script, for sbatch. It is submitted again after the loss of a node, and the run "
           "then goes on.\n"
           "`tfjob`: a ConfigMap, a Secret and a TFJob of Kubeflow's training operator, for kubectl apply -f "
           "-.\n"
           "Process 0 is the chief, which shows progress and writes the report (docs/guide/schedulers.md).",
       .argument = ManifestKindNames() + " JOB",
       .count = ArgumentCount::kWords,
       .flags = {{.name = "image",
                  .value = "IMAGE",
                  .help =
                      absl::StrCat("Container image with tethys in its PATH, as deploy/container/Dockerfile "
                                   "makes it. Default: ",
                                   kDefaultImage, ".")},
                 {.name = "data",
                  .value = "CLAIM",
                  .help = "Volume claim with the job's data. It is mounted read-only at the folder that all "
                          "data files of the job have in common."},
                 {.name = "results",
                  .value = "CLAIM",
                  .help =
                      "Volume claim for run directories, which all pods can mount. Without it, the results "
                      "vanish with the pods."},
                 {.name = "name", .value = "NAME", .help = "Name on the scheduler. Default: the job's name."},
                 SetFlag()},
       .examples =
           {"tethys manifest kubernetes examples/fashion_mnist_mirrored.textproto "
            "--image=registry.example.org/tethys:0.1.0 --data=datasets --results=runs | kubectl apply "
            "-f -",
            "tethys manifest slurm examples/fashion_mnist_ps_sync.textproto --set=workers=4 | sbatch"}},
      Manifest};
}

}  // namespace tethys
