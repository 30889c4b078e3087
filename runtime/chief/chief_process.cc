#include "runtime/chief/chief_process.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "runtime/base/append_queue.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/file.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/attempt_files.h"
#include "runtime/chief/attempts.h"
#include "runtime/chief/checkpoint_saver.h"
#include "runtime/chief/chief_server.h"
#include "runtime/chief/frozen_variables.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/chief/journal_check.h"
#include "runtime/chief/progress_pipe.h"
#include "runtime/chief/run_summary.h"
#include "runtime/chief/segment_planner.h"
#include "runtime/chief/starting_state.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/chief_files.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/resource_log.h"
#include "runtime/telemetry/resource_sampler.h"
#include "runtime/telemetry/summary.h"
#include "runtime/telemetry/timing_collector.h"

namespace tethys {
namespace {

constexpr Nanoseconds kTick = 100 * kMillisecond;
// The most bytes of the journal (about a million lines) that are kept in memory while the file cannot be
// written.
constexpr int64_t kMostUnwrittenBytes = int64_t{64} << 20;
constexpr size_t kMostFieldHead = 8;  // The most bytes of the tag and length before an embedded message.

class ChiefProcess final : public ChiefEvents {
 public:
  explicit ChiefProcess(const ChiefOptions& options)
      : options_(options), job_(options.plan.job()), progress_(options.progress_fd), loop_(clock_) {}

  absl::Status Run() {
    TETHYS_RETURN_IF_ERROR(progress_.Start());
    TETHYS_RETURN_IF_ERROR(ListDataFiles());
    TETHYS_RETURN_IF_ERROR(Open());
    TETHYS_ASSIGN_OR_RETURN(
        server_, ChiefServer::Start(options_.listen, {options_.token, options_.plan.job_id(), options_.tls},
                                    clock_, *this));
    proto::ProgressEvent event;
    event.mutable_listening()->set_address(server_->address());
    progress_.Add(event);
    loop_.Run(kTick, [this] {
      Step([this](Actions& actions) { controller_->OnTick(clock_.Now(), actions); });
      if (options_.interrupted && options_.interrupted()) {
        Step([this](Actions& actions) { controller_->OnInterrupt(clock_.Now(), actions); });
      }
      HandOnJournal();
      WarnOnce(journal_->TakeError());
      SampleResources();
    });
    return end_status_;
  }

  // ---- functions that gRPC's threads call
  absl::Status Admit(TaskId task, uint32_t incarnation) override {
    MutexLock lock(admission_mu_);
    return controller_->Admit(task, incarnation, clock_.Now());
  }
  void OnMessage(TaskId task, uint32_t incarnation, proto::FromTask message) override {
    const auto shared = std::make_shared<proto::FromTask>(std::move(message));
    PostStep([this, task, incarnation, shared](Actions& actions) {
      controller_->OnMessage(task, incarnation, *shared, clock_.Now(), actions);
    });
  }
  void OnGone(TaskId task, uint32_t incarnation) override {
    PostStep([this, task, incarnation](Actions& actions) {
      controller_->OnGone(task, incarnation, clock_.Now(), actions);
    });
  }
  absl::Status WriteChunk(int64_t save_id, int slot, int64_t begin, absl::Span<const float> values) override {
    return saver_->Write(save_id, slot, begin, values);
  }
  absl::Status ReadRange(int slot, int64_t begin, absl::Span<float> out) override {
    if (reader_ == nullptr) return absl::NotFoundError("this job starts from no checkpoint");
    return reader_->Read(slot, begin, out);
  }
  absl::Status ReadDataFile(const std::string& path, int64_t offset,
                            absl::FunctionRef<absl::Status(absl::string_view)> take) override {
    return data_files_.Read(path, offset, take);
  }

