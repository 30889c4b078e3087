#include "runtime/cluster/task_session.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "runtime/base/logging.h"
#include "runtime/base/mutex.h"
#include "runtime/base/process.h"
#include "runtime/base/thread.h"
#include "runtime/cluster/chief_calls.h"
#include "runtime/cluster/chief_clock.h"
#include "runtime/cluster/chief_watch.h"
#include "runtime/cluster/grpc_status.h"

namespace tethys {
namespace {

// Close waits for the writer thread until no message has been sent for this time.
constexpr Nanoseconds kCloseProgress = kSecond;

// Runs three threads: a reader, a writer, which also sends heartbeats, and a watch over the chief. The watch
// only reads the time and cancels calls, so nothing can delay it.
class GrpcTaskSession final : public TaskSession {
 public:
  GrpcTaskSession(const TaskOptions& options, const Clock& clock, std::function<void()> end_process)
      : options_(options), clock_(clock), end_process_(std::move(end_process)) {}

  ~GrpcTaskSession() override {
    Close();
    StopWatching();
  }

  absl::Status Open() {
    TETHYS_RETURN_IF_ERROR(chief_.AddHandshake(chief_.session()));
    TETHYS_RETURN_IF_ERROR(Annotate(
        BeAdmitted(), absl::StrCat("the chief at ", options_.chief_address, " did not admit this task")));
    TETHYS_RETURN_IF_ERROR(reader_.Start([this] { ReadOrders(); }));
    TETHYS_RETURN_IF_ERROR(writer_.Start([this] { WriteMessages(); }));
    return watch_.Start([this] { WatchChief(); });
  }

  absl::Status status() override {
    if (!lost_) return absl::OkStatus();
    MutexLock lock(mu_);
    return broken_;
  }

  void Send(proto::FromTask message) override {
    MutexLock lock(mu_);
    outgoing_.push_back(std::move(message));
    outgoing_changed_.NotifyOne();
  }

  absl::StatusOr<proto::ToTask> Receive() override {
    MutexLock lock(mu_);
    // The watch thread ends this wait if the chief is lost.
    while (incoming_.empty() && broken_.ok()) incoming_changed_.Wait(mu_);
    if (incoming_.empty()) return broken_;
    return TakeOrder();
  }

  absl::StatusOr<absl::optional<proto::ToTask>> Poll() override {
    MutexLock lock(mu_);
    if (!incoming_.empty()) return absl::optional<proto::ToTask>(TakeOrder());
    if (!broken_.ok()) return broken_;
    return absl::optional<proto::ToTask>();
  }

  void CallOnHalt(HaltCallback halted) override {
    MutexLock lock(halt_mu_);
    halted_ = std::move(halted);
  }

  void StartBeating(Nanoseconds interval, Fill fill) override {
    MutexLock beat_lock(beat_mu_);
    fill_ = std::move(fill);
    MutexLock lock(mu_);
    beat_interval_ = interval;
    outgoing_changed_.NotifyOne();
  }

  void Beat() override {
    MutexLock beat_lock(beat_mu_);
    if (fill_ == nullptr) return;
    proto::FromTask beat;
    std::vector<proto::FromTask> before;
    proto::Heartbeat& heartbeat = *beat.mutable_heartbeat();
    heartbeat.set_resident_bytes(ResidentBytes());
    fill_(heartbeat, before);
    MutexLock lock(mu_);
    for (proto::FromTask& message : before) outgoing_.push_back(std::move(message));
    heartbeat.set_sent_ns(clock_.Now());
    heartbeat.set_clock_offset_ns(chief_clock_.offset());
    heartbeat.set_clock_error_ns(chief_clock_.ErrorAt(heartbeat.sent_ns()));
    outgoing_.push_back(std::move(beat));
    outgoing_changed_.NotifyOne();
  }

  void BeatSoon() override {
    MutexLock lock(mu_);
    beat_soon_ = true;
    outgoing_changed_.NotifyOne();
  }

  bool peers_compute() const override { return peers_compute_ && !lost_; }

  absl::Status ReadCheckpoint(int slot, int64_t begin, absl::Span<float> out) override {
    return chief_.ReadCheckpoint(slot, begin, out);
  }
  absl::Status ReadDataFile(const std::string& path, int64_t offset, TakeBytes take) override {
    return chief_.ReadDataFile(path, offset, take);
  }
  absl::Status WriteCheckpoint(int64_t save_id, Source source) override {
    return chief_.WriteCheckpoint(save_id, source);
  }

