#include "runtime/job/data_validation.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"

namespace tethys {
namespace {

void CheckIdx(const proto::Idx& idx, Problems& problems) {
  problems.AddIf(idx.train_images().empty(), "data.idx.train_images",
                 "is missing: give the path of an IDX file");
  problems.AddIf(idx.train_labels().empty(), "data.idx.train_labels",
                 "is missing: give the path of an IDX file");
  problems.AddIf(idx.test_images().empty() != idx.test_labels().empty(),
                 idx.test_images().empty() ? "data.idx.test_images" : "data.idx.test_labels",
                 "is missing: give both test files, or neither for a job without a test");
}

// Checks the fields of standardisation and sets their defaults. The number of means and deviations is
// compared with the number of channels later, when the data are read.
void ResolveScaling(proto::Data& data, Problems& problems) {
  constexpr float kMost = 1e6;
  for (const float mean : data.mean()) {
    problems.AddIf(!(std::abs(mean) <= kMost), "data.mean",
                   absl::StrCat("is ", mean, " but must be from -1000000 to 1000000"));
  }
  for (const float deviation : data.deviation()) {
    problems.AddIf(!(deviation > 0 && deviation <= kMost), "data.deviation",
                   absl::StrCat("is ", deviation, " but must be above 0 and at most 1000000"));
  }
  problems.AddIf(
      data.mean_size() > 1 && data.deviation_size() > 1 && data.mean_size() != data.deviation_size(),
      "data.deviation",
      absl::StrCat("has ", data.deviation_size(), " numbers, but data.mean has ", data.mean_size(),
                   ": give one number, or one for each channel"));
  constexpr int kMostFeatures = 1 << 16;
  problems.AddIf(std::max(data.mean_size(), data.deviation_size()) > kMostFeatures,
                 data.mean_size() > kMostFeatures ? "data.mean" : "data.deviation",
                 absl::StrCat("has more than ", kMostFeatures,
                              " numbers: one for all, or one for each channel or feature"));
  problems.AddIf(
      data.per_channel() && !data.compute_standardisation(), "data.per_channel",
      "is true, but data.compute_standardisation is not: set it to true, or give a mean for each channel");
  if (data.compute_standardisation()) {
    const char* given = data.mean_size() > 0 ? "data.mean" : "data.deviation";
    problems.AddIf(data.mean_size() > 0 || data.deviation_size() > 0, given,
                   "is given, but data.compute_standardisation is true: remove one of the two");
    return;
  }
  if (data.mean_size() == 0) data.add_mean(0);
  if (data.deviation_size() == 0) data.add_deviation(1);
}

void CheckClassNames(const proto::Data& data, Problems& problems) {
  // The longest name of a class, in bytes: as long as the name of a file can be.
  constexpr size_t kMostBytes = 255;
  if (data.class_name().empty()) return;
  problems.AddIf(data.class_name_size() != data.classes(), "data.class_name",
                 absl::StrCat("has ", data.class_name_size(), " names, but data.classes is ", data.classes(),
                              ": give one for each class, in the order of their numbers, or leave it out"));
  std::set<std::string> names;
  for (int i = 0; i < data.class_name_size(); ++i) {
    const std::string& name = data.class_name(i);
    const bool control =
        std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    problems.AddIf(name.empty() || name.size() > kMostBytes || control, "data.class_name",
                   absl::StrCat("of class ", i, " must be 1 to ", kMostBytes, " bytes on one line"));
    problems.AddIf(
        !names.insert(name).second, "data.class_name",
        absl::StrCat("gives the name '", name, "' to two classes: give each class a name of its own"));
  }
}

void CheckImageFolder(const proto::ImageFolder& folder, Problems& problems) {
  problems.AddIf(folder.train().empty(), "data.image_folder.train",
                 "is missing: give a folder that contains one folder of pictures for each class");
  for (const std::string& path : {folder.train(), folder.test()}) {
    problems.AddIf(absl::StrContains(path, "://") && !absl::StartsWith(path, "chief://"), "data.image_folder",
                   "is a URL, but folders are read from local disks or from the disks of the chief's machine "
                   "(chief://): copy the folder, or convert it to TFRecord files (tethys data convert)");
  }
  problems.AddIf(folder.channels() == 2, "data.image_folder.channels",
                 "is 2: pictures have 1 channel (grey) or 3 (red, green, blue)");
}

void CheckTfrecord(const proto::Tfrecord& tfrecord, Problems& problems) {
  problems.AddIf(tfrecord.train().empty(), "data.tfrecord.train",
                 "is missing: give the paths of the files, such as train-*.tfrecord");
  const auto& shape = tfrecord.shape();
  const bool sides =
      std::all_of(shape.begin(), shape.end(), [](int64_t side) { return side >= 1 && side <= 1 << 20; });
  problems.AddIf(!shape.empty() && (shape.size() < 2 || shape.size() > 3 || !sides), "data.tfrecord.shape",
                 "must be [height, width] or [height, width, channels], each from 1 to 1048576");
}

void CheckNpy(const proto::Npy& npy, Problems& problems) {
  problems.AddIf(npy.train_images().empty(), "data.npy.train_images",
                 "is missing: give the path of a .npy file");
  problems.AddIf(npy.train_labels().empty(), "data.npy.train_labels",
                 "is missing: give the path of a .npy file");
  problems.AddIf(npy.test_images().empty() != npy.test_labels().empty(),
                 npy.test_images().empty() ? "data.npy.test_images" : "data.npy.test_labels",
                 "is missing: give both test files, or neither for a job without a test");
}

void ResolveLoading(proto::Data& data, proto::Tuning& tuning, Problems& problems) {
  if (!tuning.has_prefetch_batches()) tuning.set_prefetch_batches(data.loader_threads());
  if (!data.has_loader_threads()) data.set_loader_threads(std::min(1, tuning.prefetch_batches()));
  problems.AddIf(data.loader_threads() > tuning.prefetch_batches(), "data.loader_threads",
                 absl::StrCat("is ", data.loader_threads(), ", but tuning.prefetch_batches is ",
                              tuning.prefetch_batches(),
                              ": each thread builds a batch of its own; leave prefetch_batches out"));
  problems.AddIf(tuning.prefetch_batches() > 0 && data.loader_threads() == 0, "data.loader_threads",
                 "is 0, but tuning.prefetch_batches is above 0: leave prefetch_batches out");
}

// Sets the default shuffle. The number of files, which must be large enough for the sharding FILE, is checked
// later, when the data are read.
void ResolveOrder(proto::Data& data) {
  if (data.shuffle().kind_case() == proto::Shuffle::KIND_NOT_SET) data.mutable_shuffle()->mutable_full();
}

void CheckCifar(const proto::Cifar& cifar, Problems& problems) {
  problems.AddIf(cifar.train().empty(), "data.cifar.train",
                 "is missing: give the paths of the files, such as data_batch_*.bin");
}

void CheckCsv(const proto::Csv& csv, Problems& problems) {
  problems.AddIf(csv.train().empty(), "data.csv.train",
                 "is missing: give the paths of the files, such as train-*.csv");
  const auto& shape = csv.shape();
  problems.AddIf(
      std::any_of(shape.begin(), shape.end(), [](int64_t side) { return side < 1; }) || shape.size() > 8,
      "data.csv.shape", "must be the shape of a sample: at most 8 numbers of at least 1");
  if (!csv.has_delimiter()) return;
  static constexpr absl::string_view kOfNumbers = "0123456789+-.eE\"\r\n";
  const std::string& delimiter = csv.delimiter();
  problems.AddIf(delimiter.size() != 1 || kOfNumbers.find(delimiter[0]) != absl::string_view::npos,
                 "data.csv.delimiter",
                 "must be one character that does not occur in numbers, such as \";\", \" \" or \"\\t\"");
}

void CheckSynthetic(const proto::Synthetic& synthetic, Problems& problems) {
  problems.AddIf(synthetic.kind_case() == proto::Synthetic::KIND_NOT_SET, "data.synthetic",
                 "has no kind: write noise { shape: [224, 224, 3] }, or sections { height: 96 width: 128 }");
  if (!synthetic.has_noise()) return;
  constexpr int64_t kMostValues = int64_t{1} << 30;
  const auto& shape = synthetic.noise().shape();
  int64_t values = 1;
  for (const int64_t side : shape) {
    values = side >= 1 && side <= kMostValues / values ? values * side : kMostValues + 1;
    if (values > kMostValues) break;
  }
  problems.AddIf(
      shape.empty() || shape.size() > 3 || values > kMostValues, "data.synthetic.noise.shape",
      "must be the shape of a sample: 1 to 3 numbers of at least 1, whose product is at most 2^30");
}

// The requirements of a format on its fields, beyond the ranges of numbers.
struct SourceRules {
  proto::Data::SourceCase kind;
  const char* field;
  void (*check)(const proto::Data& data, Problems& problems);
};

constexpr SourceRules kSourceRules[] = {
    {proto::Data::kIdx, "idx", [](const auto& data, Problems& problems) { CheckIdx(data.idx(), problems); }},
    {proto::Data::kCifar, "cifar",
     [](const auto& data, Problems& problems) { CheckCifar(data.cifar(), problems); }},
    {proto::Data::kCsv, "csv", [](const auto& data, Problems& problems) { CheckCsv(data.csv(), problems); }},
    {proto::Data::kImageFolder, "image_folder",
     [](const auto& data, Problems& problems) { CheckImageFolder(data.image_folder(), problems); }},
    {proto::Data::kTfrecord, "tfrecord",
     [](const auto& data, Problems& problems) { CheckTfrecord(data.tfrecord(), problems); }},
    {proto::Data::kNpy, "npy", [](const auto& data, Problems& problems) { CheckNpy(data.npy(), problems); }},
    {proto::Data::kSynthetic, "synthetic",
     [](const auto& data, Problems& problems) { CheckSynthetic(data.synthetic(), problems); }},
};

// Refuses a user name or password before the host, because the URL appears in every log and in the run
// directory.
void CheckUrl(const std::string& field, const std::string& text, Problems& problems) {
  const size_t begin = text.find("://");
  if (begin == std::string::npos) return;
  const std::string host = text.substr(begin + 3, text.find_first_of("/?", begin + 3) - begin - 3);
  problems.AddIf(host.find('@') != std::string::npos, field,
                 "has a user name or password before the host: remove it from the URL, and write it into the "
                 "file of secrets (--secrets)");
}

// Checks every path of a format's message.
void CheckUrls(const google::protobuf::Message& source, const std::string& name, Problems& problems) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& fields = *source.GetReflection();
  std::vector<const FieldDescriptor*> set;
  fields.ListFields(source, &set);
  for (const FieldDescriptor* field : set) {
    if (field->type() != FieldDescriptor::TYPE_BYTES) continue;
    const std::string path = absl::StrCat(name, ".", field->name());
    if (!field->is_repeated()) {
      CheckUrl(path, fields.GetString(source, field), problems);
      continue;
    }
    for (int i = 0; i < fields.FieldSize(source, field); ++i) {
      CheckUrl(path, fields.GetRepeatedString(source, field, i), problems);
    }
  }
}

void CheckAllUrls(const proto::Data& data, Problems& problems) {
  const auto* const source = proto::Data::descriptor()->FindFieldByNumber(data.source_case());
  if (source == nullptr) return;
  CheckUrls(data.GetReflection()->GetMessage(data, source), absl::StrCat("data.", source->name()), problems);
}

void CheckSource(const proto::Data& data, Problems& problems) {
  std::vector<std::string> others;
  for (const SourceRules& rules : kSourceRules) {
    if (rules.kind == data.source_case()) return rules.check(data, problems);
    if (rules.kind != proto::Data::kIdx) others.emplace_back(rules.field);
  }
  problems.Add("data", absl::StrCat("has no source: write idx { train_images: ... train_labels: ... }, or ",
                                    absl::StrJoin(others, ", ")));
}

}  // namespace

void ResolveData(proto::Job& job, Problems& problems) {
  proto::Data& data = *job.mutable_data();
  CheckSource(data, problems);
  CheckAllUrls(data, problems);
  CheckClassNames(data, problems);
  ResolveLoading(data, *job.mutable_tuning(), problems);
  ResolveOrder(data);
  ResolveScaling(data, problems);
}

}  // namespace tethys
