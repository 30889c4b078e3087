// CSV files: each line has the values of a sample, then its label or targets, separated by commas.
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/data_files/writer_formats.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

std::string PathOf(const PartToWrite& part) { return part.Path(".csv"); }

// The shortest text that is parsed back to the same float.
std::string FloatText(const void* bits) {
  float value;
  std::memcpy(&value, bits, sizeof(value));
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string Misfit(const PartToWrite& part) {
  if (part.spec.labels.targets ? part.spec.labels.shape.size() <= 1 : part.spec.labels.shape.empty()) {
    return {};
  }
  return absl::StrCat("a line holds one class, or a row of targets, but the labels are ",
                      LabelText(part.spec.labels));
}

class CsvWriter final : public SampleWriter {
 public:
  CsvWriter(const PartToWrite& part, WholeFile file) : spec_(part.spec), file_(std::move(file)) {}

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    std::string line;
    const int64_t each = BytesOf(spec_.type);
    for (int64_t i = 0; i < spec_.elements(); ++i) {
      const uint8_t* const value = values + i * each;
      absl::StrAppend(&line, spec_.type == ValueType::kFloat ? FloatText(value) : absl::StrCat(*value), ",");
    }
    for (int64_t i = 0; i < spec_.labels.elements(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : ",",
                      spec_.labels.targets ? FloatText(labels + i) : absl::StrCat(labels[i]));
    }
    line += '\n';
    return file_.Append(line);
  }

  absl::Status Commit() override { return file_.Commit(); }

 private:
  const SampleSpec spec_;
  WholeFile file_;
};

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  TETHYS_ASSIGN_OR_RETURN(WholeFile file, WholeFile::Create(PathOf(part)));
  return std::make_unique<CsvWriter>(part, std::move(file));
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::Csv& csv = *data.mutable_csv();
  (part.trains() ? csv.add_train() : csv.add_test())->assign(PathOf(part));
  csv.mutable_shape()->Assign(part.spec.shape.begin(), part.spec.shape.end());
  if (part.spec.type == ValueType::kByte) csv.set_bytes(true);
  if (!part.spec.labels.targets || part.spec.labels.shape.empty()) return;
  const auto targets = static_cast<int32_t>(part.spec.labels.elements());
  csv.set_targets(targets);
  csv.set_label_column(-targets);
}

}  // namespace

const WriterFormat kCsvWriter = {.name = "csv", .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
