#include "runtime/chief/journal.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/cluster/job_plan.h"

namespace tethys::journal {
namespace {

struct Interval {
  int64_t begin;
  int64_t end;
};

// What one attempt did, in positions over the whole job.
struct AttemptLog {
  int64_t start = 0;
  int64_t samples_per_epoch = 0;
  int64_t workers = 0;
  int64_t servers = 0;
  std::vector<Interval> used;
  std::map<int64_t, std::vector<Interval>> applied;          // By server.
  std::vector<std::pair<Interval, std::set<int64_t>>> torn;  // With the servers that applied them.
  std::map<int64_t, int64_t> epoch_end;                      // Epochs closed in this attempt: positions used.
  int64_t end = -1;                                          // Where the job ended, if it did.
};

using Fields = std::vector<absl::string_view>;

absl::StatusOr<int64_t> Number(const Fields& fields, size_t index, int64_t line) {
  int64_t value = 0;
  if (index >= fields.size() || !absl::SimpleAtoi(fields[index], &value)) {
    return absl::DataLossError(absl::StrCat("journal line ", line, ": field ", index, " is not a number"));
  }
  return value;
}

absl::Status AddLine(const Fields& fields, int64_t line, std::vector<AttemptLog>& attempts) {
  const absl::string_view kind = fields[0];
  if (kind == "attempt") {
    AttemptLog attempt;
    TETHYS_ASSIGN_OR_RETURN(const int64_t epoch, Number(fields, 2, line));
    TETHYS_ASSIGN_OR_RETURN(const int64_t position, Number(fields, 3, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.samples_per_epoch, Number(fields, 4, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.workers, Number(fields, 5, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.servers, Number(fields, 6, line));
    attempt.start = epoch * attempt.samples_per_epoch + position;
    attempts.push_back(std::move(attempt));
    return absl::OkStatus();
  }
  if (attempts.empty())
    return absl::DataLossError(absl::StrCat("journal line ", line, " comes before any attempt"));
  AttemptLog& attempt = attempts.back();
  if (kind == "used" || kind == "applied") {
    const size_t first = kind == "used" ? 3 : 4;
    TETHYS_ASSIGN_OR_RETURN(const int64_t who, Number(fields, 1, line));
    TETHYS_ASSIGN_OR_RETURN(const int64_t begin, Number(fields, first, line));
    TETHYS_ASSIGN_OR_RETURN(const int64_t count, Number(fields, first + 1, line));
    if (count > 0) (kind == "used" ? attempt.used : attempt.applied[who]).push_back({begin, begin + count});
  } else if (kind == "torn") {
    TETHYS_ASSIGN_OR_RETURN(const int64_t begin, Number(fields, 2, line));
    TETHYS_ASSIGN_OR_RETURN(const int64_t count, Number(fields, 3, line));
    std::set<int64_t> servers;
    for (size_t i = 4; i < fields.size(); ++i) {
      TETHYS_ASSIGN_OR_RETURN(const int64_t server, Number(fields, i, line));
      servers.insert(server);
    }
    attempt.torn.push_back({{begin, begin + count}, std::move(servers)});
  } else if (kind == "epoch") {
    TETHYS_ASSIGN_OR_RETURN(const int64_t epoch, Number(fields, 1, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.epoch_end[epoch], Number(fields, 2, line));
  } else if (kind == "end") {
    TETHYS_ASSIGN_OR_RETURN(const int64_t epoch, Number(fields, 1, line));
    TETHYS_ASSIGN_OR_RETURN(const int64_t position, Number(fields, 2, line));
    attempt.end = epoch * attempt.samples_per_epoch + position;
  }
  return absl::OkStatus();
}

// The positions that must have been used between two positions over the job: all but the tails of epochs that
// end early (a dropped remainder).
std::vector<Interval> Required(const AttemptLog& attempt, int64_t begin, int64_t end) {
  std::vector<Interval> required;
  while (begin < end) {
    const int64_t epoch = begin / attempt.samples_per_epoch;
    const auto closed = attempt.epoch_end.find(epoch);
    const int64_t length = closed == attempt.epoch_end.end() ? attempt.samples_per_epoch : closed->second;
    const int64_t last = std::min(end, epoch * attempt.samples_per_epoch + length);
    if (begin < last) required.push_back({begin, last});
    begin = (epoch + 1) * attempt.samples_per_epoch;
  }
  return required;
}

std::string PositionText(const AttemptLog& attempt, int64_t at) {
  return absl::StrCat("position ", at % attempt.samples_per_epoch, " of epoch ",
                      at / attempt.samples_per_epoch);
}

// `complete`: gaps are errors too.
absl::StatusOr<int64_t> CheckCover(const AttemptLog& attempt, std::vector<Interval> found, int64_t end,
                                   bool complete, const std::string& who) {
  std::sort(found.begin(), found.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  while (!found.empty() && found.back().begin >= end) found.pop_back();  // Undone.
  int64_t total = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && found[i].begin < found[i - 1].end) {
      return absl::DataLossError(
          absl::StrCat(PositionText(attempt, found[i].begin), " was used twice by ", who));
    }
    total += found[i].end - found[i].begin;
  }
  if (!complete) return total;
  size_t next = 0;
  for (const Interval& required : Required(attempt, attempt.start, end)) {
    int64_t at = required.begin;
    while (at < required.end && next < found.size() && found[next].begin == at) at = found[next++].end;
    if (at != required.end) {
      return absl::DataLossError(absl::StrCat(PositionText(attempt, at), " was not used by ", who));
    }
  }
  if (next != found.size()) {
    return absl::DataLossError(absl::StrCat(PositionText(attempt, found[next].begin), " was used by ", who,
                                            " though it should not be"));
  }
  return total;
}

// With what a loss kept it from applying.
std::vector<Interval> AppliedOn(const AttemptLog& attempt, int64_t server) {
  const auto found = attempt.applied.find(server);
  std::vector<Interval> applied = found == attempt.applied.end() ? std::vector<Interval>() : found->second;
  for (const auto& [interval, servers] : attempt.torn) {
    if (servers.count(server) == 0) applied.push_back(interval);
  }
  return applied;
}

}  // namespace

std::string Attempt(const proto::TrainingState& start, int workers, int servers,
                    const std::string& strategy) {
  return absl::StrCat("attempt ", start.step(), " ", start.epoch(), " ", start.position(), " ",
                      start.train_samples(), " ", workers, " ", servers, " ", strategy, "\n");
}

std::string Member(const proto::Member& member) {
  return absl::StrCat("member ", TaskName(member.role(), member.index()), " ", member.incarnation(), " ",
                      member.host(), " ", member.data_address(), "\n");
}

std::string Lost(proto::Role role, int index, const std::string& reason) {
  return absl::StrCat("lost ", TaskName(role, index), " ", reason, "\n");
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

absl::StatusOr<CheckResult> Check(const std::string& text) {
  std::vector<AttemptLog> attempts;
  int64_t line = 0;
  const size_t whole = text.rfind('\n');
  if (whole == std::string::npos) return absl::DataLossError("the journal is empty");
  for (const absl::string_view entry : absl::StrSplit(absl::string_view(text).substr(0, whole), '\n')) {
    ++line;
    const Fields fields = absl::StrSplit(entry, ' ');
    TETHYS_RETURN_IF_ERROR(AddLine(fields, line, attempts));
  }
  CheckResult result;
  result.attempts = static_cast<int64_t>(attempts.size());
  for (size_t i = 0; i < attempts.size(); ++i) {
    const AttemptLog& attempt = attempts[i];
    if (attempt.samples_per_epoch <= 0) return absl::DataLossError("an attempt has no samples");
    const bool last = i + 1 == attempts.size();
    const bool complete = !last || attempt.end >= 0;
    int64_t end = last ? attempt.end : attempts[i + 1].start;
    if (!complete) end = int64_t{1} << 62;
    TETHYS_ASSIGN_OR_RETURN(const int64_t samples,
                            CheckCover(attempt, attempt.used, end, complete, "the workers"));
    result.samples += samples;
    for (int64_t server = 0; server < attempt.servers; ++server) {
      TETHYS_RETURN_IF_ERROR(
          CheckCover(attempt, AppliedOn(attempt, server), end, complete, absl::StrCat("ps ", server))
              .status());
    }
    result.ended = last && attempt.end >= 0;
  }
  return result;
}

}  // namespace tethys::journal
