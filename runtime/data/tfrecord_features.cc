#include "runtime/data/tfrecord_features.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/example.pb.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/picture.h"
#include "runtime/data/tfrecord_file.h"

namespace tethys {
namespace {

RecordFeature FeatureOf(const std::string& name, const proto::RecordedFeature& feature) {
  if (feature.float_list().value_size() > 0) {
    return {.name = name, .kind = RecordFeature::Kind::kFloats, .values = feature.float_list().value_size()};
  }
  if (feature.int64_list().value_size() > 0) {
    return {.name = name,
            .kind = RecordFeature::Kind::kIntegers,
            .values = feature.int64_list().value_size(),
            .first = feature.int64_list().value(0)};
  }
  RecordFeature found = {.name = name};
  for (const std::string& bytes : feature.bytes_list().value())
    found.values += static_cast<int64_t>(bytes.size());
  if (feature.bytes_list().value_size() != 1) return found;
  const std::string& bytes = feature.bytes_list().value(0);
  if (LooksLikePicture(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))) {
    found.kind = RecordFeature::Kind::kPicture;
  }
  return found;
}

}  // namespace

absl::StatusOr<std::vector<RecordFeature>> ReadRecordFeatures(const std::string& path,
                                                              const std::string& cache_dir) {
  TETHYS_ASSIGN_OR_RETURN(auto bytes, OpenFile(path));
  int64_t room = 0;  // One record is read, so the positions of the others need not be held.
  TETHYS_ASSIGN_OR_RETURN(const RecordFile file, RecordFile::Open(std::move(bytes), cache_dir, room));
  TETHYS_ASSIGN_OR_RETURN(const absl::string_view payload, file.ReadPayload(0));
  proto::RecordedExample example;
  if (!example.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.Name(0), " is no tf.Example, which is the only kind of record that is read"));
  }
  std::vector<RecordFeature> features;
  for (const proto::RecordedEntry& entry : example.features().feature()) {
    const RecordFeature feature = FeatureOf(entry.key(), entry.value());
    if (feature.values > 0) features.push_back(feature);
  }
  std::sort(features.begin(), features.end(),
            [](const RecordFeature& a, const RecordFeature& b) { return a.name < b.name; });
  return features;
}

}  // namespace tethys
