#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "deploy/command/verbs.h"
#include "deploy/model_files/weights_file.h"
#include "deploy/run/job_run.h"
#include "deploy/text.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/job/job_file.h"
#include "runtime/nn/model.h"

namespace tethys {
namespace {

constexpr size_t kMostNamed = 5;

struct Request {
  TorchWeightsFile file;
  proto::JobPlan plan;
  Model model;
  std::vector<TorchTensor> tensors;
  std::vector<std::string> except;
  std::string prefix = {};  // Tensors have this prefix in the file, but not in the model.
};

bool IsExcepted(const std::vector<std::string>& except, const std::string& name) {
  return std::any_of(except.begin(), except.end(),
                     [&name](const std::string& part) { return absl::StartsWith(name, part); });
}

absl::StatusOr<Request> PrepareRequest(const Flags& flags) {
  const std::string& job_file = flags.arguments()[0];
  TETHYS_ASSIGN_OR_RETURN(TorchWeightsFile file, TorchWeightsFile::Open(flags.Get("weights")));
  TETHYS_ASSIGN_OR_RETURN(proto::Job job, LoadJob(job_file, flags.GetAll("set")));
  job.clear_initial();
  absl::StatusOr<proto::JobPlan> plan = PrepareJob(job, /*needs_scaling=*/true);
  if (!plan.ok()) return WithPlace(plan.status(), job_file, flags.GetAll("set"));
  const Shape sample_shape(plan->sample_shape().begin(), plan->sample_shape().end());
  TETHYS_ASSIGN_OR_RETURN(Model model, Model::Create(job.model(), sample_shape, job.data().classes()));
  TETHYS_ASSIGN_OR_RETURN(std::vector<TorchTensor> tensors, TorchTensorsOf(job.model(), model));
  const std::string root = flags.Get("out");
  TETHYS_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> there, ListCheckpoints(root));
  if (!there.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat(there.front().path,
                     " exists: remove this directory, or name another directory by "
                     "--out"));
  }
  Request request{std::move(file), *std::move(plan), std::move(model), std::move(tensors),
                  flags.GetAll("except")};
  std::vector<std::string> wanted;
  for (const TorchTensor& tensor : request.tensors) {
    if (!IsExcepted(request.except, tensor.name)) wanted.push_back(tensor.name);
  }
  request.prefix = request.file.DropPrefix(wanted);
  return request;
}

// A line that names the tensors of the file that the model does not have; empty if there are none. Leaves out
// PyTorch's counts of batches (num_batches_tracked), which no model of Tethys uses.
std::string UnusedText(const Request& request) {
  std::set<std::string> used;
  for (const TorchTensor& tensor : request.tensors) used.insert(tensor.name);
  std::vector<std::string> unused;
  for (const SafetensorsEntry& entry : request.file.entries()) {
    const bool counts = absl::EndsWith(entry.name, ".num_batches_tracked");
    if (!counts && used.count(entry.name) == 0) unused.push_back(entry.name);
  }
  if (unused.empty()) return "";
  const size_t count = unused.size();
  unused.resize(std::min(count, kMostNamed));
  return absl::StrCat("left out ", PluralText(static_cast<int64_t>(count), "tensor"),
                      " that the model does not have: ", absl::StrJoin(unused, ", "),
                      count > kMostNamed ? ", ..." : "", "\n");
}

absl::Status WriteCheckpoint(const Request& request, const std::string& root) {
  const Model& model = request.model;
  TETHYS_ASSIGN_OR_RETURN(
      const std::unique_ptr<CheckpointWriter> writer,
      CheckpointWriter::Create(root, 0, model.variables(), {}, request.plan.job().name()));
  SavedStatistics statistics{.set = model.statistics()};
  statistics.values.mean.resize(model.statistics().arena_size());
  for (const TorchTensor& tensor : request.tensors) {
    const Range& range = tensor.variable.range;
    std::vector<float> values(range.count);
    if (IsExcepted(request.except, tensor.name)) {
      const VariableSet& set = tensor.statistic ? model.statistics() : model.variables();
      set.FillInitialValues(request.plan.job().seed(), range, values.data());
    } else {
      TETHYS_ASSIGN_OR_RETURN(values, request.file.Read(tensor));
    }
    if (tensor.statistic) {
      std::copy(values.begin(), values.end(), statistics.values.mean.begin() + range.begin);
    } else {
      TETHYS_RETURN_IF_ERROR(writer->Write(0, range.begin, values));
    }
  }
  proto::TrainingState state;
  state.set_seed(request.plan.job().seed());
  state.set_train_samples(request.plan.train_samples());
  return writer->Commit(state, DescribeModel(request.plan, request.plan.scaling()), statistics);
}

int Import(const Flags& flags) {
  const absl::StatusOr<Request> request = PrepareRequest(flags);
  if (!request.ok()) return Fail("import", request.status(), kExitBadRequest);
  const std::string root = flags.Get("out");
  const absl::Status written = WriteCheckpoint(*request, root);
  if (!written.ok()) {
    const bool bad = absl::IsInvalidArgument(written) || absl::IsNotFound(written);
    return Fail("import", written, bad ? kExitBadRequest : kExitFailed);
  }
  if (!request->prefix.empty()) {
    std::printf("left out the prefix '%s' of the names in the file\n", request->prefix.c_str());
  }
  std::printf("%s%s/step-0: %s of %s; to start a job from these values, use --set=initial.checkpoint=%s\n",
              UnusedText(*request).c_str(), root.c_str(),
              PluralText(request->model.variables().element_count(), "parameter").c_str(),
              flags.Get("weights").c_str(), root.c_str());
  return kExitSuccess;
}

}  // namespace

Command ImportCommand() {
  return {
      {.verb = "import",
       .summary = "Makes a checkpoint from weights that PyTorch has saved.",
       .description =
           "Reads a safetensors file of weights with PyTorch's names and layouts, as "
           "safetensors.torch.save_file(model.state_dict(), FILE) writes it. Writes a checkpoint of the "
           "job's model. The checkpoint can be evaluated or exported, and a job can start from it (initial "
           "{ checkpoint }). The file must have every variable of the model, in the same shape, except "
           "variables that --except names. A prefix that all names have, such as module. of "
           "DistributedDataParallel, is removed. Weights become float32; float16 and bfloat16 are widened.",
       .argument = "JOB",
       .flags = {{.name = "weights",
                  .value = "FILE",
                  .help = "The safetensors file.",
                  .required = true,
                  .is_input = true},
                 {.name = "out",
                  .value = "DIR",
                  .help = "Directory in which the checkpoint is written, as DIR/step-0.",
                  .required = true},
                 {.name = "except",
                  .value = "PREFIX",
                  .help = "Tensors whose names begin with PREFIX, for example fc., are not read; their "
                          "variables get random values.",
                  .repeated = true},
                 SetFlag()},
       .examples = {"tethys import job.textproto --weights=resnet18.safetensors --out=imported"}},
      Import};
}

}  // namespace tethys
