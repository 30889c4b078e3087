#include "runtime/chief/resource_recorder.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"
#include "runtime/cluster/job_plan.h"

namespace tethys {
namespace {

std::string PathIn(const std::string& run_dir) { return absl::StrCat(run_dir, "/", kResourcesCsvFile); }

}  // namespace

ResourceRecorder::ResourceRecorder(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

int64_t ResourceRecorder::FileLength(const std::string& run_dir) {
  return FileBytes(PathIn(run_dir)).value_or(0);
}

absl::Status ResourceRecorder::Open() {
  if (options_.interval == 0) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(log_, ResourceLog::Open(options_.run_dir, options_.begin));
  return absl::OkStatus();
}

absl::Status ResourceRecorder::Reopen(int64_t bytes) {
  const std::string path = PathIn(options_.run_dir);
  if (FileExists(path) && truncate(path.c_str(), bytes) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot shorten ", path));
  }
  return Open();
}

absl::Status ResourceRecorder::Save(proto::ResourceRecorderState& state) const {
  if (log_ == nullptr) return absl::OkStatus();
  for (const std::string& host : hosts_) state.add_host(host);
  return log_->Save(*state.mutable_log());
}

absl::Status ResourceRecorder::Restore(const proto::ResourceRecorderState& state) {
  if (state.has_log() != (options_.interval > 0)) {
    return absl::InvalidArgumentError("the state was saved with another interval between resource samples");
  }
  if (!state.has_log()) return absl::OkStatus();
  TETHYS_ASSIGN_OR_RETURN(log_, ResourceLog::Restore(options_.run_dir, options_.begin, state.log()));
  hosts_ = {state.host().begin(), state.host().end()};
  StartSampling();
  return absl::OkStatus();
}

void ResourceRecorder::Begin(const proto::Group& group) {
  if (log_ == nullptr || sampler_ != nullptr) return;
  hosts_ = {options_.host};
  for (const proto::Member& member : group.member()) hosts_.insert(member.host());
  log_->SetMachines({hosts_.begin(), hosts_.end()});
  StartSampling();
}

void ResourceRecorder::StartSampling() {
  if (hosts_.empty()) return;
  sampler_ = std::make_unique<ResourceSampler>(
      clock_, ResourceSampler::Options{
                  .interval = options_.interval, .machine = true, .loopback = hosts_.size() == 1});
}

ResourceRecorder::Samples ResourceRecorder::Collect() {
  Samples samples;
  if (sampler_ != nullptr) sampler_->Collect(samples);
  return samples;
}

absl::Status ResourceRecorder::AddOwn(const Samples& samples) {
  if (log_ == nullptr) return absl::OkStatus();
  absl::Status status;
  for (const proto::ResourceSample& sample : samples) {
    status.Update(log_->Add(options_.host, "chief", sample, 0));
  }
  // Each call queues its lines for writing, so that few lines are missing from the file if the chief is
  // killed.
  status.Update(log_->HandOn());
  return status;
}

absl::Status ResourceRecorder::Add(const KeepResources& samples) {
  if (log_ == nullptr) return absl::OkStatus();
  absl::Status status;
  const std::string process = TaskName(samples.task.role, samples.task.index);
  for (const proto::ResourceSample& sample : samples.samples) {
    status.Update(log_->Add(samples.host, process, sample, samples.clock_offset));
  }
  return status;
}

absl::Status ResourceRecorder::Finish() {
  if (sampler_ == nullptr) return absl::OkStatus();
  Samples samples;
  sampler_->CollectLast(samples);
  absl::Status status = AddOwn(samples);
  status.Update(log_->Flush());
  return status;
}

void ResourceRecorder::FillSummary(proto::RunSummary& summary) const {
  if (log_ != nullptr) log_->FillSummary(summary);
}

}  // namespace tethys
