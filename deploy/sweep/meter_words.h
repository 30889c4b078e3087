// The lines that a Meter (meter.h) and `tethys meter` exchange. A question is a line:
//
//   part BASE64              the next piece of a serialised JobPlan; a line is at most 4 KiB
//   job                      makes the model of the plan in these parts; answer: facts BASE64(MeterFacts)
//   step BATCH MILLISECONDS  answer: visit BASE64(StepVisit)
//   fits BATCH BYTES         makes one step with at most BYTES of memory, 0: unlimited; answer: yes, or
//                            "failed ..." as below
//
// The answer to a part is "ok". A failure is answered by "failed CODE MESSAGE", with the code of an
// absl::Status. Pure; any thread.
#ifndef TETHYS_DEPLOY_SWEEP_METER_WORDS_H_
#define TETHYS_DEPLOY_SWEEP_METER_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "proto/sweep.pb.h"
#include "runtime/base/status.h"

namespace tethys {

constexpr int64_t kMostBatch = int64_t{1} << 31;
constexpr int64_t kMostVisitMilliseconds = 600'000;

struct MeterQuestion {
  enum Kind { kPart, kJob, kStep, kFits } kind = kJob;
  std::string part = {};  // Bytes of the serialised plan.
  int64_t batch = 0;
  int64_t limit = 0;  // Milliseconds for kStep, bytes for kFits.
};
// InvalidArgument: the line is no question, or a number is out of bounds.
absl::StatusOr<MeterQuestion> ParseMeterQuestion(absl::string_view line);

// The questions that transfer the plan.
std::vector<std::string> PlanQuestions(const std::string& plan);

std::string MeterAnswer(absl::string_view word, const google::protobuf::MessageLite& message);
std::string MeterFailure(const absl::Status& status);

// Internal: the batch of the visit is not `batch`, or a time is impossible.
absl::Status CheckVisit(const proto::StepVisit& visit, int64_t batch);

// Parses an answer that begins with `word`, and its message if `message` is not null. A failure is returned
// as the meter's status; Internal: any other answer.
absl::Status ReadMeterAnswer(absl::string_view line, absl::string_view word,
                             google::protobuf::MessageLite* message);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_SWEEP_METER_WORDS_H_
