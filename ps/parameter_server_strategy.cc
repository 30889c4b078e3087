#include "ps/parameter_server_strategy.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "ps/data_stream.h"
#include "ps/message_plan.h"
#include "ps/payload.h"
#include "ps/push_clip.h"
#include "ps/shard_squares.h"
#include "ps/shared_norms.h"
#include "runtime/cluster/job_plan.h"
#include "runtime/shape/job_shape.h"

namespace tethys {
namespace {

constexpr double kDefaultStepTimeout = 30;  // In seconds.
// The number of times that a worker of a job that forms new groups tries to connect to a server. All tries
// together take about 5 s.
constexpr int kTriesInGroup = 20;
// Sequence numbers of pulls begin here, above the sequence numbers of all pushes.
constexpr uint64_t kFirstPull = uint64_t{1} << 63;

// The size of a message in bytes. It is equal on all workers of a job, so all cut their pushes into the same
// parts.
int64_t SentMessageBytes(const ParameterServerStrategyOptions& options, int64_t arena_size) {
  const auto is_local = [](const ServerAddress& server) { return absl::StartsWith(server.address, "127."); };
  const bool one_machine = std::all_of(options.servers.begin(), options.servers.end(), is_local);
  const int64_t bytes =
      MessageBytes(options.plan.job(), arena_size, static_cast<int>(options.servers.size()), one_machine);
  return std::min(bytes, kMaxMessageBytes / 2);
}

class ParameterServerStrategy final : public Strategy {
 public:
  ParameterServerStrategy(ParameterServerStrategyOptions options, std::unique_ptr<ParameterClient> client)
      : options_(std::move(options)),
        step_timeout_(FromSeconds(options_.plan.job().timeouts().step() > 0
                                      ? options_.plan.job().timeouts().step()
                                      : kDefaultStepTimeout)),
        client_(std::move(client)),
        versions_(options_.servers.size(), 0),
        taken_versions_(options_.servers.size(), 0),
        sum_squares_(options_.servers.size(), 0),
        watch_(options_.interruption, [this](const absl::Status& status) { Interrupt(status); }),
        moved_(options_.moves,
               [this](const std::vector<ServerAddress>& servers) { client_->Redirect(servers); }) {}

  absl::StatusOr<StrategyTraits> Prepare(const StepArenas& arenas,
                                         absl::Span<const Range> ready_order) override;
  absl::Status BeginStep(const StepInfo& step) override;
  absl::Status GradientReady(int64_t index, const Event& event) override;
  absl::Status EnqueueEnd(int parity) override;
  // The arenas are in host memory, so EnqueueEnd has already completed the step.
  absl::StatusOr<StepOutcome> AwaitEnd(const StepInfo&, const Event&) override { return outcome_; }
  absl::Status Refresh() override;
  std::vector<absl::Span<float>> slots() override { return {}; }
  void Interrupt(const absl::Status& status) override {
    interruption_.Raise(status);
    client_->Interrupt(status);
  }

 private:
  const proto::ParameterServer& config() const { return options_.plan.job().strategy().parameter_server(); }
  bool servers_agree() const { return TraitsOf(config()).servers_agree(); }
  const proto::Job& job() const { return options_.plan.job(); }
  Frame MakeFrame(FrameKind kind) const;
  absl::Status Push(int message);
  // Pushes the messages that GradientReady has not pushed. With clipping, these are all messages; their
  // gradients are clipped first.
  absl::Status PushRest();
  // Internal: GradientReady was not called for a range of the step.
  absl::Status CheckAnnounced() const;
  absl::Status Pull();
  absl::Status Send(int message, const Frame& frame, const void* payload) {
    return Note(client_->Send(message, frame, payload));
  }
  // Waits for the answer to a message. The wait grows by answer_timeout_ as long as other workers still
  // compute.
  absl::Status AwaitAnswer(int index);
  // Keeps an error of the exchange for Refresh, and returns it.
  absl::Status Note(absl::Status status) {
    if (!status.ok()) failed_ = status;
    return status;
  }
  // Adds the sums of squares of all servers and sends each server the totals: first the totals of gradients,
  // if they are clipped, then the totals of variables, if the optimizer has a trust ratio.
  absl::Status ExchangeNorms();
  // Sends `server`, which must hold shards, a frame that exchanges `values` sums of squares. The payload of
  // the frame is `sent`.
  absl::Status SendNorms(FrameKind kind, int server, size_t values, absl::Span<const double> sent);
  // Waits for the server's answer, which has as many values as the frame requested, and copies them to `out`.
  absl::Status AwaitNorms(int server, double* out);
  int NormMessage(int server) const;  // The index of the message of norms to a server that holds shards.
  bool MeasuresNoise() const {
    return servers_agree() && options_.workers > 1 && step_.step % kNoiseSteps == 0;
  }
  // Waits for all answers to pushes or pulls, in the order of messages, and copies their values to the
  // parameter arena. Fills in sum_squares_. Returns the largest staleness that the answers report.
  // `with_values`: the answers contain parameters.
  absl::StatusOr<int64_t> TakeAnswers(bool with_values);

