#include "runtime/chief/chief_process.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/variant.h"
#include "proto/chief_log.pb.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/file.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/model_description.h"
#include "runtime/chief/attempt_files.h"
#include "runtime/chief/chief_input.h"
#include "runtime/chief/chief_log.h"
#include "runtime/chief/chief_server.h"
#include "runtime/chief/frozen_variables.h"
#include "runtime/chief/job_controller.h"
#include "runtime/chief/journal.h"
#include "runtime/chief/logged_controller.h"
#include "runtime/chief/progress_pipe.h"
#include "runtime/chief/run_recorder.h"
#include "runtime/chief/run_summary.h"
#include "runtime/chief/save_executor.h"
#include "runtime/chief/saved_values.h"
#include "runtime/chief/segment_planner.h"
#include "runtime/chief/starting_state.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/cluster/sample_order.h"
#include "runtime/data/chief_files.h"
#include "runtime/job/job.h"
#include "runtime/shape/job_shape.h"
#include "runtime/telemetry/summary.h"

namespace tethys {
namespace {

constexpr Nanoseconds kTick = 100 * kMillisecond;
// The largest number of bytes that the tag and the length before an embedded message can take.
constexpr size_t kMostFieldHead = 8;

// Checks that an order with the plan and `files`, the files that workers read from the chief, can be sent.
absl::Status CheckPlanFits(const proto::JobPlan& plan, const std::vector<proto::ChiefFile>& files) {
  size_t bytes = plan.ByteSizeLong();
  for (const proto::ChiefFile& file : files) bytes += file.ByteSizeLong() + kMostFieldHead;
  if (bytes <= static_cast<size_t>(kMaxPlanBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the names of the ", files.size(),
      " files that the job reads from the chief (chief://) take, together "
      "with the plan, ",
      bytes, " bytes, but at most ", kMaxPlanBytes,
      " bytes can be sent: pack the samples into fewer files (tethys data convert --to=tfrecord)"));
}

// The number of inputs after which a process that takes over waits for the tables of steps and epochs,
// because lines that find the queue of a table full are lost.
constexpr int64_t kRepeatedAtOnce = 1024;

std::string LogIn(const std::string& run_dir) { return absl::StrCat(run_dir, "/", ChiefLog::kFileName); }

class ChiefProcess final : public ChiefEvents {
 public:
  explicit ChiefProcess(const ChiefOptions& options)
      : options_(options), job_(options.plan.job()), progress_(options.progress_fd), loop_(clock_) {}

  absl::Status Run() {
    TETHYS_RETURN_IF_ERROR(progress_.Start());
    TETHYS_RETURN_IF_ERROR(ListDataFiles());
    server_ = ChiefServer::Create({options_.token, options_.plan.job_id(), options_.tls}, options_.keeps_log,
                                  clock_, *this);
    // Both wait for files. Meanwhile the chief sends empty events, which show the launcher that it is alive.
    absl::Status begun;
    RunBeside(
        kTick, [&] { begun = options_.takes_over ? TakeOver() : Begin(); },
        [this] { progress_.Add(proto::ProgressEvent()); });
    TETHYS_RETURN_IF_ERROR(begun);
    TETHYS_RETURN_IF_ERROR(server_->Listen(options_.listen));
    if (!options_.takes_over) {
      proto::ProgressEvent event;
      event.mutable_listening()->set_address(server_->address());
      progress_.Add(event);
    }
    proto::ChiefRecord tick, interrupt;
    tick.set_tick(true);
    interrupt.set_interrupt(true);
    loop_.Run(kTick, [&] {
      Step(tick);
      if (options_.interrupted && options_.interrupted()) Step(interrupt);
      recorder_->journal().HandOn();
      WarnOnce(recorder_->journal().TakeError());
      SampleResources();
      TakeSnapshot();
    });
    return end_status_;
  }

