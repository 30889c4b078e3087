#include "tests/bench/exchange_fixture.h"

#include <utility>

#include "ps/partitioner.h"
#include "tests/testing/happened_event.h"

namespace tethys {
namespace {

constexpr int64_t kRowBytes = 2048;

proto::JobPlan MakePlan(const ExchangeOptions& options) {
  VariableSet variables;
  const absl::Status added = variables.Add("weights", {options.bytes / kRowBytes, kRowBytes / 4}, "in,out",
                                           InitialValue::kZeros, 1, 1);
  TETHYS_CHECK(added.ok(), StatusText(added));
  proto::JobPlan plan;
  proto::Job& job = *plan.mutable_job();
  job.set_workers(options.workers);
  job.set_max_steps(1 << 20);
  job.mutable_optimizer()->mutable_sgd()->set_momentum(options.momentum ? 0.9 : 0);
  if (!options.keeps_undo) job.mutable_elastic()->set_on_loss(proto::Elastic::END);
  job.mutable_optimizer()->set_learning_rate(0.1);
  proto::ParameterServer& config = *job.mutable_strategy()->mutable_parameter_server();
  config.set_servers(options.servers);
  proto::Tuning& tuning = *job.mutable_tuning();
  tuning.mutable_partitioner()->mutable_fixed()->set_shards(options.shards > 0 ? options.shards
                                                                               : options.servers);
  if (options.message_bytes > 0) tuning.set_message_bytes(options.message_bytes);
  if (options.asynchronous) config.mutable_asynchronous();
  if (options.pull_before_step) config.mutable_asynchronous()->set_pull(proto::Asynchronous::BEFORE_STEP);
  plan.set_job_id("bench");
  plan.set_global_batch(128 * options.workers);
  const Variable& weights = variables.variables()[0];
  proto::VariableSpec& spec = *plan.add_variable();
  spec.set_name(weights.name);
  for (const int64_t axis : weights.shape) spec.add_shape(axis);
  spec.set_layout(weights.layout);
  plan.set_model_signature(variables.signature());
  *plan.mutable_placement() = *PlaceShards(variables, options.servers, tuning.partitioner());
  return plan;
}

}  // namespace

ExchangeFixture::ExchangeFixture(const ExchangeOptions& options)
    : options_(options), plan_(MakePlan(options)) {}

absl::optional<TlsIdentity> ExchangeFixture::Identity(proto::Role role, int index) const {
  if (options_.authority == nullptr) return absl::nullopt;
  return *options_.authority->Issue(role, index);
}

std::unique_ptr<ParameterServer> ExchangeFixture::StartServer(const std::string& bind_address, int index,
                                                              const Clock& clock) const {
  ParameterServerOptions options;
  options.bind_address = bind_address;
  options.token = options_.token;
  options.tls = Identity(proto::PS, index);
  options.checksums_on_loopback = options_.checksums;
  options.job_id = plan_.job_id();
  options.clock = &clock;
  auto server = ParameterServer::Start(options);
  TETHYS_CHECK(server.ok(), StatusText(server.status()));
  TETHYS_CHECK((*server)->Configure(plan_, index, 1).ok() && (*server)->Serve().ok());
  return *std::move(server);
}

PushPull::PushPull(const ExchangeFixture& fixture, int worker, std::vector<ServerAddress> servers,
                   const Clock& clock)
    : parameters_(fixture.options().bytes / 4), gradients_(fixture.options().bytes / 4) {
  ParameterServerStrategyOptions options;
  options.plan = fixture.plan();
  options.worker = options.rank = worker;
  options.workers = fixture.plan().job().workers();
  options.generation = 1;
  options.servers = std::move(servers);
  options.token = fixture.options().token;
  options.tls = fixture.Identity(proto::WORKER, worker);
  options.checksums_on_loopback = fixture.options().checksums;
  options.clock = &clock;
  strategy_ = *CreateParameterServerStrategy(std::move(options));
  for (float& gradient : gradients_.span()) gradient = 1e-3f;
  const Range all[] = {{0, parameters_.size()}};
  const auto prepared = strategy_->Prepare({parameters_.data(), gradients_.data(), parameters_.size()}, all);
  TETHYS_CHECK(prepared.ok(), StatusText(prepared.status()));
}

void PushPull::Exchange() {
  const StepInfo step{.step = step_, .sample_count = 128, .schedule_position = step_ * 128};
  TETHYS_CHECK(strategy_->BeginStep(step).ok());
  const absl::Status sent = strategy_->GradientReady(0, HappenedEvent());
  TETHYS_CHECK(sent.ok(), StatusText(sent));
  const auto outcome = EndStep(*strategy_, step);
  TETHYS_CHECK(outcome.ok(), StatusText(outcome.status()));
  ++step_;
}

}  // namespace tethys