 private:
  absl::Status Open() {
    TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(options_.plan));
    TETHYS_ASSIGN_OR_RETURN(const VariableSet statistics, StatisticsOf(options_.plan));
    const std::vector<std::string> slots(options_.plan.slot().begin(), options_.plan.slot().end());
    const std::string checkpoints = absl::StrCat(options_.run_dir, "/checkpoints");
    TETHYS_RETURN_IF_ERROR(CreateDirectories(checkpoints));
    TETHYS_RETURN_IF_ERROR(RemoveStaleCheckpoints(checkpoints));
    TETHYS_ASSIGN_OR_RETURN(StartingState start,
                            FindStartingState(options_.plan, variables, slots, checkpoints, options_.resume));
    for (const std::string& note : start.notes) Note(note);
    for (const std::string& note : BeginCheckpoints(checkpoints, start)) Note(note);
    reader_ = std::move(start.reader);
    restores_slots_ = reader_ != nullptr && !start.initial;
    if (options_.resume) NoteEarlierAttempts(start.state);
    TETHYS_ASSIGN_OR_RETURN(
        timing_, TimingCollector::Open(options_.run_dir,
                                       {.workers = job_.workers(),
                                        .lock_step = !TraitsOf(job_).leases(),
                                        .state = start.state,
                                        .epoch_length = EpochLength(options_.plan),
                                        .finished = SegmentPlanner(options_.plan).Finished(start.state)}));
    if (job_.tuning().resources().interval_seconds() > 0) {
      TETHYS_ASSIGN_OR_RETURN(resources_, ResourceLog::Open(options_.run_dir, clock_.Now()));
    }
    TETHYS_ASSIGN_OR_RETURN(journal_file_, AppendFile::OpenLines(JournalPath()));
    TETHYS_RETURN_IF_ERROR(journal_file_->Append(
        journal::Attempt(start.state, EpochLength(options_.plan), job_.workers(),
                         ServersWithShards(options_.plan.placement()), StrategyName(job_))));
    journal_ = std::make_unique<AppendQueue>(
        AppendQueue::Options{.name = "the journal", .most_bytes = kMostUnwrittenBytes, .retry = true},
        [this](absl::string_view lines) { return journal_file_->Append(lines); });
    TETHYS_RETURN_IF_ERROR(journal_->Flush());  // Fails now if the queue cannot write.
    saver_ =
        std::make_unique<CheckpointSaver>(CheckpointSaver::Options{.root = checkpoints,
                                                                   .job_name = job_.name(),
                                                                   .variables = variables,
                                                                   .statistics = statistics,
                                                                   .slots = slots,
                                                                   .keep = job_.checkpoint().keep(),
                                                                   .write_frozen = FrozenWriter(variables)},
                                          clock_);
    TETHYS_RETURN_IF_ERROR(saver_->Start());
    controller_ = std::make_unique<JobController>(options_.plan, start.state, reader_ != nullptr,
                                                  StatisticsBook(job_.workers(), std::move(start.statistics)),
                                                  clock_.Now());
    if (restores_slots_) controller_->RequireScaling(reader_->manifest().description(), reader_->directory());
    return absl::OkStatus();
  }

  // Lists the files that workers will fetch from the chief. This takes as long as reading the files once;
  // meanwhile empty events show the launcher that the chief is alive.
  absl::Status ListDataFiles() {
    absl::StatusOr<ChiefFiles> listed = absl::InternalError("not listed");
    RunBeside(
        kTick, [&] { listed = ChiefFiles::List(job_.data()); },
        [this] { progress_.Add(proto::ProgressEvent()); });
    TETHYS_ASSIGN_OR_RETURN(data_files_, std::move(listed));
    size_t bytes = options_.plan.ByteSizeLong();
    for (const proto::ChiefFile& file : data_files_.files()) bytes += file.ByteSizeLong() + kMostFieldHead;
    if (bytes <= static_cast<size_t>(kMaxPlanBytes)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the names of the ", data_files_.files().size(),
        " files that the job reads from the chief (chief://) take, together with the plan, ", bytes,
        " bytes, but at most ", kMaxPlanBytes,
        " bytes can be sent: pack the samples into fewer files (tethys data convert --to=tfrecord)"));
  }

