#include "deploy/sweep/sweep_report.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "deploy/report/page_parts.h"
#include "deploy/sweep/batch_curve.h"
#include "deploy/text.h"
#include "runtime/base/file.h"

namespace tethys {

absl::string_view SweepPage();  // The embedded sweep_page.html (CMakeLists.txt).

const char kSweepFile[] = "sweep.json";

namespace {

constexpr int64_t kMaxSweepBytes = int64_t{64} << 20;

// `text` escaped for Markdown.
std::string MarkdownText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"<", "&lt;"}});
}

std::string TitleOf(const proto::Sweep& sweep) {
  return absl::StrCat("Step time by batch size: ", sweep.job());
}

std::string MadeOf(const proto::Sweep& sweep) {
  return absl::StrCat("Measured on ", sweep.made(), " by build ", sweep.build_id(), ".");
}

absl::Status CheckSweep(const proto::Sweep& sweep) {
  if (sweep.curve_size() == 0) return absl::DataLossError("the file has no curve");
  for (const proto::SweepCurve& curve : sweep.curve()) {
    const absl::Status sound = BatchCurve::Create({curve.time().begin(), curve.time().end()},
                                                  {curve.segment().begin(), curve.segment().end()})
                                   .status();
    if (!sound.ok()) return absl::DataLossError(sound.message());
  }
  return absl::OkStatus();
}

}  // namespace

std::string SweepCsv(const proto::Sweep& sweep) {
  std::string text = CsvLine({"host", "kind", "device", "batch", "step_seconds", "relative_error",
                              "samples_per_second", "forward_seconds", "backward_seconds", "update_seconds",
                              "plan_seconds", "forecast_bytes", "measured_bytes", "visits", "disturbed"});
  const auto seconds = [](double value) { return absl::StrFormat("%.9g", value); };
  for (const proto::SweepCurve& curve : sweep.curve()) {
    for (const proto::BatchTime& time : curve.time()) {
      text += CsvLine({curve.host(), curve.kind(), curve.device(), absl::StrCat(time.batch()),
                       seconds(time.step()), seconds(time.error()),
                       seconds(static_cast<double>(time.batch()) / time.step()), seconds(time.forward()),
                       seconds(time.backward()), seconds(time.update()), seconds(time.plan_seconds()),
                       absl::StrCat(time.forecast_bytes()), absl::StrCat(time.measured_bytes()),
                       absl::StrCat(time.visits()), absl::StrCat(time.disturbed())});
    }
  }
  return text;
}

std::string SweepMarkdown(const proto::Sweep& sweep) {
  std::string text = absl::StrCat("# ", MarkdownText(TitleOf(sweep)), "\n\n", MadeOf(sweep), "\n");
  for (const proto::SweepCurve& curve : sweep.curve()) {
    const proto::SweepAnswer answer = AnswerOf(curve);
    absl::StrAppend(&text, "\n## ", MarkdownText(answer.heading()), "\n\n");
    for (const std::string& sentence : answer.sentence())
      absl::StrAppend(&text, "- ", MarkdownText(sentence), "\n");
    absl::StrAppend(
        &text, "\n| batch | step, ms | samples/s | forward, ms | backward, ms | update, ms | memory, MiB |\n",
        "|--:|--:|--:|--:|--:|--:|--:|\n");
    for (const proto::BatchTime& time : curve.time()) {
      absl::StrAppendFormat(
          &text, "| %d | %s | %s | %s | %s | %s | %s |\n", time.batch(), DigitsText(time.step() * 1e3, 4),
          DigitsText(static_cast<double>(time.batch()) / time.step(), 4), DigitsText(time.forward() * 1e3, 3),
          DigitsText(time.backward() * 1e3, 3), DigitsText(time.update() * 1e3, 3),
          time.measured_bytes() == 0 ? "–" : absl::StrFormat("%.1f", time.measured_bytes() / 1048576.0));
    }
  }
  return text;
}

std::string SweepHtml(const proto::Sweep& sweep) {
  proto::SweepReport report;
  report.set_title(TitleOf(sweep));
  report.set_made(MadeOf(sweep));
  *report.mutable_sweep() = sweep;
  for (const proto::SweepCurve& curve : sweep.curve()) *report.add_answer() = AnswerOf(curve);
  return FillPage(SweepPage(), report);
}

absl::Status WriteSweep(const proto::Sweep& sweep, const std::string& path) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(sweep, &json, options);
  if (!printed.ok()) return absl::InvalidArgumentError(absl::StrCat(kSweepFile, ": ", printed.ToString()));
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(path, "/", kSweepFile), json));
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(path + "/sweep.csv", SweepCsv(sweep)));
  TETHYS_RETURN_IF_ERROR(WriteFileAtomically(path + "/report.md", SweepMarkdown(sweep)));
  return WriteFileAtomically(path + "/report.html", SweepHtml(sweep));
}

absl::StatusOr<proto::Sweep> ParseSweep(const std::string& json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::Sweep sweep;
  if (!google::protobuf::util::JsonStringToMessage(json, &sweep, options).ok()) {
    return absl::DataLossError("the file is not JSON, or is truncated");
  }
  TETHYS_RETURN_IF_ERROR(CheckSweep(sweep));
  return sweep;
}

absl::StatusOr<proto::Sweep> ReadSweep(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kSweepFile);
  TETHYS_ASSIGN_OR_RETURN(const std::string json, ReadFile(file, kMaxSweepBytes));
  absl::StatusOr<proto::Sweep> sweep = ParseSweep(json);
  if (sweep.ok()) return sweep;
  return absl::DataLossError(absl::StrCat(file, " does not contain a complete sweep: ",
                                          sweep.status().message(), ": repeat the sweep with tethys sweep"));
}

}  // namespace tethys
