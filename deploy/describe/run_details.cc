#include "deploy/describe/run_details.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/describe/quality_text.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/live/progress_file.h"
#include "deploy/report/loss_text.h"
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/csv_reader.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr size_t kMostHosts = 8;     // The most hosts listed by name; further hosts are counted.
constexpr size_t kMostAttempts = 8;  // The most earlier attempts that have lines of their own.
constexpr size_t kMostLosses = 8;    // The most lines on lost workers and new groups.
constexpr int kWidth = 110;
constexpr int64_t kRecordBytes = 1 << 18;  // The number of bytes that are read at the end of steps.csv.

bool HoldsRun(const std::string& path) { return FileExists(path + "/job.textproto"); }

// Collects from the events of a run how its attempts ended. An attempt begins when its chief listens. When
// the attempt ends, the chief reports the result if it still can. If the attempt did not succeed, the
// launcher then reports how the user can continue the run. If an attempt fails before its chief listens, only
// the launcher reports.
class AttemptEnds {
 public:
  void Add(const proto::ProgressEvent& event) {
    if (event.has_listening()) Begin();
    if (event.has_progress()) step_ = event.progress().step();
    if (event.has_epoch()) step_ = std::max(step_, event.epoch().step());
    if (!event.has_finished()) return;
    const bool reported = finished_.has_value() && !finished_->go_on().empty();
    if (reported) Begin();
    finished_ = event.finished();
    begun_ = true;
  }
  // A text for each attempt except the last one: how the attempt ended.
  const std::vector<std::string>& earlier() const { return earlier_; }

 private:
  void Begin() {
    if (begun_) earlier_.push_back(Text());
    finished_.reset();
    step_ = 0;
    begun_ = true;
  }
  std::string Text() const {
    if (!finished_.has_value()) {
      return absl::StrCat("ended ", step_ > 0 ? absl::StrCat("after step ", CountText(step_), " ") : "",
                          "without reporting a result: it was killed, or its machine went down");
    }
    if (finished_->error().empty()) return "trained to its end";
    return finished_->error().substr(0, finished_->error().find('\n'));
  }

  bool begun_ = false;
  int64_t step_ = 0;                               // The last step of the attempt, as far as the events say.
  absl::optional<proto::Finished> finished_ = {};  // The last report on the end of the attempt.
  std::vector<std::string> earlier_;
};

// Sets `progress` to the end of an epoch, unless `progress` already has a later step.
void AddEpoch(const proto::EpochResult& epoch, absl::optional<proto::Progress>& progress) {
  if (progress.has_value() && progress->step() > epoch.step()) return;
  if (!progress.has_value()) progress.emplace();
  progress->set_epoch(epoch.epoch() + 1);
  progress->set_epoch_samples_done(0);
  progress->set_step(epoch.step());
}

// Reads how the earlier attempts ended and, unless the run has a summary, the latest events of its last
// attempt.
void ReadEvents(const std::string& path, RunDetails& run) {
  const bool running = run.listed.state == RunState::kRunning;
  const bool latest = !run.summary.has_value();
  AttemptEnds ends;
  std::vector<std::string> losses;  // Lines on the workers lost in the attempt whose events are being read.
  const auto forget = [&run] {
    run.progress.reset();
    run.pulse.reset();
  };
  const auto restart = [&] {
    forget();
    ends = AttemptEnds();
    run.losses.clear();
    losses.clear();
  };
  ProgressReader reader(path);
  const absl::Status read = reader.ReadNew(restart, [&](const proto::ProgressEvent& event) {
    ends.Add(event);
    // The summary covers only the attempt that started last. So workers that earlier attempts lost are kept
    // in run.losses.
    if (event.has_started()) {
      run.losses.insert(run.losses.end(), losses.begin(), losses.end());
      losses.clear();
    }
    if (event.has_task_lost()) losses.push_back(event.task_lost().reason());
    if (!latest) return;
    if (event.has_listening()) forget();
    if (event.has_progress()) run.progress = event.progress();
    if (event.has_epoch()) AddEpoch(event.epoch(), run.progress);
    if (event.has_pulse()) run.pulse = event.pulse();
  });
  run.earlier = ends.earlier();
  if (latest) run.losses.insert(run.losses.end(), losses.begin(), losses.end());
  if (running && !read.ok()) run.listed.problem = std::string(read.message());
}

