#include "deploy/run/checkpoint_use.h"

#include <utility>

#include "deploy/flags/data_secrets.h"
#include "deploy/process/exit_status.h"
#include "deploy/run/role_process.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/cluster/host_file.h"
#include "runtime/data/class_names.h"
#include "runtime/job/job_file.h"
#include "workers/device_factory.h"

namespace tethys {
namespace {

// A static object, because replicas keep a reference to it.
const MonotonicClock kClock;

}  // namespace

std::vector<FlagSpec> CheckpointUseFlags(const std::string& splits) {
  FlagSpec libraries = CudaLibraryPathFlag();
  libraries.help =
      "With --device=cuda: folder of cuDNN and cuBLAS, for example the site-packages of a PyTorch. Default: "
      "the system's library path.";
  return {
      {.name = "checkpoint",
       .value = "DIR",
       .help =
           "A checkpoint (RUN_DIR/checkpoints/step-N), or a run directory, whose newest checkpoint is used.",
       .required = true},
      {.name = "split", .value = "NAME", .help = splits},
      {.name = "device",
       .value = "NAME",
       .help = "cpu (the default), or cuda: the first GPU, in the job's precision."},
      std::move(libraries),
      SecretsFlag(),
      SetFlag()};
}

absl::StatusOr<std::string> JobFileOf(const Flags& flags, const std::string& checkpoint) {
  if (!flags.arguments().empty()) return flags.arguments()[0];
  const std::string job_file = checkpoint + "/../../job.textproto";
  if (FileExists(job_file)) return job_file;
  return absl::InvalidArgumentError(absl::StrCat(
      "JOB is missing, and ", checkpoint, " lies in no run directory with a job.textproto: name a job file"));
}

absl::StatusOr<proto::Job> JobOf(const Flags& flags, const std::string& checkpoint) {
  TETHYS_ASSIGN_OR_RETURN(const std::string job_file, JobFileOf(flags, checkpoint));
  const std::vector<std::string> overrides = flags.GetAll("set");
  return flags.arguments().empty() ? LoadRunJob(job_file, overrides) : LoadJob(job_file, overrides);
}

absl::StatusOr<std::shared_ptr<const Dataset>> ChooseSplit(const Datasets& datasets,
                                                           const std::string& split) {
  std::shared_ptr<const Dataset> chosen;
  if (split == "test") {
    chosen = datasets.test;
  } else if (split == "validation") {
    chosen = datasets.validation;
  } else if (split == "train") {
    chosen = datasets.train;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("--split=", split, " must be test, validation or train"));
  }
  if (chosen != nullptr) return chosen;
  std::vector<std::string> others;
  for (const auto& [name, dataset] :
       {std::pair("validation", datasets.validation), {"test", datasets.test}, {"train", datasets.train}}) {
    if (dataset != nullptr) others.push_back(absl::StrCat("--split=", name));
  }
  return absl::InvalidArgumentError(absl::StrCat("the job's data have no ", split, " split: give ",
                                                 NamesText(others, "or"), ", or a job that has this split"));
}

absl::StatusOr<std::vector<std::string>> ClassNamesIn(const proto::ModelDescription& saved,
                                                      const proto::Job* job) {
  std::vector<std::string> names(saved.class_name().begin(), saved.class_name().end());
  if (static_cast<int64_t>(names.size()) == saved.classes() && !names.empty()) return names;
  if (job == nullptr) return std::vector<std::string>();
  TETHYS_ASSIGN_OR_RETURN(names, ClassNamesOf(job->data()));
  if (saved.has_model() && static_cast<int64_t>(names.size()) != saved.classes()) names.clear();
  return names;
}

int ExitStatusOf(const absl::Status& status) {
  const bool bad_input =
      absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsDataLoss(status);
  return bad_input ? kExitBadRequest : kExitFailed;
}

absl::StatusOr<ChosenDevice> ChooseDevice(const Flags& flags) {
  const absl::StatusOr<proto::Device::Kind> kind = ParseDeviceKind(flags.Get("device", "cpu"));
  if (!kind.ok()) return Annotate(kind.status(), "--device");
  return ChosenDevice{.kind = *kind, .cuda_library_path = flags.GetAll("cuda_library_path")};
}

absl::StatusOr<std::unique_ptr<Replica>> LoadReplica(const CheckpointReader& reader, const Model& model,
                                                     const ChosenDevice& chosen,
                                                     const proto::Device& settings, int64_t rows,
                                                     const InputScaling& scaling) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                          CreateDeviceOf(chosen.kind, settings, /*gpu=*/0, chosen.cuda_library_path));
  TETHYS_ASSIGN_OR_RETURN(
      std::unique_ptr<Replica> replica,
      Replica::Create(model, std::move(device), kClock, {.evaluation_rows = rows, .scaling = scaling}));
  TETHYS_RETURN_IF_ERROR(
      replica->FillPart(0, [&](absl::Span<float> values) { return reader.Read(0, 0, values); }));
  return replica;
}

}  // namespace tethys
