#include "runtime/data/dataset.h"

#include <algorithm>

#include "runtime/base/thread.h"
#include "runtime/data/augmentation.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/data_format.h"
#include "runtime/data/data_notes.h"
#include "runtime/data/input_scaling.h"
#include "runtime/data/kept_samples.h"
#include "runtime/data/kept_scaling.h"
#include "runtime/data/picture.h"
#include "runtime/data/resized_source.h"

namespace tethys {
namespace {

// The most channels or features that can have a mean of their own. The devices set these limits.
constexpr int64_t kMostChannels = 16, kMostFeatures = 1 << 16;

bool HasTest(const proto::Data& data) { return FormatOf(data).has(data, DataPart::kTest); }

// A remedy if one part is in colour and the other is grey.
std::string ColourRemedy(const DataHeader& train, const DataHeader& test) {
  if (!IsPicture(train.spec.shape) || !IsPicture(test.spec.shape)) return "";
  const Shape one = WithChannels(train.spec.shape), other = WithChannels(test.spec.shape);
  if (one[0] != other[0] || one[1] != other[1] || one[2] == other[2]) return "";
  return "; one of these files is grey, the other in colour: for folders of pictures write "
         "data.image_folder.channels: 3, or 1 to convert all pictures to grey; for TFRecords give the shape "
         "of all pictures in data.tfrecord.shape";
}

absl::Status CheckSameShapes(const DataHeader& train, const DataHeader& test) {
  if (train.spec.shape != test.spec.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples of ", test.values_name, " are ", ShapeText(test.spec.shape), ", samples of ",
                     train.values_name, " are ", ShapeText(train.spec.shape),
                     ": training and test data must have one shape", ColourRemedy(train, test)));
  }
  if (train.spec.type != test.spec.type) {
    return absl::InvalidArgumentError(absl::StrCat("samples of ", test.values_name, " are ",
                                                   ValueTypeText(test.spec.type), ", samples of ",
                                                   train.values_name, " are ", ValueTypeText(train.spec.type),
                                                   ": training and test data must have one type"));
  }
  if (train.spec.labels == test.spec.labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the labels of ", test.labels_name, " are ",
                                                 LabelText(test.spec.labels), ", the labels of ",
                                                 train.labels_name, " are ", LabelText(train.spec.labels),
                                                 ": training and test data must have labels of one shape"));
}

absl::Status CheckScaling(const proto::Data& data, const SampleSpec& spec) {
  const int64_t channels = spec.scaled_channels();
  const bool table = spec.shape.size() == 1;
  const int64_t most = table ? kMostFeatures : kMostChannels;
  for (const auto& [name, count] :
       {std::pair{"mean", data.mean_size()}, {"deviation", data.deviation_size()}}) {
    if (count <= 1 || (count == channels && count <= most)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.", name, " has ", count, " numbers, but samples are ", ShapeText(spec.shape),
                     ": give one number, or one per ", table ? "feature" : "channel", " (", channels, ")"));
  }
  if (!data.per_channel() || channels <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.per_channel is true, but samples are ", ShapeText(spec.shape), ": at most ", most,
                   table ? " features" : " channels", " can have a mean and a deviation of their own"));
}

// The headers of a job's data. Without a test, the test's header has 0 samples.
struct Headers {
  DataHeader train, test;
};

absl::StatusOr<Headers> ReadHeaders(const proto::Job& job) {
  const DataFormat& format = FormatOf(job.data());
  const LabelRules rules = LabelRulesOf(job);
  Headers headers;
  TETHYS_ASSIGN_OR_RETURN(headers.train, format.read_header(job.data(), DataPart::kTrain, rules));
  TETHYS_ASSIGN_OR_RETURN(headers.train.spec, ResizedSpec(job.data(), headers.train.spec));
  TETHYS_RETURN_IF_ERROR(CheckAugmentation(job, headers.train.spec));
  TETHYS_RETURN_IF_ERROR(CheckScaling(job.data(), headers.train.spec));
  if (!HasTest(job.data())) return headers;
  TETHYS_ASSIGN_OR_RETURN(headers.test, format.read_header(job.data(), DataPart::kTest, rules));
  TETHYS_ASSIGN_OR_RETURN(headers.test.spec, ResizedSpec(job.data(), headers.test.spec));
  TETHYS_RETURN_IF_ERROR(CheckSameShapes(headers.train, headers.test));
  return headers;
}

