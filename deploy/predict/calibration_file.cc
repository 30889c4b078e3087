#include "deploy/predict/calibration_file.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"
#include "runtime/base/file.h"
#include "runtime/base/random.h"

namespace tethys {
namespace {

constexpr int64_t kMaxCalibrationBytes = int64_t{16} << 20;
// The largest number that a calibration may contain: far above all times, rates and bytes, and so small that
// sums and products stay finite.
constexpr double kMost = 1e18;
constexpr char kRemedy[] = "run tethys calibrate with this build, for this job";

// Checks all numbers of the message and of the messages in it.
absl::Status CheckNumbers(const google::protobuf::Message& message, const std::string& path) {
  const auto* descriptor = message.GetDescriptor();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int index = 0; index < count; ++index) {
      if (field->cpp_type() == field->CPPTYPE_MESSAGE) {
        if (!field->is_repeated() && !reflection->HasField(message, field)) continue;
        const auto& inner = field->is_repeated() ? reflection->GetRepeatedMessage(message, field, index)
                                                 : reflection->GetMessage(message, field);
        TETHYS_RETURN_IF_ERROR(CheckNumbers(inner, path));
      } else if (field->cpp_type() == field->CPPTYPE_DOUBLE) {
        const double value = field->is_repeated() ? reflection->GetRepeatedDouble(message, field, index)
                                                  : reflection->GetDouble(message, field);
        if (value >= 0 && value <= kMost) continue;
        return absl::OutOfRangeError(absl::StrFormat("%s: %s.%s is %g; it must lie between 0 and %g: %s",
                                                     path, descriptor->name(), field->name(), value, kMost,
                                                     kRemedy));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

CalibrationKey CalibrationKeyOf(const proto::JobPlan& plan, const JobMachines& machines,
                                const std::string& build_id) {
  return {.build_id = build_id,
          .model_signature = plan.model_signature(),
          .tls = !machines.on_loopback,
          .hosts = machines.hosts};
}

std::string CalibrationPath(const std::string& home, const CalibrationKey& key) {
  std::vector<std::string> hosts = key.hosts;
  std::sort(hosts.begin(), hosts.end());
  const std::string text =
      absl::StrFormat("%s %x %d %s", key.build_id, key.model_signature, key.tls, absl::StrJoin(hosts, ","));
  return absl::StrFormat("%s/.cache/tethys/calibration/%016x.json", home, Fnv1a(text.data(), text.size()));
}

absl::Status WriteCalibration(const std::string& path, const proto::Calibration& calibration) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(calibration, &json, options);
  if (!printed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be written as JSON: ", printed.ToString()));
  }
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    TETHYS_RETURN_IF_ERROR(CreateDirectories(path.substr(0, slash)));
  }
  return WriteFileAtomically(path, json);
}

absl::StatusOr<proto::Calibration> ReadCalibration(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxCalibrationBytes));
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::Calibration calibration;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &calibration, options);
  if (!parsed.ok() || calibration.build_id().empty()) {
    return absl::DataLossError(absl::StrCat(path, " is truncated or is not a calibration",
                                            parsed.ok() ? " (it names no build)" : ": ",
                                            parsed.ok() ? "" : parsed.ToString(), "; ", kRemedy));
  }
  TETHYS_RETURN_IF_ERROR(CheckNumbers(calibration, path));
  return calibration;
}

absl::Status CheckCalibration(const proto::Calibration& calibration, const CalibrationKey& key,
                              const std::string& path) {
  if (calibration.build_id() != key.build_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was measured with build ", calibration.build_id(), ", but this is build ",
                     key.build_id, ", which may be faster or slower: ", kRemedy));
  }
  if (calibration.model_signature() != key.model_signature) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s was measured with another model (signature %016x; this job's model has %016x): %s", path,
        calibration.model_signature(), key.model_signature, kRemedy));
  }
  if (calibration.tls() != key.tls) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " was measured ", calibration.tls() ? "with" : "without",
                     " TLS, and this job runs ", key.tls ? "with" : "without", " it: ", kRemedy));
  }
  return absl::OkStatus();
}

std::string AgeText(double made, double now) {
  const double age = now - made;
  if (age < 0) return "in the future";
  if (age < 120) return absl::StrCat(PluralText(static_cast<int64_t>(age), "second"), " ago");
  if (age < 7200) return absl::StrCat(PluralText(static_cast<int64_t>(age / 60), "minute"), " ago");
  if (age < 172800) return absl::StrCat(PluralText(static_cast<int64_t>(age / 3600), "hour"), " ago");
  return absl::StrCat(PluralText(static_cast<int64_t>(age / 86400), "day"), " ago");
}

}  // namespace tethys