// `size` bytes of an open file, from `offset` on; empty if they cannot be read.
std::string BytesOf(const FileDescriptor& file, int64_t offset, int64_t size) {
  std::string text(size, '\0');
  return ReadFullyAt(file.get(), text.data(), size, offset, "steps.csv").ok() ? text : "";
}

// The number of the newest step in steps.csv, counted from 1; 0: there is no record. Reads the header and the
// end of the file, which contains the newest records of every worker.
int64_t LastRecordedStep(const std::string& path) {
  const FileDescriptor file(open((path + "/steps.csv").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0) return 0;
  const int64_t size = std::min<int64_t>(facts.st_size, kRecordBytes);
  const std::string head = BytesOf(file, 0, size);
  const std::string tail = BytesOf(file, facts.st_size - size, size);
  // Leaves out the incomplete line at the beginning of the tail, and the incomplete line that a killed run
  // may have left at the end.
  const size_t begin = tail.find('\n'), end = tail.rfind('\n');
  if (begin == std::string::npos) return 0;
  const std::string lines =
      absl::StrCat(head.substr(0, head.find('\n')), tail.substr(begin, end + 1 - begin));
  int64_t last = 0;
  for (CsvReader csv(lines); csv.Next();) last = std::max(last, csv.Integer("step") + 1);
  return last;
}

// Builds the text line by line: "strategy    ps_sync, 3 workers".
class Lines {
 public:
  // Does nothing if `text` is empty.
  void Add(const std::string& name, const std::string& text) {
    if (!text.empty()) absl::StrAppend(&text_, WrapBeside(name, text, kIndent, kWidth));
  }
  // Like Add, but keeps the command at the end of `text` (": tethys ...") on one line, so that users can copy
  // the command.
  void AddCommand(const std::string& name, const std::string& text) {
    const size_t colon = text.rfind(": tethys ");
    const std::string command = colon == std::string::npos ? "" : text.substr(colon + 2);
    if (absl::StrContains(WrapBeside(name, text, kIndent, kWidth), command)) return Add(name, text);
    Add(name, text.substr(0, colon + 1));
    absl::StrAppend(&text_, std::string(kIndent, ' '), command, "\n");
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr int kIndent = 12;
  std::string text_;
};

std::string StateText(const RunDetails& run) {
  std::string text = RunStateText(run.listed.state);
  if (run.launcher.has_value()) {
    absl::StrAppend(&text, ", by process ", run.launcher->process, " on ", run.launcher->host);
  }
  if (run.summary.has_value() && run.summary->stopped_early()) absl::StrAppend(&text, ", stopped early");
  return text;
}

// Adds a line for each of the newest earlier attempts, and a line with the number of older attempts.
void AddEarlier(const RunDetails& run, Lines& lines) {
  const size_t left_out = run.earlier.size() - std::min(run.earlier.size(), kMostAttempts);
  if (left_out > 0)
    lines.Add("earlier", absl::StrCat(PluralText(left_out, "attempt"), " before the attempts below"));
  for (size_t i = left_out; i < run.earlier.size(); ++i) lines.Add("earlier", run.earlier[i]);
}

// Adds the workers that the last attempt lost, and the groups that the remaining workers then formed.
void AddLosses(const proto::RunSummary& summary, Lines& lines) {
  lines.Add("losses", LossText(summary));
  const std::vector<std::string> all = LossLines(summary);
  for (size_t i = 0; i < std::min(all.size(), kMostLosses); ++i) lines.Add("", all[i]);
  if (all.size() > kMostLosses)
    lines.Add("", absl::StrCat(all.size() - kMostLosses, " more in summary.json"));
}

// Adds the lost workers that the run's events report and the summary does not.
void AddToldLosses(const RunDetails& run, Lines& lines) {
  const size_t lost = run.losses.size();
  if (lost == 0) return;
  const std::string what = LostText(static_cast<int64_t>(lost));
  lines.Add("losses", run.summary.has_value() ? absl::StrCat(what, " in earlier attempts") : what);
  for (size_t i = 0; i < std::min(lost, kMostLosses); ++i) lines.Add("", run.losses[i]);
  if (lost > kMostLosses) lines.Add("", absl::StrCat(lost - kMostLosses, " more in the events of the run"));
}

std::string ShapeText(const proto::Job& job) {
  return absl::StrCat(ShapeList(ShapeOf(job)), ", global batch ", CountText(GlobalBatch(job)));
}

std::string TimeLine(const proto::RunSummary& summary) {
  const proto::Timing& timing = summary.timing();
  if (timing.total_seconds() <= 0) return "";
  std::string text = absl::StrCat(TimeText(timing.total_seconds()), " in all");
  if (timing.training_seconds() > 0) {
    absl::StrAppend(&text, ", ", TimeText(timing.training_seconds()), " of training");
  }
  if (const std::string attempts = AttemptsText(summary); !attempts.empty()) {
    absl::StrAppend(&text, ", ", attempts);
  }
  return text;
}

// The step that the shown progress has reached; 0: not known.
int64_t ReportedStep(const RunDetails& run) {
  if (run.summary.has_value()) return run.summary->steps();
  return run.progress.has_value() ? run.progress->step() : 0;
}

std::string ReportedProgress(const RunDetails& run) {
  if (run.summary.has_value()) {
    return absl::StrCat(PluralText(run.summary->epochs(), "epoch"), ", ",
                        PluralText(run.summary->steps(), "step"));
  }
  if (!run.progress.has_value())
    return run.listed.state == RunState::kRunning ? "has not begun to train" : "";
  const proto::Progress& progress = *run.progress;
  const int64_t epochs = run.job.has_value() ? run.job->epochs() : 0;
  // True if all epochs are trained, so that only the evaluation of the test samples and the last checkpoint
  // are left.
  const bool trained = epochs > 0 && progress.epoch() >= epochs;
  std::string text = absl::StrCat("epoch ", trained ? epochs : progress.epoch() + 1);
  if (epochs > 0) absl::StrAppend(&text, " of ", epochs);
  if (trained) {
    absl::StrAppend(&text, ", complete");
  } else if (progress.epoch_samples() > 0) {
    const double share = static_cast<double>(progress.epoch_samples_done()) / progress.epoch_samples();
    absl::StrAppendFormat(&text, ", of which %.0f %% is done", 100 * share);
  }
  absl::StrAppend(&text, ", step ", CountText(progress.step()));
  if (progress.eta_seconds() > 0 && run.listed.state == RunState::kRunning)
    absl::StrAppend(&text, ", about ", DurationText(progress.eta_seconds()), " left");
  return text;
}

// The reported progress and, if steps.csv has a newer step, the number of this step.
std::string ProgressText(const RunDetails& run) {
  const std::string text = ReportedProgress(run);
  if (run.recorded <= ReportedStep(run)) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ", "the newest record in steps.csv is of step ",
                      CountText(run.recorded));
}

std::string RateText(const RunDetails& run) {
  const double rate = run.summary.has_value()    ? run.summary->timing().samples_per_second()
                      : run.progress.has_value() ? run.progress->samples_per_second()
                                                 : 0;
  return rate > 0 ? absl::StrFormat("%s samples/s", CountText(static_cast<int64_t>(rate))) : "";
}

std::string QualityLine(const RunDetails& run) {
  if (run.summary.has_value()) {
    if (run.summary->has_test()) return "test " + QualityText(run.summary->test());
    if (run.summary->has_validation()) return "validation " + QualityText(run.summary->validation());
    return run.summary->has_train() ? "training " + QualityText(run.summary->train()) : "";
  }
  if (!run.progress.has_value() || run.progress->epoch_samples_done() == 0) return "";
  proto::Quality quality;
  if (run.progress->has_accuracy()) quality.set_accuracy(run.progress->accuracy());
  quality.set_loss(run.progress->loss());
  return absl::StrCat("training ", QualityText(quality), " in this epoch");
}

// Every known host with its processes: "slave1 (worker 0, ps 0), slave2 (worker 1)".
std::string HostsText(const RunDetails& run) {
  std::vector<std::string> hosts;  // Hosts in the order of their first process.
  std::map<std::string, std::vector<std::string>> tasks;
  const auto add = [&](const auto& task) {
    if (task.host().empty()) return;
    std::vector<std::string>& there = tasks[task.host()];
    if (there.empty()) hosts.push_back(task.host());
    there.push_back(absl::StrCat(task.role(), " ", task.index()));
  };
  if (run.summary.has_value()) {
    for (const proto::TaskSummary& task : run.summary->task()) add(task);
  } else if (run.pulse.has_value()) {
    for (const proto::TaskPulse& task : run.pulse->task()) add(task);
  }
  std::vector<std::string> parts;
  for (const std::string& host : hosts) {
    if (parts.size() == kMostHosts) break;
    parts.push_back(absl::StrCat(host, " (", absl::StrJoin(tasks[host], ", "), ")"));
  }
  const size_t more = hosts.size() - parts.size();
  return absl::StrCat(absl::StrJoin(parts, ", "), more > 0 ? absl::StrCat(", and ", more, " more") : "");
}

}  // namespace

