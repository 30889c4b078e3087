#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/augmentation.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/data_format.h"
#include "runtime/data/data_notes.h"
#include "runtime/data/picture.h"
#include "runtime/data/resized_source.h"
#include "runtime/data/sample_cache.h"

namespace tethys {
namespace {

// With means of their own; devices take no more.
constexpr int64_t kMostChannels = 16, kMostFeatures = 1 << 16;

bool HasTest(const proto::Data& data) { return FormatOf(data).has(data, DataPart::kTest); }

// A remedy if the one part is in colour and the other grey.
std::string ColourRemedy(const DataHeader& train, const DataHeader& test) {
  if (!IsPicture(train.spec.shape) || !IsPicture(test.spec.shape)) return "";
  const Shape one = WithChannels(train.spec.shape), other = WithChannels(test.spec.shape);
  if (one[0] != other[0] || one[1] != other[1] || one[2] == other[2]) return "";
  return "; one is grey, the other in colour: for folders of pictures write data.image_folder.channels: 3, "
         "or 1 to make "
         "all grey";
}

absl::Status CheckSameShapes(const DataHeader& train, const DataHeader& test) {
  if (train.spec.shape != test.spec.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples of ", test.values_name, " are ", ShapeText(test.spec.shape), ", of ",
                     train.values_name, " ", ShapeText(train.spec.shape),
                     ": training and test data must have one shape", ColourRemedy(train, test)));
  }
  if (train.spec.type != test.spec.type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "samples of ", test.values_name, " are ", ValueTypeText(test.spec.type), ", of ", train.values_name,
        " ", ValueTypeText(train.spec.type), ": training and test data must have one type"));
  }
  if (train.spec.labels == test.spec.labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the labels of ", test.labels_name, " are ", LabelText(test.spec.labels), ", of ", train.labels_name,
      " ", LabelText(train.spec.labels), ": training and test data must have one shape"));
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
                     ": give one, or one a ", table ? "feature" : "channel", " (", channels, ")"));
  }
  if (!data.per_channel() || channels <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.per_channel is true, but samples are ", ShapeText(spec.shape), ": at most ", most,
                   table ? " features" : " channels", " have numbers of their own"));
}

// The headers of a job's data; without a test its samples are 0.
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

// The samples of each file that are among the first `samples` of all.
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

// The sums over the training split from which its standardisation is computed, by channel. `Sum` is that of
// values less `origin`.
template <typename Sum>
struct Moments {
  std::vector<Sum> values, squares;
};

// `Value` is the type of the values. With one channel the sums are those of all values. Floats are summed as
// their distances from `origins`, which are near the mean.
template <typename Value, typename Sum>
absl::StatusOr<Moments<Sum>> SumOf(const Dataset& train, const std::vector<Value>& origins) {
  const size_t channels = origins.size();
  std::vector<Value> sample(train.sample_elements());
  Moments<Sum> sums = {.values = std::vector<Sum>(channels), .squares = std::vector<Sum>(channels)};
  for (int64_t i = 0; i < train.size(); ++i) {
    TETHYS_RETURN_IF_ERROR(train.ReadValues(i, reinterpret_cast<uint8_t*>(sample.data())));
    for (size_t begin = 0; begin < sample.size(); begin += channels) {
      for (size_t channel = 0; channel < channels; ++channel) {
        const Sum value = static_cast<Sum>(sample[begin + channel]) - static_cast<Sum>(origins[channel]);
        sums.values[channel] += value;
        sums.squares[channel] += value * value;
      }
    }
  }
  return sums;
}

// The values with which the first sample begins, one for each channel: sums of floats far from 0 lose no
// digits if they are sums of distances from such a value.
absl::StatusOr<std::vector<float>> OriginsOf(const Dataset& train, int64_t channels) {
  std::vector<float> sample(train.sample_elements());
  TETHYS_RETURN_IF_ERROR(train.ReadValues(0, reinterpret_cast<uint8_t*>(sample.data())));
  sample.resize(channels);
  return sample;
}