// For each file, the number of its samples among the first `samples` of all files.
std::vector<int64_t> FirstOf(std::vector<int64_t> file_samples, int64_t samples) {
  for (int64_t& own : file_samples) {
    own = std::min(own, samples);
    samples -= own;
  }
  return file_samples;
}

absl::StatusOr<DatasetSizes> SizesOf(const proto::Data& data, const Headers& headers) {
  const DataHeader& train = headers.train;
  DatasetSizes sizes = {.validation = data.validation_samples(),
                        .test = headers.test.samples,
                        .sample_shape = train.spec.shape,
                        .type = train.spec.type,
                        .labels = train.spec.labels,
                        .file_samples = {},
                        .notes = {}};
  if (sizes.validation < 0 || sizes.validation >= train.samples) {
    return absl::InvalidArgumentError(absl::StrCat("data.validation_samples is ", sizes.validation, ", but ",
                                                   train.values_name, " holds ", train.samples,
                                                   " samples: leave at least one for training"));
  }
  sizes.train = train.samples - sizes.validation;
  const int64_t limit = data.limit_samples();
  if (limit < 0 || limit > sizes.train) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.limit_samples is ", limit, ", but only ", sizes.train,
                     " samples are left for training: lower it, or remove it to use all"));
  }
  if (limit > 0) sizes.train = limit;
  sizes.file_samples = FirstOf(train.file_samples, sizes.train);
  sizes.notes = train.notes;
  for (const std::string& note : headers.test.notes) {
    if (std::find(sizes.notes.begin(), sizes.notes.end(), note) == sizes.notes.end())
      sizes.notes.push_back(note);
  }
  return sizes;
}

// The job with chief:// removed from its paths: processes on the chief's machine read the files there.
absl::StatusOr<proto::Job> ReadHere(const proto::Job& named) {
  TETHYS_RETURN_IF_ERROR(ChiefPathsOf(named.data()).status());
  proto::Job job = named;
  *job.mutable_data() = OnChiefsMachine(named.data());
  return job;
}

int64_t ScalingChannels(const proto::Data& data, const SampleSpec& spec) {
  return data.per_channel() ? spec.scaled_channels() : 1;
}

// The key of the training samples, if values computed from them are kept; otherwise empty.
std::string TrainKeyOf(const proto::Job& job, const SampleSpec& spec, const UsedSamples& used) {
  if (!KeepsScaling(job.data(), spec, used.first)) return "";
  const absl::StatusOr<std::string> key = SamplesKey(job, DataPart::kTrain, used);
  return key.ok() ? *key : "";
}

using OpenedSamples = absl::StatusOr<std::shared_ptr<const SampleSource>>;

struct Opened {
  OpenedSamples train, test = nullptr;  // `test` stays null without a test.
};

// Opens both parts: at the same time if the test part must be unpacked, otherwise the training part first.
Opened OpenParts(const proto::Job& job, const Headers& headers, const UsedSamples& train,
                 const UsedSamples& test) {
  Opened opened;
  const auto open_test = [&] {
    if (test.first > 0) opened.test = OpenSamples(job, DataPart::kTest, headers.test, test);
  };
  const bool unpacks = !job.data().has_cache() && test.first > 0 &&
                       KeepsSamples(job.data(), DataPart::kTest, headers.test.spec, test.first);
  Thread beside;
  const bool together = unpacks && beside.Start(open_test).ok();
  opened.train = OpenSamples(job, DataPart::kTrain, headers.train, train);
  if (together) {
    beside.Join();
  } else if (opened.train.ok()) {
    open_test();
  }
  return opened;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DataFiles(const proto::Data& named) {
  const proto::Data data = OnChiefsMachine(named);
  const DataFormat& format = FormatOf(data);
  TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> paths, format.files(data, DataPart::kTrain));
  if (!HasTest(data)) return paths;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> test, format.files(data, DataPart::kTest));
  paths.insert(paths.end(), test.begin(), test.end());
  return paths;
}