  const ParameterServerStrategyOptions options_;
  const Nanoseconds step_timeout_;
  // The longest wait for an answer. While Prepare waits, it can be shorter than step_timeout_.
  Nanoseconds answer_timeout_ = step_timeout_;
  const std::unique_ptr<ParameterClient> client_;
  Interruption interruption_;
  absl::Status failed_;  // The last error of the exchange.

  StepArenas arenas_;
  std::vector<StepMessage> messages_;
  // The servers that hold shards, in order. If norms are exchanged, the client has one message of norms for
  // each of these servers, with indices after those of messages_.
  std::vector<int> holders_;
  // For each range in ready order, the messages that wait for the range.
  std::vector<std::vector<int>> waiting_on_;

  StepInfo step_;
  StepOutcome outcome_;    // Outcome of the last completed step.
  uint64_t sequence_ = 0;  // Sequence of this step's push.
  uint64_t pulls_ = 0;     // The number of pulls begun so far, and so the number of the next pull.
  // The sum of squares of the step's gradient sums, over all servers. This member must not move, because
  // messages point to it as their payload.
  double sum_of_squares_ = 0;
  ShardSquares squares_;            // The sums of squares for trust ratios; payloads of messages as well.
  std::unique_ptr<PushClip> clip_;  // Null: gradients are pushed without clipping.
  // In steps that measure the gradient noise, the sum of squares of the gradients that the step has pushed.
  double own_square_ = 0;
  std::vector<int> missing_;  // For each message, the number of its ranges that are not announced yet.
  // The lowest version of each server among its last answers with parameters. Each message is answered
  // separately, and an update of another worker may come between two answers.
  std::vector<int64_t> versions_;
  // The lowest version of each server among the answers that TakeAnswers has taken so far.
  std::vector<int64_t> taken_versions_;
  std::vector<double> sum_squares_;  // For each server, the largest sum of squares among its answers.
  int64_t bytes_out_before_ = 0;
  int64_t bytes_in_before_ = 0;
  const Interruption::Watch watch_;
  const ServerMoves::Watch moved_;
};

absl::StatusOr<StrategyTraits> ParameterServerStrategy::Prepare(const StepArenas& arenas,
                                                                absl::Span<const Range> ready_order) {
  arenas_ = arenas;
  TETHYS_ASSIGN_OR_RETURN(messages_, PlanMessages(options_.plan.placement(), arenas.arena_size, ready_order,
                                                  SentMessageBytes(options_, arenas.arena_size)));
  waiting_on_.assign(ready_order.size(), {});
  missing_.assign(messages_.size(), 0);
  std::vector<MessageRange> ranges;
  for (size_t message = 0; message < messages_.size(); ++message) {
    ranges.push_back({messages_[message].server, messages_[message].range});
    for (const int index : messages_[message].waits_for)
      waiting_on_[index].push_back(static_cast<int>(message));
  }
  holders_.clear();
  for (const StepMessage& message : messages_) {
    if (holders_.empty() || holders_.back() != message.server) holders_.push_back(message.server);
  }
  if (ExchangesNorms(job())) {
    for (const int server : holders_) ranges.push_back({.server = server, .norms = true});
    TETHYS_ASSIGN_OR_RETURN(squares_, ShardSquares::Create(options_.plan.placement(), arenas.arena_size));
  }
  client_->SetMessages(ranges);
  const proto::Optimizer& optimizer = job().optimizer();
  if (optimizer.has_clip() && !ClipsOnServers(job())) {
    TETHYS_ASSIGN_OR_RETURN(clip_, PushClip::Create(optimizer.clip().global_norm(), ready_order));
  }
  if (options_.start_deadline > 0) {
    const Nanoseconds left = options_.start_deadline - options_.clock->Now();
    answer_timeout_ = std::min(step_timeout_, std::max<Nanoseconds>(kSecond / 2, left));
  }
  const absl::Status pulled = Pull();
  answer_timeout_ = step_timeout_;
  TETHYS_RETURN_IF_ERROR(interruption_.Check());
  if (absl::IsDeadlineExceeded(pulled) || absl::IsUnavailable(pulled)) {
    return absl::Status(
        pulled.code(),
        absl::StrCat(pulled.message(), ": each server must be reachable at its address, so look for a ",
                     "firewall or a missing route (tethys hosts check tests all links)"));
  }
  TETHYS_RETURN_IF_ERROR(pulled);
  return StrategyTraits{.parameters_change_before_step = PullsBeforeStep(config())};
}

absl::Status ParameterServerStrategy::BeginStep(const StepInfo& step) {
  TETHYS_RETURN_IF_ERROR(interruption_.Check());
  step_ = step;
  bytes_out_before_ = client_->bytes_out();
  bytes_in_before_ = client_->bytes_in();
  // The first step pulls the updates that other workers made since Prepare. In stale-synchronous training the
  // pull's step tells the server which updates the answer must include.
  const bool pulls = PullsBeforeStep(config()) || (sequence_ == 0 && !servers_agree());
  if (pulls) TETHYS_RETURN_IF_ERROR(Pull());
  ++sequence_;
  own_square_ = 0;
  for (size_t i = 0; i < messages_.size(); ++i) missing_[i] = static_cast<int>(messages_[i].waits_for.size());
  return absl::OkStatus();
}

// The arenas are in host memory, so the gradients are ready without waiting for the event.
absl::Status ParameterServerStrategy::GradientReady(int64_t index, const Event&) {
  TETHYS_RETURN_IF_ERROR(interruption_.Check());
  for (const int message : waiting_on_[index]) {
    if (--missing_[message] == 0 && clip_ == nullptr) TETHYS_RETURN_IF_ERROR(Push(message));
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::EnqueueEnd(int) {
  TETHYS_RETURN_IF_ERROR(PushRest());
  if (ExchangesNorms(job())) TETHYS_RETURN_IF_ERROR(ExchangeNorms());
  outcome_ = {.version = INT64_MAX};
  TETHYS_ASSIGN_OR_RETURN(outcome_.staleness, TakeAnswers(!PullsBeforeStep(config())));
  for (const StepMessage& message : messages_) {
    outcome_.version = std::min(outcome_.version, versions_[message.server]);
  }
  outcome_.own_square = own_square_;
  outcome_.sum_square = std::accumulate(sum_squares_.begin(), sum_squares_.end(), 0.0);
  if (ExchangesNorms(job())) {  // Waits for the servers' confirmations.
    for (const int server : holders_) TETHYS_RETURN_IF_ERROR(AwaitNorms(server, nullptr));
  }
  outcome_.bytes_out = client_->bytes_out() - bytes_out_before_;
  outcome_.bytes_in = client_->bytes_in() - bytes_in_before_;
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::ExchangeNorms() {
  sum_of_squares_ = 0;
  absl::Span<const double> norm;
  if (ClipsOnServers(job())) {
    for (const int server : holders_) TETHYS_RETURN_IF_ERROR(SendNorms(FrameKind::kNorm, server, 1, {}));
    for (const int server : holders_) {
      double value = 0;
      TETHYS_RETURN_IF_ERROR(AwaitNorms(server, &value));
      sum_of_squares_ += value;
    }
    norm = {&sum_of_squares_, 1};
  }
  const bool measures = MeasuresOnServers(job());
  if (measures) {
    for (const int server : holders_) {
      TETHYS_RETURN_IF_ERROR(SendNorms(FrameKind::kMeasure, server, squares_.of(server).size(), norm));
    }
    for (const int server : holders_) {
      TETHYS_RETURN_IF_ERROR(AwaitNorms(server, squares_.of(server).data()));
    }
    squares_.AddUp();
  }
  for (const int server : holders_) {
    const absl::Span<const double> totals = measures ? squares_.of(server) : norm;
    TETHYS_RETURN_IF_ERROR(SendNorms(FrameKind::kCommit, server, totals.size(), totals));
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::SendNorms(FrameKind kind, int server, size_t values,
                                                absl::Span<const double> sent) {
  Frame frame = MakeFrame(kind);
  frame.dtype = FrameDType::kFloat64;
  frame.sequence = sequence_;
  frame.range_count = values;
  frame.payload_bytes = sent.size() * sizeof(double);
  return Send(NormMessage(server), frame, sent.data());
}

absl::Status ParameterServerStrategy::AwaitNorms(int server, double* out) {
  TETHYS_RETURN_IF_ERROR(AwaitAnswer(NormMessage(server)));
  client_->TakeAnswer(NormMessage(server), out);
  return absl::OkStatus();
}

int ParameterServerStrategy::NormMessage(int server) const {
  const auto place = std::find(holders_.begin(), holders_.end(), server) - holders_.begin();
  return static_cast<int>(messages_.size()) + static_cast<int>(place);
}

// The interface Strategy requires that every range of a step is announced. This strategy makes an exception:
// a worker without samples need not announce its ranges. The pushes of such a worker are empty but still
// count.
absl::Status ParameterServerStrategy::PushRest() {
  if (step_.sample_count > 0) {
    TETHYS_RETURN_IF_ERROR(CheckAnnounced());
    if (clip_ != nullptr) {
      const int64_t divisor = UsesPushMean(config()) ? step_.sample_count : options_.plan.global_batch();
      TETHYS_RETURN_IF_ERROR(clip_->Run(divisor, arenas_.gradient_sums));
    }
  }
  for (size_t message = 0; message < messages_.size(); ++message) {
    const bool pushed = clip_ == nullptr && missing_[message] == 0;
    if (!pushed) TETHYS_RETURN_IF_ERROR(Push(static_cast<int>(message)));
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::CheckAnnounced() const {
  for (size_t message = 0; message < messages_.size(); ++message) {
    if (missing_[message] == 0) continue;
    return absl::InternalError(absl::StrCat("step ", step_.step, " ends before all gradients of [",
                                            messages_[message].range.begin, ", ",
                                            messages_[message].range.end(), ") were announced"));
  }
  return absl::OkStatus();
}

// Bulk-synchronous jobs need no pull, because their parameters are up to date after every step.
absl::Status ParameterServerStrategy::Refresh() {
  TETHYS_RETURN_IF_ERROR(interruption_.Check());
  return servers_agree() ? failed_ : Pull();
}

Frame ParameterServerStrategy::MakeFrame(FrameKind kind) const {
  Frame frame;
  frame.kind = kind;
  frame.generation = options_.generation;
  frame.rank = static_cast<uint32_t>(options_.rank);
  frame.incarnation = options_.incarnation;
  frame.step = static_cast<uint64_t>(step_.step);
  return frame;
}

absl::Status ParameterServerStrategy::Push(int message) {
  Frame frame = MakeFrame(FrameKind::kPush);
  frame.sequence = sequence_;
  frame.sample_begin = static_cast<uint64_t>(step_.sample_begin);
  frame.sample_count = static_cast<uint64_t>(step_.sample_count);
  frame.schedule_position = static_cast<uint64_t>(step_.schedule_position);
  frame.base_version = static_cast<uint64_t>(versions_[messages_[message].server]);
  if (TraitsOf(config()).update == UpdateUnit::kPushes)
    frame.global_sample_count = static_cast<uint32_t>(step_.global_sample_count);
  const Range range = messages_[message].range;
  const float* payload = arenas_.gradient_sums + range.begin;
  if (MeasuresNoise() && step_.sample_count > 0) own_square_ += SumOfSquares(payload, range.count);
  return Send(message, frame, step_.sample_count > 0 ? payload : nullptr);
}

// Each pull has its own sequence number. It distinguishes the answer to this pull from a delayed second
// answer to an earlier pull of the same step.
absl::Status ParameterServerStrategy::Pull() {
  Frame frame = MakeFrame(FrameKind::kPull);
  frame.sequence = kFirstPull + pulls_++;
  for (size_t message = 0; message < messages_.size(); ++message) {
    TETHYS_RETURN_IF_ERROR(Send(static_cast<int>(message), frame, nullptr));
  }
  return TakeAnswers(true).status();
}

absl::Status ParameterServerStrategy::AwaitAnswer(int index) {
  absl::Status status = client_->WaitForAnswer(index, answer_timeout_);
  const auto goes_on = [this] {
    return interruption_.Check().ok() && options_.peers_compute && options_.peers_compute();
  };
  for (int times = 2; absl::IsDeadlineExceeded(status) && goes_on(); ++times) {
    status = client_->WaitForAnswer(index, times * answer_timeout_);
  }
  return Note(std::move(status));
}

absl::StatusOr<int64_t> ParameterServerStrategy::TakeAnswers(bool with_values) {
  int64_t staleness = 0;
  std::fill(taken_versions_.begin(), taken_versions_.end(), INT64_MAX);
  std::fill(sum_squares_.begin(), sum_squares_.end(), 0);
  for (size_t message = 0; message < messages_.size(); ++message) {
    const int index = static_cast<int>(message);
    TETHYS_RETURN_IF_ERROR(AwaitAnswer(index));
    const Frame& answer = client_->answer(index);
    int64_t& version = taken_versions_[messages_[message].server];
    version = std::min(version, static_cast<int64_t>(answer.base_version));
    staleness = std::max<int64_t>(staleness, answer.staleness);
    double& sum_square = sum_squares_[messages_[message].server];
    sum_square = std::max(sum_square, answer.sum_square);
    client_->TakeAnswer(index, arenas_.parameters + messages_[message].range.begin);
  }
  if (with_values) versions_.swap(taken_versions_);
  return staleness;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> CreateParameterServerStrategy(
    ParameterServerStrategyOptions options) {
  const proto::JobPlan& plan = options.plan;
  if (plan.placement().servers() != static_cast<int>(options.servers.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the plan places shards on ", plan.placement().servers(),
                                                   " servers, but the job has ", options.servers.size()));
  }
  ParameterClientOptions client;
  client.handshake = HandshakeOf(plan, proto::WORKER, options.worker);
  client.handshake.set_incarnation(options.incarnation);
  client.handshake.set_generation(options.generation);
  client.token = options.token;
  client.tls = options.tls;
  client.checksums_on_loopback = options.checksums_on_loopback;
  client.servers = options.servers;
  client.clock = options.clock;
  // A window (limit on unanswered messages) needs servers that answer each message separately. If updates
  // depend on norms, servers answer only when they have the whole push.
  client.window = TraitsOf(plan.job()).answers_parts() && !ExchangesNorms(plan.job()) ? kMessageWindow : 0;
  // Makes the client wait for a server that joins a new group late. If the server is lost, the chief ends the
  // wait.
  if (FormsNewGroups(plan) && options.generation > 1) client.reconnect_tries = kTriesInGroup;
  // A lost server is replaced, and the chief says where (ServerMoves).
  if (options.moves != nullptr && CopiesShards(plan) && TraitsOf(plan.job()).leases()) {
    client.reconnect_tries = INT_MAX;
  }
  client.pushes_bring_values = !PullsBeforeStep(plan.job().strategy().parameter_server());
  return std::make_unique<ParameterServerStrategy>(std::move(options),
                                                   ParameterClient::Create(std::move(client)));
}

}  // namespace tethys
