// Makes the runs of an experiment: `tethys compare` and `tethys study` list variants, and RunExperiment runs
// them in blocks (deploy/experiment/run_schedule.h). Every run has a directory of its own, NAME-rBLOCK. A run
// that other programs disturbed is made again; the less disturbed one of these two runs counts, and the more
// disturbed one is kept as NAME-rBLOCK.aside. Blocking; thread-compatible.
#ifndef TETHYS_DEPLOY_EXPERIMENT_EXPERIMENT_RUN_H_
#define TETHYS_DEPLOY_EXPERIMENT_EXPERIMENT_RUN_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/experiment/run_schedule.h"
#include "deploy/flags/flags.h"
#include "deploy/report/run_means.h"
#include "deploy/run/job_run.h"

namespace tethys {

struct ExperimentVariant {
  std::string name;  // Unique; begins the names of the directories of this variant's runs.
  proto::Job job;    // The resolved job. In block i it runs with its seed plus i.
  // `file`, `set` and `varied`: where the job comes from, for messages (WithPlace in runtime/job/job_file.h).
  std::string file;
  std::vector<std::string> set;
  std::vector<std::string> varied;
  std::string hostfile;  // Empty: the file of --hostfile, if given.
  // PrepareExperiment sets the members below.
  proto::JobPlan plan;
  Places places;
  absl::optional<proto::Expectation> expectation = {};
};

struct Experiment {
  std::vector<ExperimentVariant> variants;
  ScheduleOptions schedule;  // All options of the schedule but `variants`, which RunExperiment sets.
  // A run is repeated if other programs used a larger share of the CPU; 1: no run is repeated.
  double most_others_cpu = 0.2;
  // After the last block, a variant runs again while half of the confidence interval of its mean training
  // time is wider than this share of the mean (VariantsNotWithin), up to `most_repeats` blocks. 0: no run is
  // added.
  double until = 0;
  int most_repeats = 20;
  // The options of every run; the places in them are replaced by the places of the variant.
  JobRunOptions options;
  bool resume = false;  // Keeps successful runs of the interrupted command with the same build and job.
  std::string ssh_config;
  std::string again;  // The command that resumes the experiment (ResumeCommand).
};

// A run that was made or kept.
struct MadeRun {
  RunRecord record;
  int order = 0;           // Position in the order of execution, from 1.
  double start = 0;        // Seconds since 1970; 0: not known.
  double seconds = 0;      // The length of the run, start-up and end included; 0: not known.
  bool put_aside = false;  // True if another run counts in place of this run.
};
struct ExperimentResults {
  std::vector<MadeRun> runs;
  int missing = 0;  // The number of runs that were not started.

  std::vector<RunRecord> Counted() const;  // The runs that were not put aside.
};

// Plans all jobs and finds places for their processes. Each set of data is checked once. InvalidArgument: a
// job is wrong, or two variants have one name.
absl::Status PrepareExperiment(const Flags& flags, const CommandSpec& spec, Experiment& experiment);

// The predicted seconds of all `runs` together; a run is given by the index of its variant. nullopt: a
// variant has no prediction.
absl::optional<double> PredictedSeconds(const Experiment& experiment, const std::vector<int>& runs);

// Makes the runs in `directory`, with progress on standard output. A run that fails is recorded, and the
// other runs are still made; an interrupt, during a run or between two runs, ends the experiment. Writes
// runs.csv after every run.
ExperimentResults RunExperiment(const Experiment& experiment, const std::string& directory);

// The lines of runs.csv.
std::string RunsCsv(const Experiment& experiment, const ExperimentResults& results);
// A table of the runs, with the share of the CPU that other programs used; `width`: as in text.h.
std::string RunsTable(const Experiment& experiment, const ExperimentResults& results, int width);

// The mean training times of the variants so far, the shortest first, as text. Empty: no run has succeeded.
std::string StandingText(const Experiment& experiment, const ExperimentResults& results);

// Returns `flags` with the common flags of compare and study added: hosts, display, resume, run_dir and the
// bound on other programs' CPU.
std::vector<FlagSpec> WithExperimentFlags(std::vector<FlagSpec> flags);
// Sets `experiment` from the flags that WithExperimentFlags adds. A given flag replaces the value in
// `experiment`.
absl::Status ReadExperimentFlags(const Flags& flags, Experiment& experiment);

// Checks that the directory `path` does not contain the file `result` yet or, with --resume, that `path`
// exists.
absl::Status CheckExperimentPlace(const Flags& flags, const std::string& path, const std::string& result);
// The given command, changed to continue the experiment in `path`: "tethys VERB ... --resume --run_dir=PATH".
std::string ResumeCommand(const std::string& verb, const Flags& flags, const std::string& path);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_EXPERIMENT_EXPERIMENT_RUN_H_