  // ---- functions that gRPC's threads call
  absl::Status Admit(TaskId task, uint32_t incarnation) override {
    proto::ChiefRecord record = AdmitInput(task, incarnation);
    Actions none;
    return controller_->Give(record, none);
  }
  absl::StatusOr<int64_t> Resume(TaskId task, uint32_t incarnation) override {
    return controller_->MessagesOf(task, incarnation);
  }
  void OnMessage(TaskId task, uint32_t incarnation, proto::FromTask message) override {
    PostStep(MessageInput(task, incarnation, std::move(message)));
  }
  void OnGone(TaskId task, uint32_t incarnation) override { PostStep(GoneInput(task, incarnation)); }
  absl::Status WriteChunk(int64_t save_id, int slot, int64_t begin, absl::Span<const float> values) override {
    return saves_->saver().Write(save_id, slot, begin, values);
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
  // Begins an attempt.
  absl::Status Begin() {
    TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(options_.plan));
    const std::string checkpoints = CheckpointsPath();
    TETHYS_RETURN_IF_ERROR(CreateDirectories(checkpoints));
    TETHYS_RETURN_IF_ERROR(RemoveStaleCheckpoints(checkpoints));
    TETHYS_ASSIGN_OR_RETURN(StartingState start, FindStartingState(options_.plan, variables, SlotNames(),
                                                                   checkpoints, options_.resume));
    for (const std::string& note : start.notes) Note(note);
    for (const std::string& note : BeginCheckpoints(checkpoints, start)) Note(note);
    if (options_.resume) NoteEarlierAttempts(options_.run_dir, start.state);
    first_.set_now_ns(clock_.Now());
    *first_.mutable_begin() = DescribeStart(options_.plan, start);
    TETHYS_ASSIGN_OR_RETURN(
        recorder_, RunRecorder::Begin(RecorderOptions(start.state), clock_, *first_.mutable_begin()));
    TETHYS_RETURN_IF_ERROR(Open(variables, std::move(start)));
    if (!options_.keeps_log) return ChiefLog::Remove(LogPath());
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<ChiefLog> log, ChiefLog::Create(LogPath()));
    log->Append(first_);
    controller_->Log(std::move(log));
    return absl::OkStatus();
  }

  // Goes on with the attempt of a chief whose process has ended: at its beginning or, if the log begins with
  // a snapshot, at the snapshot.
  absl::Status TakeOver() {
    std::vector<proto::ChiefRecord> records;
    TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<ChiefLog> log, ChiefLog::Continue(LogPath(), records));
    if (records.empty()) return absl::DataLossError(absl::StrCat(LogPath(), " has no records"));
    first_ = records[0];
    TETHYS_ASSIGN_OR_RETURN(const VariableSet variables, VariablesOf(options_.plan));
    TETHYS_RETURN_IF_ERROR(RemoveStaleCheckpoints(CheckpointsPath()));
    TETHYS_ASSIGN_OR_RETURN(StartingState start,
                            FindStartAgain(options_.plan, variables, SlotNames(), first_.begin()));
    TETHYS_ASSIGN_OR_RETURN(recorder_,
                            RunRecorder::Continue(RecorderOptions(start.state), clock_, first_.begin()));
    TETHYS_RETURN_IF_ERROR(Open(variables, std::move(start)));
    first_.mutable_begin()->clear_snapshot();
    TETHYS_RETURN_IF_ERROR(Repeat(records));
    controller_->Log(std::move(log));
    proto::ChiefRecord took_over;
    took_over.set_took_over(true);
    Step(took_over);
    return absl::OkStatus();
  }

  // Gives the recorded inputs to the controller again. Of the actions, those are left out whose effects
  // outlived the lost chief.
  absl::Status Repeat(const std::vector<proto::ChiefRecord>& records) {
    saves_->BeginRepeat();
    int64_t repeated = 0;
    for (const proto::ChiefRecord& record : records) {
      if (ended_) break;
      if (record.has_save_opened() || record.has_save_committed()) saves_->Answered();
      Actions actions;
      controller_->Repeat(record, actions);
      Follow(record, actions);
      recorder_->journal().HandOn();
      TETHYS_RETURN_IF_ERROR(recorder_->journal().CheckRepeated(/*all=*/false));
      if (++repeated % kRepeatedAtOnce == 0) WarnOnce(recorder_->timing().Flush());
    }
    TETHYS_RETURN_IF_ERROR(recorder_->journal().CheckRepeated(/*all=*/true));
    saves_->EndRepeat(Model());
    return absl::OkStatus();
  }

