#include "runtime/data/kept_samples.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/file.h"
#include "runtime/base/logging.h"
#include "runtime/base/process.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/chief_paths.h"
#include "runtime/data/host_cache.h"
#include "runtime/data/resized_source.h"
#include "runtime/data/sample_cache.h"

namespace tethys {
namespace {

// Unless the job asks for a cache, samples take at most 1 / kLeastFreeParts of the free disk space.
constexpr int64_t kLeastFreeParts = 4;

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenUncached(const proto::Job& job, DataPart part,
                                                                 const DataHeader& header) {
  TETHYS_ASSIGN_OR_RETURN(auto source, FormatOf(job.data()).open(job.data(), part, LabelRulesOf(job)));
  TETHYS_ASSIGN_OR_RETURN(const SampleSpec spec, ResizedSpec(job.data(), source->spec()));
  source = Resized(std::move(source), spec);
  if (source->size() == header.samples && source->spec() == header.spec) return source;
  return absl::DataLossError(
      absl::StrCat(header.values_name, " changed while it was read: start the job again"));
}

// A source with only the first and the last samples of another source.
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

// Reads another source, and sets `failed` if a sample could not be read. Such a failure is an error of the
// data, not of the cache.
class WatchedSource final : public SampleSource {
 public:
  WatchedSource(std::shared_ptr<const SampleSource> source, std::atomic<bool>& failed)
      : SampleSource(source->spec(), source->size()), source_(std::move(source)), failed_(failed) {}
  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    absl::Status status = source_->Read(index, values, labels);
    if (!status.ok()) failed_ = true;
    return status;
  }

 private:
  const std::shared_ptr<const SampleSource> source_;
  std::atomic<bool>& failed_;
};

bool IsLarge(const SampleSpec& spec, int64_t samples) {
  const int64_t each = spec.bytes() + spec.labels.elements() * static_cast<int64_t>(sizeof(int32_t));
  return samples >= (kLeastKept + each - 1) / each;
}

bool Unpacks(const proto::Data& data, DataPart part) {
  const DataFormat& format = FormatOf(data);
  return format.unpacks != nullptr && format.unpacks(data, part);
}

// ResourceExhausted: the samples would take too large a part of the free space on the cache's disk.
absl::Status CheckRoom(const HostCache& cache, const SampleCacheContent& content) {
  struct statvfs disk;
  if (statvfs(cache.folder().c_str(), &disk) != 0) return absl::OkStatus();
  const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  const int64_t size = SampleCacheLayout(content.spec, content.samples).size;
  if (size <= free / kLeastFreeParts) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      size, " bytes of decoded samples are more than a quarter of the ", free, " bytes that are free in ",
      cache.folder(), "; to keep the samples anyway, write data.cache: DISK"));
}

// ------------------------------------------------------------------------------------------ tidying
//
// An entry that the job did not ask for has a file NAME.of beside it, which lists the files from which the
// entry was made:
//
//   host NAME OF THE HOST
//   VERSION<tab>PATH                                                                           for each file
//
// A changed file never gets the same version again, so an entry of an earlier version is useless.

constexpr char kOf[] = ".of";
constexpr int64_t kMostOfBytes = 1 << 26;

absl::StatusOr<std::string> OriginText(const proto::Data& data, DataPart part) {
  std::string text = absl::StrCat("host ", HostName(), "\n");
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, EveryFileOf(data, part));
  for (const std::string& path : paths) {
    TETHYS_ASSIGN_OR_RETURN(const std::string version, FileVersion(path));
    absl::StrAppend(&text, version, "\t", AbsolutePath(path), "\n");
  }
  return text;
}

bool IsOutdated(const std::string& origin) {
  const std::vector<std::string> lines = absl::StrSplit(origin, '\n', absl::SkipEmpty());
  if (lines.empty() || lines[0] != absl::StrCat("host ", HostName())) return false;
  return std::any_of(lines.begin() + 1, lines.end(), [](const std::string& line) {
    const std::pair<std::string, std::string> file = absl::StrSplit(line, absl::MaxSplits('\t', 1));
    if (IsUrlPath(file.second)) return false;
    const absl::StatusOr<std::string> version = FileVersion(file.second);
    return version.ok() ? *version != file.first : absl::IsNotFound(version.status());
  });
}

// Removes entries of files that have changed or are gone.
void RemoveOutdated(const HostCache& cache) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(cache.folder());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    absl::string_view key = name;
    // The folder may contain files of other programs.
    if (!absl::ConsumeSuffix(&key, kOf) || !absl::ConsumePrefix(&key, SampleEntryName("")) ||
        key.size() != CacheKey().text().size()) {
      continue;
    }
    const absl::StatusOr<std::string> origin = ReadFile(cache.PathOf(name), kMostOfBytes);
    if (!origin.ok() || !IsOutdated(*origin)) continue;
    for (const std::string& other : *names) {
      // The lock and the partial entry may be in use: a process that holds the lock writes the partial entry.
      if (absl::EndsWith(other, ".lock") || absl::EndsWith(other, ".partial")) continue;
      if (absl::StrContains(other, key)) unlink(cache.PathOf(other).c_str());
    }
  }
}

