#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/crc32c.h"
#include "runtime/base/file.h"
#include "runtime/data/dataset.h"
#include "runtime/data/tfrecord_features.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

// The folder into which gzipped inputs are unpacked; it is made only when needed.
class CacheFolder {
 public:
  CacheFolder() : path_(absl::StrCat("/tmp/tethys-fuzz-", getpid())) {}
  ~CacheFolder() { Require(RemoveRecursively(path_).ok(), "the cache can be removed"); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

void Read(absl::string_view content, const Shape& shape) {
  const InputFile file(content);
  const CacheFolder cache;
  if (const auto features = ReadRecordFeatures(file.path(), cache.path()); !features.ok()) {
    RequireRefusal(features.status(), file.path());
  }
  proto::Job job;
  job.mutable_data()->set_cache_dir(cache.path());
  job.mutable_data()->set_classes(10);
  auto& tfrecord = *job.mutable_data()->mutable_tfrecord();
  tfrecord.add_train(file.path());
  for (const int64_t side : shape) tfrecord.add_shape(side);
  const absl::StatusOr<Datasets> data = LoadDatasets(job);
  if (!data.ok()) {
    RequireRefusal(data.status(), file.path());
    return;
  }
  const Dataset& train = *data->train;
  Require(train.size() * 16 <= static_cast<int64_t>(content.size()), "no more records than the file holds");
  // Larger samples are not decoded, because decoding one takes as long as testing many other inputs.
  constexpr int64_t kMuch = 1 << 20;
  if (train.sample_elements() > kMuch) return;
  std::vector<uint8_t> values(train.sample_bytes());
  std::vector<int32_t> labels(train.label_format().elements());
  for (int64_t i = 0; i < train.size(); ++i) {
    const absl::Status status = train.Read(i, values.data(), labels.data());
    if (!status.ok()) RequireRefusal(status, file.path());
    for (const int32_t label : labels) Require(label >= 0 && label < 10, "a label is one of the classes");
  }
}

// A TFRecord with this payload and the right checksums, which random bytes hardly ever have.
std::string Record(absl::string_view payload) {
  const uint64_t size = payload.size();
  const auto text = [](const auto& number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  const uint32_t head = MaskedCrc32c(text(size)), tail = MaskedCrc32c(payload);
  return absl::StrCat(text(size), text(head), payload, text(tail));
}

}  // namespace

void FuzzTfrecord(absl::string_view input) {
  for (const Shape& shape : {Shape{}, Shape{2, 2}}) {
    Read(input, shape);
    Read(Record(input), shape);
  }
}

}  // namespace tethys::fuzz