  // The step of the checkpoint from which the attempt goes on, if a process that takes over needs it.
  absl::optional<int64_t> StartingStep(const StartingState& start) const {
    const bool needed = options_.keeps_log && restores_slots_;
    return needed ? absl::optional<int64_t>(start.state.step()) : absl::nullopt;
  }

  // What the attempt, which begins in `state`, records. first_ has the time at which the attempt began.
  RunRecorder::Options RecorderOptions(const proto::TrainingState& state) const {
    return {.run_dir = options_.run_dir,
            .attempt = journal::Attempt(state, EpochLength(options_.plan), job_.workers(),
                                        ServersWithShards(options_.plan.placement()), StrategyName(job_)),
            .timing = {.workers = job_.workers(),
                       .lock_step = !TraitsOf(job_).leases(),
                       .state = state,
                       .epoch_length = EpochLength(options_.plan),
                       .finished = SegmentPlanner(options_.plan).Finished(state)},
            .resources = {.run_dir = options_.run_dir,
                          .host = host_,
                          .interval = FromSeconds(job_.tuning().resources().interval_seconds()),
                          .begin = first_.now_ns()}};
  }

  // Opens what is left to open of the attempt that first_ describes.
  absl::Status Open(const VariableSet& variables, StartingState start) {
    TETHYS_ASSIGN_OR_RETURN(const VariableSet statistics, StatisticsOf(options_.plan));
    reader_ = std::move(start.reader);
    restores_slots_ = reader_ != nullptr && !start.initial;
    saves_ = std::make_unique<SaveExecutor>(
        SaveExecutor::Options{
            .saver = {.root = CheckpointsPath(),
                      .job_name = job_.name(),
                      .variables = variables,
                      .statistics = statistics,
                      .slots = SlotNames(),
                      .keep = job_.checkpoint().keep(),
                      .needed = StartingStep(start),
                      .write_frozen = FrozenWriter(variables)},
            .sync_journal = [this] { return recorder_->journal().Sync(); },
            .answer = [this](proto::ChiefRecord input) { PostStep(std::move(input)); },
            .pruned =
                [this](const absl::Status& status) { loop_.Post([this, status] { WarnOnce(status); }); }},
        clock_);
    TETHYS_RETURN_IF_ERROR(saves_->Start());
    if (first_.begin().has_snapshot()) return Restore(first_.begin().snapshot());
    auto controller = std::make_unique<JobController>(
        options_.plan, start.state, reader_ != nullptr,
        StatisticsBook(job_.workers(), std::move(start.statistics)), first_.now_ns());
    if (restores_slots_) controller->RequireScaling(reader_->manifest().description(), reader_->directory());
    controller_ = std::make_unique<LoggedController>(std::move(controller), host_, clock_);
    return absl::OkStatus();
  }

  // Lets a new log, which begins with a snapshot of this process, replace a log that has become long. The
  // snapshot has everything that repeating the inputs so far would change.
  void TakeSnapshot() {
    if (ended_ || !controller_->SnapshotDue()) return;
    proto::ChiefRecord record = first_;
    proto::ChiefSnapshot& snapshot = *record.mutable_begin()->mutable_snapshot();
    // While many lines wait for the disk there is no snapshot; the next tick tries again.
    if (!recorder_->Save(*snapshot.mutable_recorder()).ok()) return;
    server_->Save(*snapshot.mutable_server());
    snapshot.set_events(events_);
    progress_.Save(*snapshot.mutable_unwritten());
    if (const absl::Status status = controller_->BeginNewLog(record); !status.ok()) {
      TETHYS_LOG(Warning, "the log of the chief's inputs goes on without a snapshot: ", StatusText(status));
    }
  }

  // Restores everything but the recorder.
  absl::Status Restore(const proto::ChiefSnapshot& snapshot) {
    TETHYS_ASSIGN_OR_RETURN(controller_,
                            LoggedController::Restore(options_.plan, snapshot.controller(), host_, clock_));
    TETHYS_RETURN_IF_ERROR(server_->Restore(snapshot.server()));
    events_ = snapshot.events();
    for (const proto::ProgressEvent& event : snapshot.unwritten()) {
      if (event.number() > options_.after_event) progress_.Add(event);
    }
    return absl::OkStatus();
  }

