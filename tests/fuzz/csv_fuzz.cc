#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// Reads every sample. Requires that an error names the file.
void ReadAll(const Dataset& data, const std::string& path, int64_t most_samples) {
  Require(data.size() >= 1 && data.size() <= most_samples, "no more samples than the file can hold");
  const bool floats = data.spec().type == ValueType::kFloat;
  // A vector of floats is aligned for values of either type.
  std::vector<float> values(data.sample_elements());
  for (int64_t i = 0; i < data.size(); ++i) {
    int32_t label = -1;
    const absl::Status status = data.Read(i, reinterpret_cast<uint8_t*>(values.data()), &label);
    if (!status.ok()) {
      RequireRefusal(status, path);
      continue;
    }
    Require(label >= 0 && label < 10, "a label is one of the classes");
    for (const float value : values) Require(!floats || std::isfinite(value), "values are finite");
  }
}

// The lines of the text without blank lines at the end, split without using the code under test.
std::vector<absl::string_view> LinesOf(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const auto blank = [](absl::string_view line) {
    return line.find_first_not_of(absl::string_view(", \t\r\"")) == absl::string_view::npos;
  };
  while (!lines.empty() && blank(lines.back())) lines.pop_back();
  return lines;
}

// The number of header lines that are left out, according to a note; 0 without such a note.
int64_t HeaderLines(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    int64_t lines = 0;
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(note, absl::MaxSplits(' ', 1));
    if (absl::StartsWith(words.second, "header line") && absl::SimpleAtoi(words.first, &lines)) return lines;
  }
  return 0;
}

// True if the line has no quotes, and has a field with a number that cannot be the index of a column. A line
// with such a number is no header.
bool HasNumber(absl::string_view line) {
  if (line.find_first_of("\"xX") != absl::string_view::npos)
    return false;  // SimpleAtof accepts hexadecimal numbers, which CSV files may not have.
  const std::vector<std::string> fields = absl::StrSplit(line, ',');
  return std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
    float value = 0;
    return absl::SimpleAtof(field, &value) && std::isfinite(value) &&
           (value < 0 || value != std::floor(value) || value >= static_cast<float>(fields.size()));
  });
}

// Requires that every line is a sample, a header that a note names, or a blank line at the end.
void RequireNoLineIsLost(const proto::Job& job, absl::string_view input) {
  const absl::StatusOr<DatasetSizes> sizes = ReadDatasetSizes(job);
  Require(sizes.ok(), "what can be opened has sizes");
  const std::vector<absl::string_view> lines = LinesOf(input);
  const int64_t headers = HeaderLines(sizes->notes);
  Require(sizes->train + headers == static_cast<int64_t>(lines.size()), "no line is lost");
  Require(headers == 0 || !HasNumber(lines[headers - 1]), "no line with a number is a header");
}

}  // namespace

// Reads the input as a CSV file with ten classes: first with byte values, then with float values.
void FuzzCsv(absl::string_view input) {
  const InputFile file(input);
  for (const bool bytes : {true, false}) {
    proto::Job job;
    job.mutable_data()->set_classes(10);
    job.mutable_data()->mutable_csv()->add_train(file.path());
    job.mutable_data()->mutable_csv()->set_bytes(bytes);
    const absl::StatusOr<Datasets> data = LoadDatasets(job);
    if (data.ok()) {
      ReadAll(*data->train, file.path(), static_cast<int64_t>(input.size()));
      RequireNoLineIsLost(job, input);
    } else {
      RequireRefusal(data.status(), file.path());
    }
  }
}

}  // namespace tethys::fuzz