  // Returns the function that writes the frozen variables of a checkpoint. Null if the chief has none to
  // write: without servers, workers save all variables.
  std::function<absl::Status(CheckpointWriter&)> FrozenWriter(const VariableSet& variables) const {
    if (!TraitsOf(job_).servers() || variables.frozen().empty()) return nullptr;
    return [this, variables](CheckpointWriter& writer) {
      return WriteFrozenVariables(variables, job_.seed(), reader_.get(), options_.plan.slot_size(), writer);
    };
  }

  // Sets the earlier attempts in `state`. The last attempt has left a summary, unless the attempt's chief was
  // killed.
  void NoteEarlierAttempts(proto::TrainingState& state) const {
    const absl::StatusOr<proto::RunSummary> last = ReadSummary(options_.run_dir);
    *state.mutable_attempt() =
        EarlierAttempts(state, last.ok() ? absl::optional<proto::RunSummary>(*last) : absl::nullopt);
  }

  // Calls `event` under a lock. `event` calls the controller, which other threads also call, to admit tasks.
  // Then carries out the controller's actions, on the loop and without the lock.
  template <typename Event>
  void Step(const Event& event) {
    if (ended_) return;
    Actions actions;
    {
      MutexLock lock(admission_mu_);
      event(actions);
    }
    for (Action& action : actions) {
      absl::visit([this](auto& what) { this->Do(what); }, action);
    }
  }

  // May be called on any thread.
  template <typename Event>
  void PostStep(Event event) {
    loop_.Post([this, event = std::move(event)] { Step(event); });
  }

  void Do(SendOrder& action) {
    if (action.order.has_setup()) CompleteSetup(action.task.role, *action.order.mutable_setup());
    if (action.order.has_form()) SampleMachines(action.order.form().group());
    server_->Send(action.task, MemberIncarnation(action.task), action.order);
  }
  void Do(WriteJournal& action) { journal_buffer_ += action.line; }
  void Do(Report& action) {
    if (action.event.has_epoch()) WarnOnce(timing_->AddEpoch(action.event.epoch()));
    if (action.event.has_started()) {
      started_ = true;
      const auto begin = [this] { begun_ = BeginTraining(options_.run_dir, *timing_); };
      if (!beginner_.Start(begin).ok()) begin();
    }
    progress_.Add(action.event);
  }
  void Do(KeepRecords& action) {
    WarnOnce(timing_->Add(action.records, action.clock_offset, action.workers));
  }
  void Do(KeepResources& action) {
    if (resources_ == nullptr) return;
    const std::string process = TaskName(action.task.role, action.task.index);
    for (const proto::ResourceSample& sample : action.samples) {
      WarnOnce(resources_->Add(action.host, process, sample, action.clock_offset));
    }
  }
  void Do(OpenSave& action) {
    save_state_ = action.state;
    save_statistics_ = std::move(action.statistics);
    saver_->Open(action.id, action.state.step(), [this](const absl::Status& status) {
      PostStep([this, status](Actions& actions) { controller_->SaveOpened(status, clock_.Now(), actions); });
    });
  }
  void Do(CommitSave&) {
    // The samples that the checkpoint was trained on must be in the journal before the checkpoint is
    // committed.
    HandOnJournal();
    saver_->Commit(
        save_state_, DescribeModel(options_.plan, controller_->scaling()), save_statistics_,
        [this] {
          const absl::Status kept = journal_->Flush();
          return kept.ok() ? journal_file_->Sync() : kept;
        },
        [this](const CheckpointSaver::Committed& committed) {
          if (!committed.pruned.ok()) TETHYS_LOG(Error, StatusText(committed.pruned));
          loop_.Post([this, pruned = committed.pruned] { WarnOnce(pruned); });
          PostStep([this, committed](Actions& actions) {
            controller_->SaveCommitted(committed.status, committed.directory, clock_.Now(), actions);
          });
        });
  }
  void Do(AbandonSave&) { saver_->Abandon(); }
  void Do(EndJob& action) {
    ended_ = true;
    HandOnJournal();
    // Conclude waits for the disk and may read a long journal. This can take longer than the launcher
    // tolerates silence, so empty events show the launcher meanwhile that the chief is alive.
    RunBeside(
        kTick, [&] { end_status_ = Conclude(action.status); },
        [this] { progress_.Add(proto::ProgressEvent()); });
    proto::ProgressEvent event;
    proto::Finished& finished = *event.mutable_finished();
    finished.set_ok(end_status_.ok());
    finished.set_error(std::string(end_status_.message()));
    finished.set_status_code(static_cast<int>(end_status_.code()));
    if (action.culprit.role != proto::ROLE_UNKNOWN) {
      finished.set_culprit(TaskName(action.culprit.role, action.culprit.index));
    }
    progress_.Add(event);
    loop_.Stop();
  }

