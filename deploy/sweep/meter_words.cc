#include "deploy/sweep/meter_words.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

// Bytes of the plan in one question. With base64 and the word, the line stays below 4 KiB, so one write to a
// pipe takes the whole line.
constexpr size_t kPartBytes = 2700;

bool ReadNumber(absl::string_view word, int64_t least, int64_t most, int64_t& out) {
  return absl::SimpleAtoi(word, &out) && out >= least && out <= most;
}

}  // namespace

absl::StatusOr<MeterQuestion> ParseMeterQuestion(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  MeterQuestion question;
  if (words[0] == "job" && words.size() == 1) return question;
  if (words[0] == "part" && words.size() == 2 && absl::Base64Unescape(words[1], &question.part)) {
    question.kind = MeterQuestion::kPart;
    return question;
  }
  if (words.size() == 3 && ReadNumber(words[1], 1, kMostBatch, question.batch)) {
    if (words[0] == "step" && ReadNumber(words[2], 0, kMostVisitMilliseconds, question.limit)) {
      question.kind = MeterQuestion::kStep;
      return question;
    }
    if (words[0] == "fits" && ReadNumber(words[2], 0, int64_t{1} << 60, question.limit)) {
      question.kind = MeterQuestion::kFits;
      return question;
    }
  }
  return absl::InvalidArgumentError("the meter does not understand this question");
}

std::vector<std::string> PlanQuestions(const std::string& plan) {
  std::vector<std::string> questions;
  for (size_t at = 0; at < plan.size(); at += kPartBytes) {
    questions.push_back(absl::StrCat("part ", absl::Base64Escape(plan.substr(at, kPartBytes))));
  }
  questions.emplace_back("job");
  return questions;
}

std::string MeterAnswer(absl::string_view word, const google::protobuf::MessageLite& message) {
  return absl::StrCat(word, " ", absl::Base64Escape(message.SerializeAsString()));
}

std::string MeterFailure(const absl::Status& status) {
  const std::string text = absl::StrReplaceAll(status.message(), {{"\n", " "}});
  return absl::StrCat("failed ", static_cast<int>(status.code()), " ", text);
}

absl::Status CheckVisit(const proto::StepVisit& visit, int64_t batch) {
  const auto time = [](double seconds) { return seconds >= 0 && seconds <= 1e9; };
  bool sound = visit.batch() == batch && visit.steps() > 0 && visit.step() > 0 && time(visit.step()) &&
               time(visit.forward()) && time(visit.backward()) && time(visit.update()) &&
               time(visit.plan_seconds()) && std::isfinite(visit.began()) && visit.forecast_bytes() >= 0 &&
               visit.measured_bytes() >= 0;
  sound = sound && std::all_of(visit.ready().begin(), visit.ready().end(), time);
  if (sound) return absl::OkStatus();
  return absl::InternalError("the meter measured another batch than requested, or impossible times");
}

absl::Status ReadMeterAnswer(absl::string_view line, absl::string_view word,
                             google::protobuf::MessageLite* message) {
  if (absl::ConsumePrefix(&line, "failed ")) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int code = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &code) && code > 0 && code <= 16) {
      return absl::Status(static_cast<absl::StatusCode>(code), words[1]);
    }
  } else if (absl::ConsumePrefix(&line, word)) {
    std::string bytes;
    if (message == nullptr && line.empty()) return absl::OkStatus();
    if (message != nullptr && absl::ConsumePrefix(&line, " ") && absl::Base64Unescape(line, &bytes) &&
        message->ParseFromString(bytes)) {
      return absl::OkStatus();
    }
  }
  return absl::InternalError(absl::StrCat("the meter did not answer '", word, "'"));
}

}  // namespace tethys