// The scaling by the moments of `count` values a channel, divided by `unit`. In a table channels are
// features.
template <typename Sum, typename Value>
absl::StatusOr<InputScaling> ScalingOfMoments(const Moments<Sum>& sums, const std::vector<Value>& origins,
                                              int64_t values, double unit, bool table) {
  const auto count = static_cast<double>(values);
  InputScaling scaling = {.mean = {}, .deviation = {}};
  for (size_t channel = 0; channel < origins.size(); ++channel) {
    const double mean = static_cast<double>(sums.values[channel]) / count;
    const double variance = static_cast<double>(sums.squares[channel]) / count - mean * mean;
    auto deviation = static_cast<float>(std::sqrt(std::max(variance, 0.0)) / unit);
    // A feature that is constant becomes 0, as in scikit-learn: tables often have some.
    if (table && !(deviation > 0)) deviation = 1;
    if (!(deviation > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "all pixels of the training split", origins.size() > 1 ? absl::StrCat(" in channel ", channel) : "",
          " are equal, so they cannot be standardised: check the data, or set data.compute_standardisation "
          "to false"));
    }
    scaling.mean.push_back(static_cast<float>((mean + static_cast<double>(origins[channel])) / unit));
    scaling.deviation.push_back(deviation);
  }
  return scaling;
}

// The mean and deviation of the values of each channel, or of all if `channels` is 1.
absl::StatusOr<InputScaling> ComputeScaling(const Dataset& train, int64_t channels) {
  const int64_t count = train.size() * train.sample_elements() / channels;
  const bool table = channels > 1 && train.sample_shape().size() == 1;
  if (train.spec().type == ValueType::kByte) {
    const std::vector<uint8_t> zeros(channels);
    TETHYS_ASSIGN_OR_RETURN(const auto sums, (SumOf<uint8_t, uint64_t>(train, zeros)));
    return ScalingOfMoments(sums, zeros, count, 255, table);
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<float> origins, OriginsOf(train, channels));
  TETHYS_ASSIGN_OR_RETURN(const auto sums, (SumOf<float, double>(train, origins)));
  TETHYS_ASSIGN_OR_RETURN(InputScaling scaling, ScalingOfMoments(sums, origins, count, 1, table));
  scaling.type = ValueType::kFloat;
  return scaling;
}

// The job with chief:// left out of its paths: only processes of the chief's machine read them.
absl::StatusOr<proto::Job> ReadHere(const proto::Job& named) {
  TETHYS_RETURN_IF_ERROR(ChiefPathsOf(named.data()).status());
  proto::Job job = named;
  *job.mutable_data() = OnChiefsMachine(named.data());
  return job;
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenUncached(const proto::Job& job, DataPart part,
                                                                 const DataHeader& header) {
  TETHYS_ASSIGN_OR_RETURN(auto source, FormatOf(job.data()).open(job.data(), part, LabelRulesOf(job)));
  TETHYS_ASSIGN_OR_RETURN(const SampleSpec spec, ResizedSpec(job.data(), source->spec()));
  source = Resized(std::move(source), spec);
  if (source->size() == header.samples && source->spec() == header.spec) return source;
  return absl::DataLossError(
      absl::StrCat(header.values_name, " changed while it was read: start the job again"));
}

// The first and the last samples of a source.
class EndsOfSource final : public SampleSource {
 public:
  EndsOfSource(std::shared_ptr<const SampleSource> source, int64_t first, int64_t last)
      : SampleSource(source->spec(), first + last), source_(std::move(source)), first_(first) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    return source_->Read(index < first_ ? index : index + source_->size() - size(), values, labels);
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
  const int64_t first_;
};

// The samples of a part that the job uses: the first, for training or the test, and the last, for the
// validation.
struct Used {
  int64_t first = 0, last = 0;
};

// A hash of everything that determines these samples.
absl::StatusOr<std::string> SamplesKey(const proto::Job& job, DataPart part, const Used& used) {
  constexpr int64_t kVersion = 1;  // Raised when a format decodes or resizes otherwise.
  const proto::Data& data = job.data();
  proto::Data kept = data;
  // These change which samples are used, and how, but no sample.
  kept.clear_validation_samples();
  kept.clear_limit_samples();
  kept.clear_mean();
  kept.clear_deviation();
  kept.clear_compute_standardisation();
  kept.clear_per_channel();
  kept.clear_prefetch_batches();
  kept.clear_loader_threads();
  kept.clear_augment();
  kept.clear_shuffle();
  kept.clear_sharding();
  kept.clear_cache();
  kept.clear_cache_dir();
  const LabelRules rules = LabelRulesOf(job);
  CacheKey key;
  key.Add(kVersion).Add(kept.SerializeAsString()).Add(static_cast<int64_t>(part));
  if (data.limit_samples() > 0) key.Add(used.first).Add(used.last);
  key.Add(rules.targets ? 1 : 0).Add(rules.classes).Add(rules.ignored);
  // The names of folders for training number the classes of the test, too.
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, FormatOf(data).files(data, DataPart::kTrain));
  for (const std::string& name : names) key.Add(name);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, EveryFileOf(data, part));
  for (const std::string& path : paths) {
    TETHYS_ASSIGN_OR_RETURN(const std::string version, FileVersion(path));
    key.Add(AbsolutePath(path)).Add(version);
  }
  return key.text();
}

