#include "deploy/describe/run_details.h"

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
#include "deploy/shape_words.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/job/job.h"
#include "runtime/job/job_file.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr size_t kMostHosts = 8;     // The most hosts listed by name; further hosts are counted.
constexpr size_t kMostAttempts = 8;  // The most earlier attempts that have lines of their own.
constexpr int kWidth = 110;

bool HoldsRun(const std::string& path) { return FileExists(path + "/job.textproto"); }

// Collects from the events of a run how its attempts ended. An attempt begins when its chief listens. At its
// end, the chief reports a result, if it can, and then the launcher reports how to go on, if the attempt did
// not succeed. An attempt that fails before its chief listens has the launcher's report alone.
class AttemptEnds {
 public:
  void Add(const proto::ProgressEvent& event) {
    if (event.has_listening()) Begin();
    if (event.has_progress()) step_ = event.progress().step();
    if (!event.has_finished()) return;
    const bool reported = finished_.has_value() && !finished_->go_on().empty();
    if (reported) Begin();
    finished_ = event.finished();
    begun_ = true;
  }
  // How all attempts but the last one ended.
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

// Reads how the earlier attempts ended and, while the run goes on, the latest events of the current attempt.
void ReadEvents(const std::string& path, RunDetails& run) {
  const bool running = run.listed.state == RunState::kRunning;
  AttemptEnds ends;
  const auto forget = [&run] {
    run.progress.reset();
    run.pulse.reset();
  };
  const auto restart = [&] {
    forget();
    ends = AttemptEnds();
  };
  ProgressReader reader(path);
  const absl::Status read = reader.ReadNew(restart, [&](const proto::ProgressEvent& event) {
    ends.Add(event);
    if (!running) return;
    if (event.has_listening()) forget();
    if (event.has_progress()) run.progress = event.progress();
    if (event.has_pulse()) run.pulse = event.pulse();
  });
  run.earlier = ends.earlier();
  if (running && !read.ok()) run.listed.problem = std::string(read.message());
}

// Builds the text line by line: "strategy    ps_sync, 3 workers".
class Lines {
 public:
  // Does nothing if `text` is empty.
  void Add(const std::string& name, const std::string& text) {
    if (!text.empty()) absl::StrAppend(&text_, WrapBeside(name, text, kIndent, kWidth));
  }
  // Like Add, but does not break the command at the end of `text`, ": tethys ...", which people copy.
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
  if (summary.attempt_size() > 1) absl::StrAppend(&text, ", over ", summary.attempt_size(), " attempts");
  return text;
}

std::string ProgressText(const RunDetails& run) {
  if (run.summary.has_value()) {
    return absl::StrCat(PluralText(run.summary->epochs(), "epoch"), ", ",
                        PluralText(run.summary->steps(), "step"));
  }
  if (!run.progress.has_value())
    return run.listed.state == RunState::kRunning ? "has not begun to train" : "";
  const proto::Progress& progress = *run.progress;
  const int64_t epochs = run.job.has_value() ? run.job->epochs() : 0;
  // All epochs are trained; only the test and the last checkpoint are left.
  const bool trained = epochs > 0 && progress.epoch() >= epochs;
  std::string text = absl::StrCat("epoch ", trained ? epochs : progress.epoch() + 1);
  if (epochs > 0) absl::StrAppend(&text, " of ", epochs);
  if (trained) {
    absl::StrAppend(&text, ", complete");
  } else if (progress.epoch_samples() > 0) {
    const double share = static_cast<double>(progress.epoch_samples_done()) / progress.epoch_samples();
    absl::StrAppendFormat(&text, ", %.0f %% done", 100 * share);
  }
  absl::StrAppend(&text, ", step ", CountText(progress.step()));
  if (progress.eta_seconds() > 0)
    absl::StrAppend(&text, ", about ", DurationText(progress.eta_seconds()), " left");
  return text;
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
