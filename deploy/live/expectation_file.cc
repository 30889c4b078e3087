#include "deploy/live/expectation_file.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;

std::string PathIn(const std::string& run_dir) { return absl::StrCat(run_dir, "/", kExpectationFile); }

bool IsEstimate(const proto::Estimate& estimate) {
  return estimate.low() > 0 && estimate.low() <= estimate.value() && estimate.value() <= estimate.high() &&
         std::isfinite(estimate.high());
}

bool MakesSense(const proto::Expectation& expectation) {
  if (!IsEstimate(expectation.prediction().samples_per_second())) return false;
  if (!(expectation.batch_per_worker() > 0) || !std::isfinite(expectation.batch_per_worker())) return false;
  for (const proto::Bound& bound : expectation.prediction().bound()) {
    if (!(bound.seconds() >= 0) || !std::isfinite(bound.seconds())) return false;
  }
  for (const proto::LinkRate& link : expectation.link()) {
    if (!(link.bytes_per_second() > 0) || !std::isfinite(link.bytes_per_second())) return false;
  }
  return true;
}

}  // namespace

const char kExpectationFile[] = "prediction.json";

absl::Status WriteExpectation(const std::string& run_dir,
                              const absl::optional<proto::Expectation>& expectation) {
  const std::string path = PathIn(run_dir);
  if (!expectation.has_value()) return RemoveRecursively(path);
  google::protobuf::util::JsonPrintOptions json;
  json.preserve_proto_field_names = true;
  json.add_whitespace = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(*expectation, &text, json);
  if (!printed.ok()) return absl::InternalError(absl::StrCat(path, ": ", printed.ToString()));
  return WriteFileAtomically(path, text);
}

absl::StatusOr<proto::Expectation> ParseExpectation(absl::string_view text) {
  google::protobuf::util::JsonParseOptions json;
  json.ignore_unknown_fields = true;
  proto::Expectation expectation;
  if (!google::protobuf::util::JsonStringToMessage(std::string(text), &expectation, json).ok()) {
    return absl::InvalidArgumentError("the text is not a tethys.Expectation in JSON");
  }
  if (!MakesSense(expectation)) return absl::InvalidArgumentError("a value is impossible");
  return expectation;
}

absl::StatusOr<proto::Expectation> ReadExpectation(const std::string& run_dir) {
  const std::string path = PathIn(run_dir);
  if (!FileExists(path))
    return absl::NotFoundError(absl::StrCat(path, ": there is no prediction for this run"));
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMostBytes));
  absl::StatusOr<proto::Expectation> expectation = ParseExpectation(text);
  if (expectation.ok()) return expectation;
  return absl::DataLossError(absl::StrCat(
      path, " is damaged or of another version: remove it to see the run without its prediction"));
}

}  // namespace tethys