// ------------------------------------------------------------------------------------------ opening

// Sets `of_data` if the error concerns the data: such an error would also occur without a cache.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenKept(const proto::Job& job, DataPart part,
                                                             const DataHeader& header,
                                                             const UsedSamples& used,
                                                             std::atomic<bool>& of_data) {
  const proto::Data& data = job.data();
  TETHYS_ASSIGN_OR_RETURN(const HostCache cache, HostCache::Open(data.cache_dir()));
  TETHYS_ASSIGN_OR_RETURN(const std::string key, SamplesKey(job, part, used));
  const SampleCacheRequest request = {
      .where = data.has_cache() ? data.cache() : proto::Data::DISK,
      .content = {.spec = header.spec, .samples = used.first + used.last, .key = key},
      .rules = LabelRulesOf(job),
      .threads = std::max(1, data.loader_threads()),
      .description = FormatOf(data).place(data)};
  const absl::StatusOr<std::string> origin = OriginText(data, part);
  bool made = false;
  const auto open = [&]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    if (!data.has_cache()) {
      RemoveOutdated(cache);
      TETHYS_RETURN_IF_ERROR(CheckRoom(cache, request.content));
    }
    made = true;
    absl::StatusOr<std::shared_ptr<const SampleSource>> source = OpenUncached(job, part, header);
    of_data = !source.ok();
    TETHYS_RETURN_IF_ERROR(source.status());
    return std::make_shared<WatchedSource>(
        std::make_shared<EndsOfSource>(*std::move(source), used.first, used.last), of_data);
  };
  absl::StatusOr<std::shared_ptr<const SampleSource>> kept = OpenCachedSamples(cache, request, open);
  if (kept.ok() && made && origin.ok() && !data.has_cache()) {
    WriteFileAtomically(absl::StrCat(cache.PathOf(SampleEntryName(key)), kOf), *origin).IgnoreError();
  }
  return kept;
}

}  // namespace

bool KeepsSamples(const proto::Data& data, DataPart part, const SampleSpec& spec, int64_t samples) {
  if (data.has_cache()) return data.cache() != proto::Data::NONE;
  return IsLarge(spec, samples) && Unpacks(data, part);
}

bool UnpacksSamples(const proto::Data& named, const SampleSpec& spec, int64_t samples) {
  const proto::Data data = OnChiefsMachine(named);
  if (!Unpacks(data, DataPart::kTrain)) return false;
  if (IsLarge(spec, samples)) return true;
  // Even if the job uses few samples, a large file takes long to unpack or parse.
  const absl::StatusOr<std::vector<std::string>> paths = FormatOf(data).files(data, DataPart::kTrain);
  if (!paths.ok()) return false;
  return std::any_of(paths->begin(), paths->end(), [](const std::string& path) {
    const absl::StatusOr<LocalFileState> state = StateOfLocalFile(path);
    return state.ok() && state->size >= kLeastKept;
  });
}

bool KeepsScaling(const proto::Data& data, const SampleSpec& spec, int64_t samples) {
  if (!data.compute_standardisation()) return false;
  return data.has_cache() ? data.cache() != proto::Data::NONE : IsLarge(spec, samples);
}

absl::StatusOr<std::string> SamplesKey(const proto::Job& job, DataPart part, const UsedSamples& used) {
  constexpr int64_t kVersion = 2;  // Must be raised when a format decodes or resizes differently.
  const proto::Data& data = job.data();
  proto::Data kept = data;
  // These fields determine which samples are used, and how they are used. They do not change the samples.
  kept.clear_validation_samples();
  kept.clear_limit_samples();
  kept.clear_mean();
  kept.clear_deviation();
  kept.clear_compute_standardisation();
  kept.clear_per_channel();
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
  // The names of the folders for training also determine the numbers of the classes of the test part.
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> names, FormatOf(data).files(data, DataPart::kTrain));
  for (const std::string& name : names) key.Add(name);
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> paths, EveryFileOf(data, part));
  for (const std::string& path : paths) {
    TETHYS_ASSIGN_OR_RETURN(const std::string version, FileVersion(path));
    key.Add(AbsolutePath(path)).Add(version);
  }
  return key.text();
}

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenSamples(const proto::Job& job, DataPart part,
                                                                const DataHeader& header,
                                                                const UsedSamples& used) {
  if (!KeepsSamples(job.data(), part, header.spec, header.samples)) return OpenUncached(job, part, header);
  std::atomic<bool> of_data{false};
  absl::StatusOr<std::shared_ptr<const SampleSource>> kept = OpenKept(job, part, header, used, of_data);
  if (kept.ok() || of_data || job.data().has_cache()) return kept;
  TETHYS_LOG(Info, "samples of ", header.values_name, " are read without a cache: ", kept.status().message());
  return OpenUncached(job, part, header);
}

}  // namespace tethys
