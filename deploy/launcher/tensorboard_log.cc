#include "deploy/launcher/tensorboard_log.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/types/optional.h"
#include "runtime/base/process.h"
#include "runtime/telemetry/csv_reader.h"

namespace tethys {
namespace {

struct Phase {
  const char* tag;
  const char* column;  // The column of steps.csv, in nanoseconds.
};
constexpr Phase kPhases[] = {{"step_us/data", "data_ns"},         {"step_us/forward", "forward_ns"},
                             {"step_us/backward", "backward_ns"}, {"step_us/exchange", "exchange_ns"},
                             {"step_us/update", "update_ns"},     {"step_us/total", "total_ns"}};

proto::Event EventAt(int64_t step, double wall_seconds) {
  proto::Event event;
  event.set_step(step);
  event.set_wall_time(wall_seconds);
  return event;
}

void AddScalar(const std::string& tag, double value, proto::Event& event) {
  proto::Scalars::Value& scalar = *event.mutable_summary()->add_value();
  scalar.set_tag(tag);
  scalar.set_simple_value(static_cast<float>(value));
}

using Accuracy = absl::optional<double>;

void AddQuality(const std::string& split, double loss, Accuracy accuracy, proto::Event& event) {
  AddScalar("loss/" + split, loss, event);
  if (accuracy.has_value()) AddScalar("accuracy/" + split, *accuracy, event);
}

}  // namespace

TensorboardLog::TensorboardLog(TensorboardOptions options, ProgressListener& next)
    : ForwardingListener(next), options_(std::move(options)) {
  absl::StatusOr<std::unique_ptr<EventFile>> file =
      EventFile::Create(options_.run_dir, options_.wall_seconds(), HostName());
  if (!file.ok()) {
    NoteFailure(file.status());
    return;
  }
  file_ = *std::move(file);
}

// Makes TensorBoard drop the points of earlier attempts beyond this step.
void TensorboardLog::BeginAt(int64_t step) {
  last_progress_step_ = step;
  proto::Event start = EventAt(step + 1, options_.wall_seconds());
  start.mutable_session_log()->set_status(proto::SessionLog::START);
  Write(start);
}

void TensorboardLog::OnEvent(const proto::ProgressEvent& event) {
  if (event.has_started() && options_.resumed) BeginAt(event.started().step());
  if (event.has_progress()) AddProgress(event.progress());
  if (event.has_epoch()) AddEpoch(event.epoch());
  next().OnEvent(event);
}

void TensorboardLog::AddProgress(const proto::Progress& progress) {
  const int64_t done = progress.epoch_samples_done();
  if (done == 0 || progress.step() == last_progress_step_) return;
  last_progress_step_ = progress.step();
  proto::Event event = EventAt(progress.step(), options_.wall_seconds());
  AddScalar("progress/loss", progress.loss(), event);
  if (progress.has_accuracy()) AddScalar("progress/accuracy", progress.accuracy(), event);
  AddScalar("progress/samples_per_second", progress.samples_per_second(), event);
  AddScalar("progress/learning_rate", options_.learning_rate(progress.epoch(), done), event);
  Write(event);
}

void TensorboardLog::AddEpoch(const proto::EpochResult& epoch) {
  const EpochEnd end = {epoch.step(), options_.wall_seconds()};
  epochs_[epoch.epoch()] = end;
  proto::Event event = EventAt(end.step, end.wall_seconds);
  AddQuality("train", epoch.train_loss(),
             epoch.has_train_accuracy() ? Accuracy(epoch.train_accuracy()) : absl::nullopt, event);
  if (epoch.validated()) {
    AddQuality("validation", epoch.validation_loss(),
               epoch.has_validation_accuracy() ? Accuracy(epoch.validation_accuracy()) : absl::nullopt,
               event);
    if (epoch.has_validation_mean_iou()) {
      AddScalar("mean_iou/validation", epoch.validation_mean_iou(), event);
    }
    AddScalar("epoch/validation_seconds", epoch.validation_seconds(), event);
  }
  AddScalar("epoch/learning_rate", options_.learning_rate(epoch.epoch(), 0), event);
  AddScalar("epoch/samples_per_second", epoch.samples_per_second(), event);
  AddScalar("epoch/train_seconds", epoch.train_seconds(), event);
  AddScalar("epoch/barrier_seconds", epoch.barrier_seconds(), event);
  Write(event);
}

void TensorboardLog::AddSteps(absl::string_view steps_csv) {
  for (CsvReader csv(steps_csv); csv.Next();) {
    const auto end = epochs_.find(csv.Integer("epoch") - 1);  // steps.csv counts epochs from 1.
    if (end == epochs_.end()) continue;
    end->second.phase_ns.resize(std::size(kPhases));
    for (size_t i = 0; i < std::size(kPhases); ++i) {
      end->second.phase_ns[i] += csv.Number(kPhases[i].column);
    }
    ++end->second.steps;
  }
}

void TensorboardLog::AddResults(const proto::RunSummary& summary) {
  AddPhases();
  if (!summary.has_test()) return;
  proto::Event event = EventAt(summary.steps(), options_.wall_seconds());
  const proto::Quality& test = summary.test();
  AddQuality("test", test.loss(), test.has_accuracy() ? Accuracy(test.accuracy()) : absl::nullopt, event);
  if (test.has_mean_iou()) AddScalar("mean_iou/test", test.mean_iou(), event);
  Write(event);
}

void TensorboardLog::AddPhases() {
  for (const auto& [epoch, end] : epochs_) {
    if (end.steps == 0) continue;
    proto::Event event = EventAt(end.step, end.wall_seconds);
    for (size_t i = 0; i < std::size(kPhases); ++i) {
      AddScalar(kPhases[i].tag, end.phase_ns[i] / 1e3 / static_cast<double>(end.steps), event);
    }
    Write(event);
  }
}

void TensorboardLog::Write(const proto::Event& event) {
  if (file_ == nullptr) return;
  const absl::Status written = file_->Append(event);
  if (!written.ok()) NoteFailure(written);
}

void TensorboardLog::NoteFailure(const absl::Status& status) {
  file_ = nullptr;
  proto::ProgressEvent event;
  event.set_note(absl::StrCat("the TensorBoard log of this run will be incomplete: ", StatusText(status)));
  next().OnEvent(event);
}

}  // namespace tethys
