#include "runtime/chief/run_recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/chief/attempt_files.h"
#include "runtime/chief/journal.h"

namespace tethys {
namespace {

std::string JournalPath(const std::string& run_dir) { return absl::StrCat(run_dir, "/", journal::kFileName); }

}  // namespace

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Begin(const Options& options, const Clock& clock,
                                                                proto::LogBegin& begin) {
  std::unique_ptr<RunRecorder> recorder(new RunRecorder(options.run_dir));
  TETHYS_ASSIGN_OR_RETURN(recorder->journal_,
                          JournalWriter::Begin(JournalPath(options.run_dir), options.attempt));
  begin.set_journal_bytes(recorder->journal_->begin());
  begin.set_resources_bytes(ResourceRecorder::FileLength(options.run_dir));
  TETHYS_ASSIGN_OR_RETURN(recorder->timing_, TimingCollector::Open(options.run_dir, options.timing));
  recorder->resources_ = std::make_unique<ResourceRecorder>(options.resources, clock);
  TETHYS_RETURN_IF_ERROR(recorder->resources_->Open());
  return recorder;
}

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::Continue(const Options& options, const Clock& clock,
                                                                   const proto::LogBegin& begin) {
  std::unique_ptr<RunRecorder> recorder(new RunRecorder(options.run_dir));
  const std::string path = JournalPath(options.run_dir);
  recorder->resources_ = std::make_unique<ResourceRecorder>(options.resources, clock);
  if (!begin.has_snapshot()) {
    TETHYS_ASSIGN_OR_RETURN(recorder->journal_, JournalWriter::Continue(path, begin.journal_bytes()));
    TETHYS_ASSIGN_OR_RETURN(recorder->timing_, TimingCollector::Open(options.run_dir, options.timing));
    TETHYS_RETURN_IF_ERROR(recorder->resources_->Reopen(begin.resources_bytes()));
    return recorder;
  }
  const proto::RunRecorderState& state = begin.snapshot().recorder();
  TETHYS_ASSIGN_OR_RETURN(recorder->journal_, JournalWriter::Restore(path, state.journal()));
  TETHYS_ASSIGN_OR_RETURN(recorder->timing_,
                          TimingCollector::Restore(options.run_dir, options.timing, state.timing()));
  TETHYS_RETURN_IF_ERROR(recorder->resources_->Restore(state.resources()));
  recorder->training_ = true;
  recorder->has_begun_.store(true);
  return recorder;
}

absl::Status RunRecorder::Save(proto::RunRecorderState& state) {
  if (!has_begun_.load()) return absl::UnavailableError("training has begun only now");
  TETHYS_RETURN_IF_ERROR(journal_->Save(*state.mutable_journal()));
  TETHYS_RETURN_IF_ERROR(timing_->Save(*state.mutable_timing()));
  return resources_->Save(*state.mutable_resources());
}

void RunRecorder::BeginTraining() {
  training_ = true;
  const auto begin = [this] {
    begun_ = tethys::BeginTraining(run_dir_, *timing_);
    has_begun_.store(true);
  };
  if (!beginner_.Start(begin).ok()) begin();
}

absl::Status RunRecorder::EndBeginning() {
  beginner_.Join();
  return begun_;
}

}  // namespace tethys