  void Close() override {
    {
      MutexLock lock(mu_);
      if (closed_) return;
      closed_ = true;
      outgoing_changed_.NotifyOne();
    }
    if (writer_.running()) {
      AwaitWriter();
      writer_.Join();
    }
    if (reader_.running()) {
      // The chief ends the stream when it has read everything; if this takes more than a second, the call is
      // cancelled.
      const Nanoseconds deadline = clock_.Now() + kSecond;
      MutexLock lock(mu_);
      while (broken_.ok() && clock_.Now() < deadline) incoming_changed_.WaitFor(mu_, deadline - clock_.Now());
    }
    chief_.session().TryCancel();
    if (reader_.running()) reader_.Join();
    // If the chief was lost, the watch continues: it ends this process if the task hangs.
    if (!lost_) StopWatching();
  }

 private:
  // If the chief admits the session, it sends initial metadata at once; otherwise it ends the call with a
  // status.
  absl::Status BeAdmitted() {
    absl::Status late;
    bool answered = false;
    Mutex mu;
    CondVar changed;
    Thread timer;
    const absl::Status timed = timer.Start([&] {
      const Nanoseconds deadline = clock_.Now() + options_.connect_timeout;
      MutexLock lock(mu);
      while (!answered && clock_.Now() < deadline) changed.WaitFor(mu, deadline - clock_.Now());
      if (answered) return;
      late = absl::DeadlineExceededError(
          absl::StrCat("the chief did not answer within ", ToSeconds(options_.connect_timeout), " s"));
      chief_.session().TryCancel();
    });
    if (!timed.ok()) {
      MutexLock lock(mu_);
      closed_ = true;
      return timed;
    }
    stream_ = chief_.OpenSession();
    stream_->WaitForInitialMetadata();
    {
      MutexLock lock(mu);
      answered = true;
      changed.NotifyOne();
    }
    timer.Join();
    if (late.ok() && chief_.session().GetServerInitialMetadata().count("tethys-admitted") > 0) {
      return absl::OkStatus();
    }
    stream_->WritesDone();
    const absl::Status status = FromGrpcStatus(stream_->Finish());
    MutexLock lock(mu_);
    closed_ = true;
    if (!late.ok()) return late;
    return status.ok() ? absl::UnavailableError("the session ended at once") : status;
  }

  // Waits until the writer has sent everything. Cancels the session if the writer makes no progress.
  void AwaitWriter() {
    MutexLock lock(mu_);
    int64_t written = -1;
    while (!writer_done_ && written_ != written) {
      written = written_;
      const Nanoseconds deadline = clock_.Now() + kCloseProgress;
      while (!writer_done_ && clock_.Now() < deadline) {
        writer_changed_.WaitFor(mu_, deadline - clock_.Now());
      }
    }
    if (!writer_done_) chief_.session().TryCancel();
  }

  proto::ToTask TakeOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    proto::ToTask order = std::move(incoming_.front());
    incoming_.pop_front();
    return order;
  }

  // Runs on the reader thread.
  void ReadOrders() {
    proto::ToTask order;
    while (stream_->Read(&order)) {
      const Nanoseconds now = clock_.Now();
      if (order.has_halt()) PassOnHalt(order.halt());
      MutexLock lock(mu_);
      ++heard_;
      if (order.has_pong()) {
        peers_compute_ = order.pong().peers_compute();
        chief_clock_.Note(order.pong().sent_ns(), now, order.pong().chief_ns());
        continue;
      }
      // The job has ended well, so the end of the session is no loss.
      if (order.has_stop() && !order.stop().failed()) dismissed_ = true;
      incoming_.push_back(order);
      incoming_changed_.NotifyAll();
    }
    const absl::Status status = FromGrpcStatus(stream_->Finish());
    MutexLock lock(mu_);
    Break(status.ok() ? absl::UnavailableError("the chief ended the session") : status);
    outgoing_changed_.NotifyAll();
  }

  void PassOnHalt(const proto::Halt& halt) {
    MutexLock lock(halt_mu_);
    if (halted_) halted_(halt);
  }

  void Break(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (broken_.ok()) broken_ = Annotate(status, absl::StrCat("lost the chief at ", options_.chief_address));
    incoming_changed_.NotifyAll();
    watch_changed_.NotifyAll();
  }

  // Runs on the writer thread.
  void WriteMessages() {
    WriteUntilClosed();
    MutexLock lock(mu_);
    writer_done_ = true;
    writer_changed_.NotifyAll();
  }

