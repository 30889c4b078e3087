#include "runtime/data/sample_cache_format.h"

#include <cstring>

#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

constexpr uint64_t kMagic = 0x31656863'61437954u;  // The bytes "TyCache1".
constexpr uint32_t kVersion = 2;
constexpr uint32_t kBytes = 1, kFloats = 2;  // The types of values.
constexpr size_t kMaxAxes = 8, kKeyLength = 32;
constexpr int64_t kMaxCount = int64_t{1} << 46;  // The most bytes or samples. A header with more is damaged.

template <typename Number>
void Put(Number number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename Number>
Number Take(const uint8_t*& at) {
  Number number;
  std::memcpy(&number, at, sizeof(number));
  at += sizeof(number);
  return number;
}

void PutAxes(const Shape& shape, std::string& out) {
  for (size_t i = 0; i < kMaxAxes; ++i) Put<uint64_t>(i < shape.size() ? shape[i] : 0, out);
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the cache of samples is damaged: ", what));
}

// Reads kMaxAxes axes and returns the first `count`, which are the shape. Refuses a shape whose number of
// elements, times `scale`, is above kMaxCount.
absl::StatusOr<Shape> TakeAxes(const uint8_t*& at, uint32_t count, int64_t scale) {
  Shape shape;
  int64_t product = scale;
  for (size_t i = 0; i < kMaxAxes; ++i) {
    const auto axis = Take<uint64_t>(at);
    if (i >= count && axis != 0) return Damaged("its axes are wrong");
    if (i >= count) continue;
    if (axis < 1 || axis > static_cast<uint64_t>(kMaxCount / product)) return Damaged("its axes are wrong");
    product *= static_cast<int64_t>(axis);
    shape.push_back(static_cast<int64_t>(axis));
  }
  return shape;
}

}  // namespace

SampleCacheLayout::SampleCacheLayout(const SampleSpec& spec, int64_t samples)
    : value_bytes(spec.bytes()), label_bytes(spec.labels.elements() * static_cast<int64_t>(sizeof(int32_t))) {
  constexpr int64_t kWord = 8, kSums = sizeof(SampleSums);
  record_bytes = (value_bytes + label_bytes + kSums + kWord - 1) / kWord * kWord;
  size = RecordOf(samples);
}

SampleSums SampleSumsOf(const uint8_t* values, int64_t value_bytes, const int32_t* labels,
                        int64_t label_bytes) {
  const auto sum = [](const void* data, int64_t bytes) {
    return Crc32c({static_cast<const char*>(data), static_cast<size_t>(bytes)});
  };
  return {.values = sum(values, value_bytes), .labels = sum(labels, label_bytes)};
}

std::string SampleCacheHeader(const SampleCacheContent& content) {
  const SampleSpec& spec = content.spec;
  TETHYS_CHECK(content.key.size() == kKeyLength && spec.shape.size() <= kMaxAxes &&
               spec.labels.shape.size() <= kMaxAxes);
  std::string header;
  Put(kMagic, header);
  Put(kVersion, header);
  Put(spec.type == ValueType::kFloat ? kFloats : kBytes, header);
  Put(static_cast<uint64_t>(content.samples), header);
  header += content.key;
  Put(static_cast<uint32_t>(spec.shape.size()), header);
  Put(static_cast<uint32_t>(spec.labels.shape.size()), header);
  PutAxes(spec.shape, header);
  PutAxes(spec.labels.shape, header);
  Put<uint32_t>(spec.labels.targets ? 1 : 0, header);
  Put(Crc32c(header), header);
  TETHYS_CHECK(static_cast<int64_t>(header.size()) == kSampleCacheHeader);
  return header;
}

absl::StatusOr<SampleCacheContent> ParseSampleCacheHeader(absl::Span<const uint8_t> header, int64_t size) {
  if (static_cast<int64_t>(header.size()) < kSampleCacheHeader || size < kSampleCacheRecords) {
    return Damaged("it is truncated");
  }
  const uint8_t* at = header.data();
  const absl::string_view text(reinterpret_cast<const char*>(at), kSampleCacheHeader);
  if (Take<uint64_t>(at) != kMagic) return Damaged("its first bytes are wrong");
  if (const auto version = Take<uint32_t>(at); version != kVersion) {
    return Damaged(absl::StrCat("it has version ", version, ", and this program reads version ", kVersion));
  }
  const uint8_t* sum = header.data() + kSampleCacheHeader - sizeof(uint32_t);
  if (Take<uint32_t>(sum) != Crc32c(text.substr(0, text.size() - sizeof(uint32_t)))) {
    return Damaged("the checksum of its header is wrong");
  }
  const auto type = Take<uint32_t>(at);
  if (type != kBytes && type != kFloats) return Damaged("the type of its values is unknown");
  SampleCacheContent content;
  content.spec.type = type == kFloats ? ValueType::kFloat : ValueType::kByte;
  const auto samples = Take<uint64_t>(at);
  if (samples < 1 || samples > static_cast<uint64_t>(kMaxCount / BytesOf(ValueType::kFloat)))
    return Damaged("its number of samples is wrong");
  content.samples = static_cast<int64_t>(samples);
  content.key.assign(reinterpret_cast<const char*>(at), kKeyLength);
  at += kKeyLength;
  const auto axes = Take<uint32_t>(at), label_axes = Take<uint32_t>(at);
  if (axes > kMaxAxes || label_axes > kMaxAxes) return Damaged("its number of axes is too large");
  TETHYS_ASSIGN_OR_RETURN(content.spec.shape,
                          TakeAxes(at, axes, content.samples * BytesOf(content.spec.type)));
  TETHYS_ASSIGN_OR_RETURN(content.spec.labels.shape, TakeAxes(at, label_axes, content.samples));
  const auto targets = Take<uint32_t>(at);
  if (targets > 1) return Damaged("the kind of its labels is unknown");
  content.spec.labels.targets = targets == 1;
  if (SampleCacheLayout(content.spec, content.samples).size != size) return Damaged("its size is wrong");
  return content;
}

}  // namespace tethys