absl::Status CheckHoldsRun(const std::string& path) {
  if (HoldsRun(path)) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  TETHYS_RETURN_IF_ERROR(names.status());
  const auto inside = std::find_if(names->begin(), names->end(), [&](const std::string& name) {
    return HoldsRun(absl::StrCat(path, "/", name));
  });
  return absl::NotFoundError(absl::StrCat(
      path, " contains no run: there is no job.textproto in it",
      inside == names->end() ? "" : absl::StrCat("; name a run inside, such as ", path, "/", *inside)));
}

absl::StatusOr<RunDetails> ReadRunDetails(const std::string& path) {
  TETHYS_RETURN_IF_ERROR(CheckHoldsRun(path));
  RunDetails run{.listed = DescribeRun(path, path)};
  if (const absl::StatusOr<proto::Job> job = LoadRunJob(path + "/job.textproto", {}); job.ok())
    run.job = *job;
  if (run.listed.state == RunState::kRunning) {
    const absl::StatusOr<absl::optional<LauncherName>> launcher = RunDirectory::Launcher(path);
    if (launcher.ok()) run.launcher = *launcher;
  } else if (const absl::StatusOr<proto::RunSummary> summary = ReadSummary(path); summary.ok()) {
    run.summary = *summary;
  }
  // If a run that has ended had only one attempt, its events need not be read.
  if (!run.summary.has_value() || run.summary->attempt_size() > 1) ReadEvents(path, run);
  const bool ended = run.listed.state == RunState::kFailed || run.listed.state == RunState::kUnfinished;
  if (ended) run.ending = EndingOf(path, run.summary);
  // Each worker of a job without lock step counts its own steps, so steps.csv has no newest step of the job.
  const bool lock_step = run.job.has_value() && TraitsOf(*run.job).lock_step;
  if (ended && lock_step) run.recorded = LastRecordedStep(path);
  const auto checkpoints = ListCheckpoints(path + "/checkpoints");
  if (checkpoints.ok() && !checkpoints->empty()) run.checkpoint = checkpoints->back().step;
  return run;
}