  // Sends queued messages, and a heartbeat when it is due.
  void WriteUntilClosed() {
    Nanoseconds next_beat = clock_.Now();
    while (true) {
      absl::optional<proto::FromTask> message;
      bool beat = false;
      {
        MutexLock lock(mu_);
        while (true) {
          if (!broken_.ok()) return;
          if (!outgoing_.empty()) break;
          if (closed_) {
            stream_->WritesDone();
            return;
          }
          beat = beat_interval_ > 0 && (beat_soon_ || clock_.Now() >= next_beat);
          if (beat) break;
          outgoing_changed_.WaitFor(mu_, beat_interval_ > 0 ? next_beat - clock_.Now() : kSecond);
        }
        if (!beat) {
          message = std::move(outgoing_.front());
          outgoing_.pop_front();
        } else {
          beat_soon_ = false;
          next_beat = clock_.Now() + beat_interval_;
        }
      }
      if (beat) {
        Beat();
        continue;
      }
      if (!stream_->Write(*message)) return;  // The reader gets the reason of the failure.
      MutexLock lock(mu_);
      ++written_;
    }
  }

  // Runs on the watch thread. Silence is measured from the first heartbeat on, because without heartbeats the
  // chief need not send anything.
  void WatchChief() {
    const Nanoseconds interval = std::min(kSecond, options_.chief_silence) / 8;
    absl::optional<ChiefWatch> watch;
    while (true) {
      ChiefWatch::Verdict verdict = ChiefWatch::Verdict::kPresent;
      {
        MutexLock lock(mu_);
        watch_changed_.WaitFor(mu_, interval);
        if (unwatched_) return;
        const Nanoseconds now = clock_.Now();
        const bool broken = !broken_.ok() && !closed_ && !dismissed_;
        if (!watch.has_value() && (beat_interval_ > 0 || broken)) {
          watch.emplace(options_.chief_silence, options_.chief_grace, 4 * interval, now);
        }
        if (watch.has_value()) verdict = watch->Look(now, heard_, broken);
        if (verdict == ChiefWatch::Verdict::kLost && !lost_) NoteLoss();
      }
      if (verdict == ChiefWatch::Verdict::kPresent) continue;
      chief_.CancelAll();
      if (verdict == ChiefWatch::Verdict::kLost) continue;
      TETHYS_LOG(Error, "the chief was lost and this process did not end within ",
                 ToSeconds(options_.chief_grace), " s by itself: this process is ended now");
      return end_process_();
    }
  }

  void NoteLoss() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Break(absl::UnavailableError(
        absl::StrCat("nothing was heard from the chief for ", ToSeconds(options_.chief_silence), " s")));
    TETHYS_LOG(Error, broken_.message());
    lost_ = true;
  }

  void StopWatching() {
    {
      MutexLock lock(mu_);
      unwatched_ = true;
      watch_changed_.NotifyAll();
    }
    if (watch_.running()) watch_.Join();
  }

  const TaskOptions options_;
  const Clock& clock_;
  const std::function<void()> end_process_;
  ChiefCalls chief_{options_};
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromTask, proto::ToTask>> stream_;
  std::atomic<bool> peers_compute_{false};
  std::atomic<bool> lost_{false};  // Set by the watch thread: the chief was lost before the job ended well.

  Mutex beat_mu_;  // Locked before mu_ if both are held.
  Fill fill_ ABSL_GUARDED_BY(beat_mu_);

  Mutex halt_mu_;  // Never locked together with another lock of the session.
  HaltCallback halted_ ABSL_GUARDED_BY(halt_mu_);

  Mutex mu_;
  CondVar incoming_changed_;
  CondVar outgoing_changed_;
  CondVar writer_changed_;
  CondVar watch_changed_;
  std::deque<proto::ToTask> incoming_ ABSL_GUARDED_BY(mu_);
  std::deque<proto::FromTask> outgoing_ ABSL_GUARDED_BY(mu_);
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  bool beat_soon_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool dismissed_ ABSL_GUARDED_BY(mu_) = false;  // True once the chief has said that the job ended well.
  bool writer_done_ ABSL_GUARDED_BY(mu_) = false;
  bool unwatched_ ABSL_GUARDED_BY(mu_) = false;
  int64_t heard_ ABSL_GUARDED_BY(mu_) = 0;    // Messages received from the chief.
  int64_t written_ ABSL_GUARDED_BY(mu_) = 0;  // Messages sent to the chief.
  Nanoseconds beat_interval_ ABSL_GUARDED_BY(mu_) = 0;
  ChiefClock chief_clock_ ABSL_GUARDED_BY(mu_);

  Thread reader_;
  Thread writer_;
  Thread watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TaskSession>> TaskSession::Connect(const TaskOptions& options,
                                                                  const Clock& clock,
                                                                  std::function<void()> end_process) {
  auto session = std::make_unique<GrpcTaskSession>(options, clock, std::move(end_process));
  TETHYS_RETURN_IF_ERROR(session->Open());
  return absl::StatusOr<std::unique_ptr<TaskSession>>(std::move(session));
}

}  // namespace tethys
