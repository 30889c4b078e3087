// A test cluster in one process: parameter servers on loopback, and workers that train with them.
#ifndef TETHYS_TESTS_PS_PS_CLUSTER_H_
#define TETHYS_TESTS_PS_PS_CLUSTER_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ps/parameter_server.h"
#include "ps/parameter_server_strategy.h"
#include "tests/ps/ps_worker.h"
#include "tests/testing/certificates.h"
#include "tests/testing/fake_clock.h"

namespace tethys {

// A cluster with all servers of a plan. The constructor starts the servers.
class PsCluster {
 public:
  static constexpr uint32_t kGeneration = 3;

  // Uses TLS if `authority` is not null.
  explicit PsCluster(proto::JobPlan plan, std::unique_ptr<JobAuthority> authority = nullptr)
      : plan_(std::move(plan)), token_(JobToken::Random()), authority_(std::move(authority)) {
    for (int server = 0; server < plan_.placement().servers(); ++server) {
      ParameterServerOptions options;
      options.token = token_;
      options.job_id = plan_.job_id();
      options.clock = &clock_;
      options.tls = Identity(proto::PS, server);
      options.checksums_on_loopback = true;
      options.on_fatal = [this](const absl::Status& status) { fatal_ = status; };
      servers_.push_back(*ParameterServer::Start(options));
      const absl::Status configured = servers_.back()->Configure(plan_, server, kGeneration);
      EXPECT_TRUE(configured.ok()) << configured;
      EXPECT_TRUE(servers_.back()->Serve().ok());
      addresses_.push_back({absl::StrCat("host-", server), servers_.back()->address()});
    }
  }

  ParameterServer& server(int index) { return *servers_[index]; }
  void Kill(int index) { servers_[index].reset(); }
  const proto::JobPlan& plan() const { return plan_; }
  const JobToken& token() const { return token_; }
  // The fatal error that a server reported. Call this only after a worker has returned its error.
  const absl::Status& fatal() const { return fatal_; }
  // Makes workers created from now on connect to `address` instead of the server's address.
  void Redirect(int server, const std::string& address) { addresses_[server].address = address; }

  ParameterServerStrategyOptions WorkerOptions(int index) const {
    ParameterServerStrategyOptions options;
    options.plan = plan_;
    // Workers give up soon if they cannot connect.
    options.plan.mutable_job()->mutable_elastic()->set_on_loss(proto::Elastic::END);
    options.worker = options.rank = index;
    options.workers = plan_.job().workers();
    options.incarnation = 1;
    options.generation = kGeneration;
    options.servers = addresses_;
    options.token = token_;
    options.tls = Identity(proto::WORKER, index);
    options.checksums_on_loopback = true;
    options.clock = &clock_;
    return options;
  }
  // The TLS identity of a process; absent if the cluster has no certificate authority.
  absl::optional<TlsIdentity> Identity(proto::Role role, int index) const {
    if (authority_ == nullptr) return absl::nullopt;
    return testing::IdentityOf(*authority_, role, index);
  }
  std::unique_ptr<TestWorker> Worker(int index) { return Worker(index, WorkerOptions(index)); }
  std::unique_ptr<TestWorker> Worker(int index, ParameterServerStrategyOptions options) {
    return std::make_unique<TestWorker>(plan_, index, *CreateParameterServerStrategy(std::move(options)));
  }

 private:
  const MonotonicClock clock_;
  const proto::JobPlan plan_;
  const JobToken token_;
  const std::unique_ptr<JobAuthority> authority_;
  absl::Status fatal_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::vector<ServerAddress> addresses_;
};

// Makes worker 0 of `plan`, which has several workers, push a step that no other worker pushes. Expects that
// the worker fails at the step timeout of TestPlan, with an error that names the server.
inline void ExpectUnansweredStepNamesServer(const proto::JobPlan& plan) {
  FakeClock clock;
  PsCluster cluster(plan);
  ParameterServerStrategyOptions options = cluster.WorkerOptions(0);
  options.clock = &clock;
  const auto worker = cluster.Worker(0, options);
  ASSERT_TRUE(worker->Prepare().ok());
  ASSERT_TRUE(worker->Push(0, 1).ok());
  clock.Advance(20 * kSecond);  // The step timeout of TestPlan.
  const absl::Status status = worker->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(),
              ::testing::HasSubstr("step 0: no answer within 20 s from server 0 on host-0"));
}

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_PS_CLUSTER_H_
