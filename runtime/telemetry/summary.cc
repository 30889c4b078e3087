#include "runtime/telemetry/summary.h"

#include <google/protobuf/util/json_util.h>

#include "runtime/base/file.h"

namespace tethys {

const char kSummaryFile[] = "summary.json";

namespace {

constexpr int64_t kMaxSummaryBytes = int64_t{16} << 20;

std::string SummaryPath(const std::string& run_dir) { return absl::StrCat(run_dir, "/", kSummaryFile); }

std::string Text(const google::protobuf::util::Status& status) { return status.ToString(); }

}  // namespace

absl::Status WriteSummary(const std::string& run_dir, const proto::RunSummary& summary) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(summary, &json, options);
  // Printing fails if the summary contains text that is not UTF-8, such as a host's name.
  if (!printed.ok()) return absl::InvalidArgumentError(absl::StrCat("summary: ", Text(printed)));
  return WriteFileAtomically(SummaryPath(run_dir), json);
}

absl::StatusOr<proto::RunSummary> ReadSummary(const std::string& run_dir) {
  TETHYS_ASSIGN_OR_RETURN(const std::string json, ReadFile(SummaryPath(run_dir), kMaxSummaryBytes));
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::RunSummary summary;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &summary, options);
  if (!parsed.ok()) {
    return absl::DataLossError(absl::StrCat(SummaryPath(run_dir), " is not a run's summary: ", Text(parsed)));
  }
  return summary;
}

void FillCost(double price_per_hour, double epochs, proto::RunSummary& summary) {
  if (price_per_hour <= 0) return;
  const proto::Timing& timing = summary.timing();
  double run = 0, seconds = 0;
  for (const proto::Attempt& attempt : summary.attempt()) {
    run += attempt.total_seconds() *
           (attempt.has_price_per_hour() ? attempt.price_per_hour() : price_per_hour) / 3600;
    seconds += attempt.total_seconds();
  }
  const double price_per_second = seconds > 0 ? run / seconds : price_per_hour / 3600;
  proto::Cost& cost = *summary.mutable_cost();
  cost.set_price_per_hour(3600 * price_per_second);
  cost.set_run(price_per_second * timing.total_seconds());
  if (epochs < 1 || timing.training_seconds() == 0) return;
  cost.set_epoch(price_per_second * (timing.training_seconds() + timing.validation_seconds()) / epochs);
}

}  // namespace tethys
