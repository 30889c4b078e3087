// Forwards a run's progress to the next listener and writes it into an event file in the run directory, which
// TensorBoard can show during the run (`tensorboard --logdir=runs`). The horizontal axis counts updates of
// the parameters.
//
//   loss/train, accuracy/train            per epoch, as in epochs.csv; validation likewise
//   loss/test, accuracy/test              once, at the end
//   epoch/learning_rate                   per epoch: the learning rate of its first update
//   epoch/samples_per_second, train_seconds, barrier_seconds, validation_seconds
//                                         per epoch
//   step_us/data, forward, backward, exchange, update, total
//                                         per epoch, after the run: mean per step and worker
//   progress/loss, accuracy, samples_per_second, learning_rate
//                                         during training; the first three cover the epoch so far
//
// Thread-compatible; blocks as writing to a file does. If the file cannot be written, the user gets a note
// and the run continues.
#ifndef TETHYS_DEPLOY_LAUNCHER_TENSORBOARD_LOG_H_
#define TETHYS_DEPLOY_LAUNCHER_TENSORBOARD_LOG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deploy/launcher/launcher.h"
#include "proto/event.pb.h"
#include "proto/summary.pb.h"
#include "runtime/telemetry/event_file.h"

namespace tethys {

struct TensorboardOptions {
  std::string run_dir = {};
  bool resumed = false;                       // True if earlier attempts may have event files.
  std::function<double()> wall_seconds = {};  // Returns the seconds since 1970.
  // The learning rate of the update at a position in an epoch's samples.
  std::function<double(int64_t epoch, int64_t position)> learning_rate = {};
};

class TensorboardLog final : public ForwardingListener {
 public:
  TensorboardLog(TensorboardOptions options, ProgressListener& next);

  void OnEvent(const proto::ProgressEvent& event) override;

  // Whether an epoch has ended in this attempt, so that AddSteps is needed.
  bool needs_steps() const { return !epochs_.empty(); }
  // Called after the attempt, once for each part of steps.csv: lines with the header before them.
  void AddSteps(absl::string_view steps_csv);
  // Called after AddSteps: adds the test results and the mean times of a step's phases.
  void AddResults(const proto::RunSummary& summary);

 private:
  struct EpochEnd {
    int64_t step = 0;
    double wall_seconds = 0;
    std::vector<double> phase_ns =
        {};  // The sum over `steps` of each phase's time; empty: no step was added.
    int64_t steps = 0;
  };

  void Write(const proto::Event& event);
  void BeginAt(int64_t step);
  void AddProgress(const proto::Progress& progress);
  void AddEpoch(const proto::EpochResult& epoch);
  void AddPhases();
  void NoteFailure(const absl::Status& status);

  const TensorboardOptions options_;
  std::unique_ptr<EventFile> file_;     // Null after a failed write.
  std::map<int64_t, EpochEnd> epochs_;  // The epochs that ended in this attempt, by number from 0.
  // The step of the last progress; in a resumed run, at first the step from which it resumes.
  int64_t last_progress_step_ = -1;
};

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LAUNCHER_TENSORBOARD_LOG_H_