std::string RunDetailsText(const RunDetails& run) {
  Lines lines;
  lines.Add("run", run.listed.name);
  lines.Add("state", StateText(run));
  lines.Add("problem", run.listed.problem);
  lines.Add("ended", run.ending.text);
  AddEarlier(run, lines);
  if (run.job.has_value()) {
    lines.Add("job", run.job->name());
    lines.Add("strategy", ShapeText(*run.job));
  }
  lines.Add("started", TimeOfDayText(run.listed.started));
  if (run.summary.has_value()) lines.Add("time", TimeLine(*run.summary));
  lines.Add("progress", ProgressText(run));
  if (run.summary.has_value()) AddLosses(*run.summary, lines);
  AddToldLosses(run, lines);
  lines.Add("throughput", RateText(run));
  lines.Add("quality", QualityLine(run));
  if (run.summary.has_value() && run.summary->has_cost()) lines.Add("cost", CostText(run.summary->cost()));
  lines.Add("hosts", HostsText(run));
  if (run.checkpoint.has_value())
    lines.Add("checkpoint", absl::StrCat("of step ", CountText(*run.checkpoint)));
  lines.Add("size", BytesText(run.listed.bytes));
  lines.AddCommand("next", run.ending.go_on);
  return lines.text();
}

}  // namespace tethys