  // Lists the files that workers will fetch from the chief. Listing takes as long as reading the files once.
  // Meanwhile the chief sends empty events, which show the launcher that the chief is alive.
  absl::Status ListDataFiles() {
    absl::StatusOr<ChiefFiles> listed = absl::InternalError("not listed");
    RunBeside(
        kTick, [&] { listed = ChiefFiles::List(job_.data()); },
        [this] { progress_.Add(proto::ProgressEvent()); });
    TETHYS_ASSIGN_OR_RETURN(data_files_, std::move(listed));
    return CheckPlanFits(options_.plan, data_files_.files());
  }

  // Returns the function that writes the frozen variables of a checkpoint. Null if the chief has none to
  // write: without servers, workers save all variables.
  std::function<absl::Status(CheckpointWriter&)> FrozenWriter(const VariableSet& variables) const {
    if (!TraitsOf(job_).servers() || variables.frozen().empty()) return nullptr;
    return [this, variables](CheckpointWriter& writer) {
      return WriteFrozenVariables(variables, job_.seed(), reader_.get(), options_.plan.slot_size(), writer);
    };
  }

  // Gives the controller an input of this moment, and then carries out the controller's actions. Must be
  // called on the loop, or before the loop runs.
  void Step(proto::ChiefRecord record) {
    if (ended_) return;
    Actions actions;
    controller_->Give(record, actions).IgnoreError();
    Follow(record, actions);
  }

  // Carries out the actions that follow from an input.
  void Follow(const proto::ChiefRecord& record, Actions& actions) {
    if (record.has_samples()) WarnOnce(recorder_->resources().AddOwn(record.samples().sample()));
    if (const proto::TaskInput& input = record.message(); input.message().has_heartbeat()) {
      server_->OrdersReceived(TaskOf(input.task()), input.incarnation(),
                              input.message().heartbeat().orders_received());
    }
    for (Action& action : actions) {
      absl::visit([this](auto& what) { this->Do(what); }, action);
    }
  }

  // May be called on any thread.
  void PostStep(proto::ChiefRecord record) {
    const auto shared = std::make_shared<proto::ChiefRecord>(std::move(record));
    loop_.Post([this, shared] { Step(std::move(*shared)); });
  }

  void Do(SendOrder& action) {
    if (action.order.has_setup()) CompleteSetup(action.task.role, *action.order.mutable_setup());
    if (action.order.has_form()) recorder_->resources().Begin(action.order.form().group());
    const uint32_t incarnation = controller_->Complete(action);
    server_->Send(action.task, incarnation, action.order);
  }
  void Do(WriteJournal& action) { recorder_->journal().Add(action.line); }
  void Do(Report& action) {
    action.event.set_number(++events_);
    if (action.event.has_epoch()) WarnOnce(recorder_->timing().AddEpoch(action.event.epoch()));
    if (action.event.has_started()) recorder_->BeginTraining();
    if (events_ > options_.after_event) progress_.Add(action.event);
  }
  void Do(KeepRecords& action) {
    WarnOnce(recorder_->timing().Add(action.records, action.clock_offset, action.workers));
  }
  void Do(KeepResources& action) { WarnOnce(recorder_->resources().Add(action)); }
  void Do(OpenSave& action) { saves_->Open(std::move(action)); }
  void Do(CommitSave&) {
    // The samples that the checkpoint was trained on must be in the journal before the checkpoint is
    // committed.
    recorder_->journal().HandOn();
    saves_->Commit(Model());
  }
  void Do(AbandonSave&) { saves_->Abandon(); }
  void Do(EndJob& action) {
    ended_ = true;
    recorder_->journal().HandOn();
    // Conclude waits for the disk and may read a long journal. The launcher takes a chief that sends no
    // events for too long to be dead, so the chief sends empty events meanwhile.
    RunBeside(
        kTick, [&] { end_status_ = Conclude(action.status); },
        [this] { progress_.Add(proto::ProgressEvent()); });
    progress_.Add(FinishedEvent(end_status_, action.culprit));
    loop_.Stop();
  }

