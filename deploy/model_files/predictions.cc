#include "deploy/model_files/predictions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/text.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

constexpr int64_t kNpyAlignment = 64;

class CsvPredictions final : public PredictionFile {
 public:
  CsvPredictions(WholeFile file, const PredictionShape& shape) : file_(std::move(file)), shape_(shape) {}

  absl::Status Begin() {
    std::vector<std::string> cells = {"sample"};
    if (!shape_.files.empty()) cells.push_back("file");
    for (const bool label : {true, false}) {
      if (!shape_.classifies || (label && !shape_.labelled)) continue;
      cells.push_back(label ? "label" : "class");
      if (named()) cells.push_back(label ? "label_name" : "class_name");
    }
    const char* const column = shape_.classifies ? "probability_" : "output_";
    for (int64_t i = 0; i < shape_.output[0]; ++i) {
      cells.push_back(absl::StrCat(column, named() ? shape_.class_names[i] : absl::StrCat(i)));
    }
    return file_.Append(CsvLine(cells));
  }
  absl::Status Add(int32_t label, absl::Span<const float> outputs) override {
    std::vector<std::string> cells = {absl::StrCat(next_)};
    if (!shape_.files.empty()) cells.push_back(shape_.files[next_]);
    ++next_;
    if (shape_.classifies) {
      if (shape_.labelled) AddClass(label, cells);
      AddClass(std::max_element(outputs.begin(), outputs.end()) - outputs.begin(), cells);
      for (const double value : Probabilities(outputs)) cells.push_back(absl::StrFormat("%.9g", value));
    } else {
      for (const float value : outputs) cells.push_back(absl::StrFormat("%.9g", value));
    }
    return file_.Append(CsvLine(cells));
  }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  bool named() const {
    return shape_.classifies && static_cast<int64_t>(shape_.class_names.size()) == shape_.output[0];
  }
  void AddClass(int64_t index, std::vector<std::string>& cells) const {
    cells.push_back(absl::StrCat(index));
    // A label may be a value that the loss ignores; such a label is not the number of a class.
    const bool known = index >= 0 && index < shape_.output[0];
    if (named()) cells.push_back(known ? shape_.class_names[index] : "");
  }

  WholeFile file_;
  const PredictionShape shape_;
  int64_t next_ = 0;
};

class NpyPredictions final : public PredictionFile {
 public:
  NpyPredictions(WholeFile file, const PredictionShape& shape) : file_(std::move(file)), shape_(shape) {}

  absl::Status Begin() {
    std::string description = absl::StrFormat("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %s), }",
                                              shape_.samples, absl::StrJoin(shape_.output, ", "));
    // The bytes before the description: "\x93NUMPY", the version and the length of the description.
    constexpr int64_t kFixedBytes = 10;
    const auto unpadded = kFixedBytes + static_cast<int64_t>(description.size()) + 1;
    description.append((kNpyAlignment - unpadded % kNpyAlignment) % kNpyAlignment, ' ');
    description += '\n';
    const char length[2] = {static_cast<char>(description.size() & 0xff),
                            static_cast<char>(description.size() >> 8)};
    return file_.Append(absl::StrCat("\x93NUMPY", absl::string_view("\x01\x00", 2),
                                     absl::string_view(length, 2), description));
  }
  absl::Status Add(int32_t, absl::Span<const float> outputs) override {
    return file_.Append({reinterpret_cast<const char*>(outputs.data()), outputs.size() * sizeof(float)});
  }
  absl::Status Commit() override { return file_.Commit(); }

 private:
  WholeFile file_;
  const PredictionShape shape_;
};

template <typename Format>
absl::StatusOr<std::unique_ptr<PredictionFile>> Begin(const std::string& path, const PredictionShape& shape) {
  TETHYS_ASSIGN_OR_RETURN(WholeFile file, WholeFile::Create(path));
  auto predictions = std::make_unique<Format>(std::move(file), shape);
  TETHYS_RETURN_IF_ERROR(predictions->Begin());
  return predictions;
}

}  // namespace

std::vector<double> Probabilities(absl::Span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> values;
  double sum = 0;
  for (const float logit : logits) {
    values.push_back(std::exp(logit - largest));
    sum += values.back();
  }
  for (double& value : values) value /= sum;
  return values;
}

absl::StatusOr<std::unique_ptr<PredictionFile>> PredictionFile::Create(const std::string& path,
                                                                       const PredictionShape& shape) {
  if (absl::EndsWith(path, ".csv") && shape.output.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": each sample has outputs ", ShapeText(shape.output),
                     ", which do not fit into a line of a table: write the outputs to a .npy file"));
  }
  if (absl::EndsWith(path, ".csv")) return Begin<CsvPredictions>(path, shape);
  if (absl::EndsWith(path, ".npy")) return Begin<NpyPredictions>(path, shape);
  return absl::InvalidArgumentError(absl::StrCat(path, " must end in .csv or .npy"));
}

}  // namespace tethys
