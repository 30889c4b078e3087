#include "runtime/chief/journal.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/cluster/job_plan.h"

namespace tethys::journal {
namespace {

// Of all numbers in a journal, and of positions over the whole job: sums of two do not overflow.
constexpr int64_t kMaxNumber = int64_t{1} << 61;
// Of an attempt; job files are held to fewer.
constexpr int64_t kMaxTasks = 1 << 16;

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

absl::StatusOr<int64_t> Number(const Fields& fields, size_t index, int64_t line, int64_t most = kMaxNumber) {
  int64_t value = 0;
  if (index >= fields.size() || !absl::SimpleAtoi(fields[index], &value) || value < 0 || value > most) {
    return absl::DataLossError(
        absl::StrCat("journal line ", line, ": field ", index, " is not a number from 0 to ", most));
  }
  return value;
}

// Fields `index` and the next, an epoch and a position in it, as a position over the whole job.
absl::StatusOr<int64_t> Position(const Fields& fields, size_t index, int64_t samples_per_epoch,
                                 int64_t line) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t epoch, Number(fields, index, line));
  TETHYS_ASSIGN_OR_RETURN(const int64_t position, Number(fields, index + 1, line));
  if (samples_per_epoch == 0 || epoch > (kMaxNumber - position) / samples_per_epoch) {
    return absl::DataLossError(absl::StrCat("journal line ", line, ": there is no position ", position,
                                            " of epoch ", epoch, " in epochs of ", samples_per_epoch,
                                            " samples"));
  }
  return epoch * samples_per_epoch + position;
}

absl::Status AddLine(const Fields& fields, int64_t line, std::vector<AttemptLog>& attempts) {
  const absl::string_view kind = fields[0];
  if (kind == "attempt") {
    AttemptLog attempt;
    TETHYS_ASSIGN_OR_RETURN(attempt.samples_per_epoch, Number(fields, 4, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.start, Position(fields, 2, attempt.samples_per_epoch, line));
    TETHYS_ASSIGN_OR_RETURN(attempt.workers, Number(fields, 5, line, kMaxTasks));
    TETHYS_ASSIGN_OR_RETURN(attempt.servers, Number(fields, 6, line, kMaxTasks));
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
    TETHYS_ASSIGN_OR_RETURN(attempt.end, Position(fields, 1, attempt.samples_per_epoch, line));
  }
  return absl::OkStatus();
}

// Where the use of `epoch` must end: not in its tail where it ends early (a dropped remainder).
int64_t RequiredEnd(const AttemptLog& attempt, int64_t epoch) {
  const auto closed = attempt.epoch_end.find(epoch);
  const int64_t length = closed == attempt.epoch_end.end() ? attempt.samples_per_epoch : closed->second;
  return epoch * attempt.samples_per_epoch + length;
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
  for (int64_t begin = attempt.start; begin < end;) {
    const int64_t epoch = begin / attempt.samples_per_epoch;
    const int64_t required = std::max(begin, std::min(end, RequiredEnd(attempt, epoch)));
    int64_t at = begin;
    while (at < required && next < found.size() && found[next].begin == at) at = found[next++].end;
    if (at != required) {
      return absl::DataLossError(absl::StrCat(PositionText(attempt, at), " was not used by ", who));
    }
    begin = (epoch + 1) * attempt.samples_per_epoch;
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

// What others say of themselves, as one word or more of one line.
std::string Line(absl::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return absl::ascii_iscntrl(c); }, '?');
  return line;
}

}  // namespace

std::string Attempt(const proto::TrainingState& start, int workers, int servers,
                    const std::string& strategy) {
  return absl::StrCat("attempt ", start.step(), " ", start.epoch(), " ", start.position(), " ",
                      start.train_samples(), " ", workers, " ", servers, " ", strategy, "\n");
}

std::string Member(const proto::Member& member) {
  return absl::StrCat("member ", TaskName(member.role(), member.index()), " ", member.incarnation(), " ",
                      Line(member.host()), " ", Line(member.data_address()), "\n");
}

std::string Lost(proto::Role role, int index, const std::string& reason) {
  return absl::StrCat("lost ", TaskName(role, index), " ", Line(reason), "\n");
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
    const bool last = i + 1 == attempts.size();
    const bool complete = !last || attempt.end >= 0;
    int64_t end = last ? attempt.end : attempts[i + 1].start;
    if (!complete) end = int64_t{1} << 62;
    TETHYS_ASSIGN_OR_RETURN(const int64_t samples,
                            CheckCover(attempt, attempt.used, end, complete, "the workers"));
    if (samples > kMaxNumber - result.samples) {
      return absl::DataLossError(
          absl::StrCat("attempt ", i + 1, " of the journal uses ", samples, " samples"));
    }
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
