// Jobs whose training survives the loss of a worker, and what their workers and servers say to the chief.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_LOSSES_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_LOSSES_FIXTURE_H_

#include <string>

#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {

// Jobs of two workers and four batches of five samples.
inline constexpr char kAsynchronous[] = "workers: 2 strategy { parameter_server { asynchronous {} } } ";
inline constexpr char kStale[] = "workers: 2 strategy { parameter_server { stale_synchronous {} } } ";
// Batches 0 and 2 belong to worker 0, the others to worker 1.
inline constexpr char kSharded[] =
    "workers: 2 strategy { parameter_server { asynchronous {} } } data { sharding: DATA } ";

class LossesTest : public JobControllerTest {
 protected:
  void Begin(const std::string& job) {
    StartAndMakeReady(job);
    Log();
  }
  void Fenced(bool takes_part = false, int worker = 1, uint32_t incarnation = 2) {
    for (int i = 0; i < plan_.placement().servers(); ++i) {
      Say(Server(i), absl::StrCat("fenced { worker: ", worker, " incarnation: ", incarnation,
                                  " takes_part: ", takes_part, " }"));
    }
  }
  void Applied(int server, int worker, int64_t begin) {
    Say(Server(server), absl::StrCat("applied { push { worker: ", worker, " sample_begin: ", begin,
                                     " sample_count: 5 version: 1 } }"));
  }
  void Use(int worker, int64_t begin) {
    Say(Worker(worker), absl::StrCat("steps { record { rank: ", worker, " sample_begin: ", begin,
                                     " samples: 5 labels: 5 loss_sum: 1 correct: 1 } }"));
  }
  // Sends records for all batches leased to the worker, requests leases until there are none, and ends the
  // run. `done`: further fields of RunDone, in text format.
  void UseAll(int worker, const std::string& done = "") {
    for (bool last = false; !last;) {
      const proto::Lease lease = NewestLease(worker);
      for (const proto::LeaseRange& range : lease.range()) {
        if (range.end() > range.begin()) Use(worker, range.begin());
      }
      last = lease.last();
      if (!last) Say(Worker(worker), "lease_request { batches: 4 }");
    }
    Say(Worker(worker), absl::StrCat("run_done { run: ", NewestLease(worker).run(), " ", done, " }"));
  }
  proto::Lease NewestLease(int worker) const {
    for (auto order = orders_.rbegin(); order != orders_.rend(); ++order) {
      if (order->task == Worker(worker) && order->order.has_lease()) return order->order.lease();
    }
    return {};
  }
  // Makes a replacement of worker 1, with incarnation 2, join.
  void JoinAgain() {
    ASSERT_TRUE(controller_->Admit(Worker(1), 2, now_).ok());
    SayAs(2, Worker(1), "join { host: 'b' }");
  }
  void Report(TaskId task, absl::StatusCode code) {
    Say(task, absl::StrCat("failure { message: 'it broke' status_code: ", static_cast<int>(code), " }"));
  }
  void SayAs(uint32_t incarnation, TaskId task, const std::string& text) {
    incarnation_ = incarnation;
    Say(task, text);
    incarnation_ = 1;
  }
  proto::RunSummary Summary() const {
    proto::RunSummary summary;
    controller_->FillSummary(now_, summary);
    return summary;
  }
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_LOSSES_FIXTURE_H_