// The used samples of a part, or, where nothing is cached, all.
absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Job& job, DataPart part,
                                                         const DataHeader& header, const Used& used) {
  const proto::Data& data = job.data();
  if (data.cache() == proto::Data::NONE) return OpenUncached(job, part, header);
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(data.cache_dir()));
  TETHYS_ASSIGN_OR_RETURN(const std::string key, SamplesKey(job, part, used));
  const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    TETHYS_ASSIGN_OR_RETURN(auto source, OpenUncached(job, part, header));
    return std::make_shared<EndsOfSource>(std::move(source), used.first, used.last);
  };
  return OpenCachedSamples(cache,
                           {.where = data.cache(),
                            .content = {.spec = header.spec, .samples = used.first + used.last, .key = key},
                            .rules = LabelRulesOf(job),
                            .threads = std::max(1, data.loader_threads()),
                            .description = FormatOf(data).place(data)},
                           open);
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
                     " (chief://PATH is a file of the chief's machine, which the command reads, too: run it "
                     "there, or put the same file here)"));
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
  headers.train.open_labels = headers.test.open_labels = nullptr;  // They hold memory.
  TETHYS_ASSIGN_OR_RETURN(const DatasetSizes sizes, SizesOf(job.data(), headers));
  TETHYS_ASSIGN_OR_RETURN(const auto train,
                          Open(job, DataPart::kTrain, headers.train, {sizes.train, sizes.validation}));
  Datasets datasets;
  datasets.file_samples = sizes.file_samples;
  datasets.train = std::make_shared<Dataset>(train, 0, sizes.train);
  if (sizes.validation > 0) {
    datasets.validation =
        std::make_shared<Dataset>(train, train->size() - sizes.validation, sizes.validation);
  }
  if (sizes.test > 0) {
    TETHYS_ASSIGN_OR_RETURN(const auto test, Open(job, DataPart::kTest, headers.test, {sizes.test, 0}));
    datasets.test = std::make_shared<Dataset>(test, 0, sizes.test);
  }
  return datasets;
}

absl::StatusOr<Datasets> LoadDatasetsUncached(proto::Job job) {
  job.mutable_data()->set_cache(proto::Data::NONE);
  return LoadDatasets(job);
}

absl::StatusOr<InputScaling> ResolveScaling(const proto::Data& data, const Dataset& train) {
  if (data.compute_standardisation())
    return ComputeScaling(train, data.per_channel() ? train.spec().scaled_channels() : 1);
  InputScaling scaling;
  scaling.type = train.spec().type;
  if (data.mean_size() > 0) scaling.mean.assign(data.mean().begin(), data.mean().end());
  if (data.deviation_size() > 0) scaling.deviation.assign(data.deviation().begin(), data.deviation().end());
  // A single number of one kind holds for every channel of the other.
  scaling.mean.resize(std::max(scaling.mean.size(), scaling.deviation.size()), scaling.mean.front());
  scaling.deviation.resize(scaling.mean.size(), scaling.deviation.front());
  return scaling;
}

}  // namespace tethys
