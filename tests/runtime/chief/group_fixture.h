// A job controller whose tasks form new groups, with the messages that they send then.
#ifndef TETHYS_TESTS_RUNTIME_CHIEF_GROUP_FIXTURE_H_
#define TETHYS_TESTS_RUNTIME_CHIEF_GROUP_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/runtime/chief/job_controller_fixture.h"

namespace tethys {

class GroupTest : public JobControllerTest {
 protected:
  // Brings the job to its first segment, of two steps of ten samples.
  void Begin(const std::string& job) {
    StartAndMakeReady(job);
    Log();
    orders_.clear();
    journal_.clear();
  }
  void SayAs(uint32_t incarnation, TaskId task, const std::string& text) {
    incarnation_ = server_incarnation_ = incarnation;
    Say(task, text);
    incarnation_ = server_incarnation_ = 1;
  }
  // A worker records its part of a step: of ten samples, or of the rest if it is one of two.
  void Record(int worker, int64_t step, int64_t begin, int64_t end) {
    Say(Worker(worker), absl::StrCat("steps { record { rank: ", worker, " step: ", step, " sample_begin: ",
                                     begin, " samples: ", end - begin, " labels: ", end - begin, " } }"));
  }
  void Halted(int worker, uint32_t generation, int64_t applied) {
    Halted(Worker(worker), generation, applied);
  }
  void Halted(TaskId task, uint32_t generation, int64_t applied) {
    Say(task, absl::StrCat("halted { generation: ", generation, " applied: ", applied, " }"));
  }
  // A server with a copy of another server's shards has left its group.
  void Halted(TaskId server, uint32_t generation, int64_t applied, int64_t copy) {
    Say(server,
        absl::StrCat("halted { generation: ", generation, " applied: ", applied, " copy: ", copy, " }"));
  }
  void Formed(int worker, uint32_t generation) { Formed(Worker(worker), generation); }
  void Formed(TaskId task, uint32_t generation) {
    Say(task, absl::StrCat("formed { generation: ", generation, " }"));
  }
  // A server has applied a worker's push of step `version` - 1.
  void Applied(int server, int worker, int64_t begin, int64_t count, int64_t version) {
    Say(Server(server),
        absl::StrCat("applied { push { worker: ", worker, " sequence: ", version, " sample_begin: ", begin,
                     " sample_count: ", count, " version: ", version, " } }"));
  }
  void JoinAgain(int worker) { JoinAgain(Worker(worker)); }
  void JoinAgain(TaskId task, uint32_t incarnation = 2) {
    ASSERT_TRUE(controller_->Admit(task, incarnation, now_).ok());
    SayAs(incarnation, task, "join { host: 'b' }");
    SayAs(incarnation, task, "ready {}");
  }
  proto::RunSummary Summary() const {
    proto::RunSummary summary;
    controller_->FillSummary(now_, summary);
    return summary;
  }
  const proto::Form& LastForm() const { return Last(proto::ToTask::kForm).order.form(); }
  const proto::Run& LastRun() const { return Last(proto::ToTask::kRun).order.run(); }
};

}  // namespace tethys

#endif  // TETHYS_TESTS_RUNTIME_CHIEF_GROUP_FIXTURE_H_