  // The task's current incarnation, to which orders are sent.
  uint32_t MemberIncarnation(TaskId task) {
    MutexLock lock(admission_mu_);
    return controller_->incarnation(task);
  }

  // Completes the files of the run. Called while the loop handles no event. Returns how the job ended.
  absl::Status Conclude(absl::Status status) {
    const absl::Status kept = journal_->Flush();
    // Warns of a write error that a later write has overcome: the job may have ended before the loop could
    // warn.
    if (const absl::Status overcome = journal_->TakeError(); kept.ok()) WarnOnce(overcome);
    beginner_.Join();
    WarnOnce(begun_);
    WarnOnce(timing_->Flush());
    FinishResources();
    proto::RunSummary summary = SummaryOfPlan(options_.plan);
    if (status.ok()) status = kept.ok() ? CheckJournal(summary) : kept;
    const absl::Status written = WriteTheSummary(status, summary);
    return status.ok() ? written : status;
  }

  // Checks in the journal's file that every sample was used exactly once. A journal that cannot be read is no
  // evidence against the run, so the only consequence is a warning.
  absl::Status CheckJournal(proto::RunSummary& summary) {
    const absl::StatusOr<journal::CheckResult> result = journal::CheckFile(JournalPath());
    if (result.ok()) {
      summary.set_journal_check("passed");
      Note(absl::StrCat("checked the journal: ", result->samples, " samples, each used exactly once",
                        ShardingOf(options_.plan) == proto::Data::OFF ? " by each worker" : ""));
      return absl::OkStatus();
    }
    if (absl::IsDataLoss(result.status())) {
      summary.set_journal_check("failed");
      return result.status();
    }
    summary.set_journal_check(absl::StrCat("not made: ", result.status().message()));
    Note(absl::StrCat("warning: the journal was not checked: ", result.status().message()));
    return absl::OkStatus();
  }

  std::string SummaryPath() const { return absl::StrCat(options_.run_dir, "/", kSummaryFile); }

  absl::Status WriteTheSummary(const absl::Status& status, proto::RunSummary& summary) {
    // An attempt that never trained changed nothing in the run that it resumed, so the old summary stays.
    if (!started_ && FileExists(SummaryPath())) return absl::OkStatus();
    bool interrupted = false;
    double epochs_done = 0;
    {
      MutexLock lock(admission_mu_);
      epochs_done = controller_->epochs_done();
      interrupted = controller_->interrupted() && absl::IsCancelled(status);
      controller_->FillSummary(clock_.Now(), summary);
      timing_->FillSummary(controller_->training_seconds(), summary);
    }
    summary.set_status(status.ok() ? "succeeded" : interrupted ? "interrupted" : "failed");
    if (resources_ != nullptr) resources_->FillSummary(summary);
    FillCost(job_.price_per_hour(), epochs_done, summary);
    if (!status.ok() && !interrupted && !summary.has_first_failure()) {
      summary.mutable_first_failure()->set_role("chief");
      summary.mutable_first_failure()->set_message(std::string(status.message()));
    }
    return WriteSummary(options_.run_dir, summary);
  }

  // Adds the chief's host and, for workers, the chief's data files to a Setup order.
  void CompleteSetup(proto::Role role, proto::Setup& setup) {
    setup.set_chief_host(host_);
    if (role == proto::WORKER) {
      setup.mutable_chief_file()->Assign(data_files_.files().begin(), data_files_.files().end());
    }
    setup.set_restore_slots(restores_slots_);
  }