  // Completes the files of the run. Called while the loop handles no event. Returns how the job ended.
  absl::Status Conclude(absl::Status status) {
    const absl::Status kept = recorder_->journal().Flush();
    // If a write failed and was later repeated with success, only a warning is due. The loop may not have
    // given this warning yet, because the job ended first.
    if (const absl::Status overcome = recorder_->journal().TakeError(); kept.ok()) WarnOnce(overcome);
    WarnOnce(recorder_->EndBeginning());
    WarnOnce(recorder_->timing().Flush());
    WarnOnce(recorder_->resources().Finish());
    proto::RunSummary summary = SummaryOfPlan(options_.plan);
    if (status.ok() && !kept.ok()) status = kept;
    if (std::string note; status.ok()) {
      status = CheckJournal(JournalPath(), options_.plan, summary, note);
      if (!note.empty()) Note(note);
    }
    const absl::Status written = WriteTheSummary(status, summary);
    return status.ok() ? written : status;
  }

  absl::Status WriteTheSummary(const absl::Status& status, proto::RunSummary& summary) {
    // An attempt that never trained changed nothing in the run that it resumed, so the old summary stays.
    if (!recorder_->training() && FileExists(absl::StrCat(options_.run_dir, "/", kSummaryFile)))
      return absl::OkStatus();
    bool interrupted = false;
    double epochs_done = 0;
    controller_->Read([&](const JobController& controller) {
      epochs_done = controller.epochs_done();
      interrupted = controller.course().interrupted() && absl::IsCancelled(status);
      controller.FillSummary(clock_.Now(), summary);
      recorder_->timing().FillSummary(controller.training_seconds(), summary);
    });
    recorder_->resources().FillSummary(summary);
    FillCost(job_.price_per_hour(), epochs_done, summary);
    FillResult(status, interrupted, summary);
    return WriteSummary(options_.run_dir, summary);
  }

  // The description of the model for checkpoints.
  proto::ModelDescription Model() {
    proto::InputScaling scaling;
    controller_->Read([&](const JobController& controller) { scaling = controller.scaling(); });
    return DescribeModel(options_.plan, scaling);
  }

  // Adds the chief's host and, for workers, the chief's data files to a Setup order.
  void CompleteSetup(proto::Role role, proto::Setup& setup) {
    setup.set_chief_host(host_);
    if (role == proto::WORKER) {
      setup.mutable_chief_file()->Assign(data_files_.files().begin(), data_files_.files().end());
    }
    setup.set_restore_slots(restores_slots_);
  }

  // Samples the chief's own process and its machine.
  void SampleResources() {
    if (ended_) return;
    ResourceRecorder::Samples samples = recorder_->resources().Collect();
    if (samples.empty()) return;
    proto::ChiefRecord record;
    record.mutable_samples()->mutable_sample()->Swap(&samples);
    Step(std::move(record));
  }

  std::string JournalPath() const { return absl::StrCat(options_.run_dir, "/", journal::kFileName); }
  std::string LogPath() const { return LogIn(options_.run_dir); }
  std::string CheckpointsPath() const { return absl::StrCat(options_.run_dir, "/checkpoints"); }
  std::vector<std::string> SlotNames() const {
    return {options_.plan.slot().begin(), options_.plan.slot().end()};
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

  std::unique_ptr<LoggedController> controller_;

  // The members below are used on the loop only.
  proto::ChiefRecord first_;  // The first record of the log, without a snapshot.
  int64_t events_ = 0;        // The number of the last numbered event.
  EventLoop loop_;
  std::unique_ptr<RunRecorder> recorder_;  // The thread of saves_ syncs its journal.
  std::set<std::string> warnings_;
  bool ended_ = false;
  absl::Status end_status_;

  std::unique_ptr<SaveExecutor> saves_;  // Its thread syncs the journal.
  std::unique_ptr<ChiefServer> server_;  // Declared last: its threads call into all of the above.
};

}  // namespace

absl::Status RunChief(const ChiefOptions& options) {
  const absl::Status status = ChiefProcess(options).Run();
  // The job's end has been reported, so that no process needs to take over any more.
  if (options.keeps_log) ChiefLog::Remove(LogIn(options.run_dir)).IgnoreError();
  return status;
}

}  // namespace tethys
