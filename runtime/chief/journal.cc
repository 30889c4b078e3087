#include "runtime/chief/journal.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cluster/job_plan.h"

namespace tethys::journal {
namespace {

// Replaces control characters, which would break the line, in a text from another process.
std::string Line(absl::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); }, '?');
  return line;
}

}  // namespace

std::string Attempt(const proto::TrainingState& start, int64_t epoch_length, int workers, int servers,
                    const std::string& strategy) {
  return absl::StrCat("attempt ", start.step(), " ", start.epoch(), " ", start.position(), " ", epoch_length,
                      " ", workers, " ", servers, " ", strategy, "\n");
}

std::string Member(const proto::Member& member) {
  return absl::StrCat("member ", TaskName(member.role(), member.index()), " ", member.incarnation(), " ",
                      Line(member.host()), " ", Line(member.data_address()), "\n");
}

std::string Lost(proto::Role role, int index, const std::string& reason) {
  return absl::StrCat("lost ", TaskName(role, index), " ", Line(reason), "\n");
}

std::string Group(uint32_t generation, int64_t step, const std::vector<TaskId>& workers) {
  std::string line = absl::StrCat("group ", generation, " ", step);
  for (const TaskId worker : workers) absl::StrAppend(&line, " ", worker.index);
  return line + "\n";
}

std::string Lease(int worker, int64_t epoch, int64_t begin, int64_t end) {
  return absl::StrCat("lease ", worker, " ", epoch, " ", begin, " ", end, "\n");
}

std::string Used(int worker, int64_t step, int64_t begin, int64_t count) {
  return absl::StrCat("used ", worker, " ", step, " ", begin, " ", count, "\n");
}

std::string Applied(int server, const proto::AppliedPush& push) {
  return absl::StrCat("applied ", server, " ", push.worker(), " ", push.sequence(), " ", push.sample_begin(),
                      " ", push.sample_count(), " ", push.version(), "\n");
}

std::string Torn(int worker, int64_t begin, int64_t count, const std::vector<int>& servers) {
  return absl::StrCat("torn ", worker, " ", begin, " ", count, " ", absl::StrJoin(servers, " "), "\n");
}

std::string EpochDone(int64_t epoch, int64_t end) { return absl::StrCat("epoch ", epoch, " ", end, "\n"); }

std::string Saved(const proto::TrainingState& state) {
  return absl::StrCat("saved ", state.step(), " ", state.epoch(), " ", state.position(), "\n");
}

std::string End(const proto::TrainingState& state) {
  return absl::StrCat("end ", state.epoch(), " ", state.position(), "\n");
}

}  // namespace tethys::journal