  // The first group has all members and thereby all machines, so sampling begins with it.
  void SampleMachines(const proto::Group& group) {
    if (resources_ == nullptr || sampler_ != nullptr) return;
    std::set<std::string> hosts = {host_};
    for (const proto::Member& member : group.member()) hosts.insert(member.host());
    resources_->SetMachines({hosts.begin(), hosts.end()});
    sampler_ = std::make_unique<ResourceSampler>(
        clock_,
        ResourceSampler::Options{.interval = FromSeconds(job_.tuning().resources().interval_seconds()),
                                 .machine = true,
                                 .loopback = hosts.size() == 1});
  }

  // Samples the chief's own process and its machine. The lines are queued for writing each time, so that few
  // are missing if the chief is killed.
  void SampleResources() {
    if (sampler_ == nullptr || ended_) return;
    ResourceSampler::Samples samples;
    sampler_->Collect(samples);
    if (samples.empty()) return;
    controller_->AddChiefSamples(host_, samples);
    KeepOwn(samples);
    WarnOnce(resources_->HandOn());
  }
  void FinishResources() {
    if (sampler_ == nullptr) return;
    ResourceSampler::Samples samples;
    sampler_->CollectLast(samples);
    KeepOwn(samples);
    WarnOnce(resources_->Flush());
  }
  void KeepOwn(const ResourceSampler::Samples& samples) {
    for (const proto::ResourceSample& sample : samples) {
      WarnOnce(resources_->Add(host_, "chief", sample, 0));
    }
  }

  std::string JournalPath() const { return absl::StrCat(options_.run_dir, "/", journal::kFileName); }

  // Passes all journal lines so far to the thread that writes the journal's file.
  void HandOnJournal() {
    journal_->Append(journal_buffer_);
    journal_buffer_.clear();
  }

  // Reports a write error, which does not end the training. The user sees only the first error. The thread on
  // which the error occurred has logged it already.
  void WarnOnce(const absl::Status& status) {
    if (status.ok() || !warnings_.insert(StatusText(status)).second) return;
    if (warnings_.size() == 1) Note(absl::StrCat("warning: ", status.message()));
  }

  void Note(const std::string& text) {
    proto::ProgressEvent event;
    event.set_note(text);
    progress_.Add(event);
  }

  const ChiefOptions& options_;
  const proto::Job& job_;
  const MonotonicClock clock_;
  const std::string host_ = options_.host.empty() ? HostName() : options_.host;
  std::unique_ptr<CheckpointReader> reader_;  // Null: the job starts with random values.
  ChiefFiles data_files_;
  bool restores_slots_ = false;
  ProgressPipe progress_;

  Mutex admission_mu_;
  std::unique_ptr<JobController> controller_;

  // The members below are used on the loop only.
  EventLoop loop_;
  std::unique_ptr<TimingCollector> timing_;
  std::unique_ptr<ResourceLog> resources_;    // Null if nothing is sampled.
  std::unique_ptr<ResourceSampler> sampler_;  // Null before the first Form.
  // journal_'s thread appends to the file; saver_'s thread syncs the file.
  std::unique_ptr<AppendFile> journal_file_;
  std::unique_ptr<AppendQueue> journal_;
  std::string journal_buffer_;
  proto::TrainingState save_state_;
  MovingStatistics save_statistics_;
  std::set<std::string> warnings_;
  bool started_ = false;  // True once training has begun.
  absl::Status begun_;    // Result of BeginTraining; read after beginner_ has ended.
  Thread beginner_;       // Runs BeginTraining.
  bool ended_ = false;
  absl::Status end_status_;

  std::unique_ptr<CheckpointSaver> saver_;  // Its thread syncs the journal.
  std::unique_ptr<ChiefServer> server_;     // Declared last: its threads call into all of the above.
};

}  // namespace

absl::Status RunChief(const ChiefOptions& options) { return ChiefProcess(options).Run(); }

}  // namespace tethys