absl::StatusOr<DatasetSizes> ReadDatasetSizes(const proto::Job& named) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, ReadHere(named));
  const absl::StatusOr<Headers> headers = ReadHeaders(job);
  if (absl::IsNotFound(headers.status()) && !ChiefPathsOf(named.data())->empty()) {
    return absl::NotFoundError(
        absl::StrCat(headers.status().message(),
                     " (chief://PATH names a file of the chief's machine, and this command reads the file, "
                     "too: run the command on the chief's machine, or put the same file on this machine)"));
  }
  TETHYS_RETURN_IF_ERROR(headers.status());
  TETHYS_ASSIGN_OR_RETURN(DatasetSizes sizes, SizesOf(job.data(), *headers));
  const DataHeader* const test = sizes.test > 0 ? &headers->test : nullptr;
  for (std::string& note : DataNotes(job, headers->train, sizes.train, test))
    sizes.notes.push_back(std::move(note));
  return sizes;
}

absl::StatusOr<Datasets> LoadDatasets(const proto::Job& named) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, ReadHere(named));
  TETHYS_ASSIGN_OR_RETURN(Headers headers, ReadHeaders(job));
  // Frees the memory that these functions own.
  headers.train.open_labels = headers.test.open_labels = nullptr;
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, SizesOf(job.data(), headers));
  const UsedSamples used = {sizes.train, sizes.validation};
  Datasets datasets;
  // The key is made before a file is read. So if a file is replaced while it is read, the key has the version
  // of the old file.
  datasets.train_key = TrainKeyOf(job, headers.train.spec, used);
  Opened opened = OpenParts(job, headers, used, {sizes.test, 0});
  TETHYS_ASSIGN_OR_RETURN(const auto train, std::move(opened.train));
  TETHYS_ASSIGN_OR_RETURN(const auto test, std::move(opened.test));
  datasets.file_samples = sizes.file_samples;
  datasets.train = std::make_shared<Dataset>(train, 0, sizes.train);
  if (sizes.validation > 0) {
    datasets.validation =
        std::make_shared<Dataset>(train, train->size() - sizes.validation, sizes.validation);
  }
  if (test != nullptr) datasets.test = std::make_shared<Dataset>(test, 0, sizes.test);
  return datasets;
}

absl::StatusOr<Datasets> LoadDatasetsUncached(proto::Job job) {
  job.mutable_data()->set_cache(proto::Data::NONE);
  return LoadDatasets(job);
}

absl::Status CheckLabelFiles(const proto::Job& named) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, ReadHere(named));
  const DataFormat& format = FormatOf(job.data());
  if (format.check_labels == nullptr) return absl::OkStatus();
  const LabelRules rules = LabelRulesOf(job);
  TETHYS_RETURN_IF_ERROR(format.check_labels(job.data(), DataPart::kTrain, rules));
  return HasTest(job.data()) ? format.check_labels(job.data(), DataPart::kTest, rules) : absl::OkStatus();
}

absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Dataset& train) {
  if (!data.compute_standardisation()) return SpecifiedScaling(data, train.spec().type);
  return ComputeScaling(train, ScalingChannels(data, train.spec()), [] {});
}

absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Datasets& datasets) {
  const Dataset& train = *datasets.train;
  if (!data.compute_standardisation() || datasets.train_key.empty()) return ResolveScaling(data, train);
  const KeptScaling kept(data.cache_dir(), {.data = data,
                                            .key = datasets.train_key,
                                            .samples = train.size(),
                                            .channels = ScalingChannels(data, train.spec()),
                                            .type = train.spec().type});
  return kept.FindOrMake([&](absl::FunctionRef<void()> progressed) {
    return ComputeScaling(train, ScalingChannels(data, train.spec()), progressed);
  });
}

absl::StatusOr<absl::optional<InputScaling>> FindScaling(const proto::Job& named, const SampleSpec& spec,
                                                         int64_t train, int64_t validation) {
  TETHYS_ASSIGN_OR_RETURN(const proto::Job job, ReadHere(named));
  const proto::Data& data = job.data();
  if (!data.compute_standardisation()) return absl::optional<InputScaling>(SpecifiedScaling(data, spec.type));
  const UsedSamples used = {train, validation};
  const std::string key = TrainKeyOf(job, spec, used);
  if (key.empty()) return absl::optional<InputScaling>();
  return KeptScaling(data.cache_dir(), {.data = data,
                                        .key = key,
                                        .samples = train,
                                        .channels = ScalingChannels(data, spec),
                                        .type = spec.type})
      .Find();
}

}  // namespace tethys
