#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/crc32c.h"
#include "runtime/data/sample_cache.h"
#include "runtime/data/tfrecord_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

absl::Span<const uint8_t> Bytes(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void ReadSamples(const std::string& header, int64_t size) {
  const auto content = ParseSampleCacheHeader(Bytes(header), size);
  if (!content.ok()) return RequireRefusal(content.status(), "cache of samples");
  const SampleCacheLayout layout(content->spec, content->samples);
  Require(layout.size == size && layout.value_bytes >= 1 && layout.label_bytes >= 4,
          "the samples fit the file");
  Require(layout.record_bytes >= layout.value_bytes + layout.label_bytes + 8 &&
              layout.RecordOf(content->samples) == size,
          "the records hold values, labels and checksums");
  Require(SampleCacheHeader(*content) == header.substr(0, kSampleCacheHeader), "the header has one meaning");
}

void ReadIndex(const std::string& header, int64_t size) {
  const auto content = ParseRecordIndexHeader(Bytes(header), size);
  if (!content.ok()) return RequireRefusal(content.status(), "index of records");
  Require(content->records >= 1 && content->records * 8 + kRecordIndexHeader == size,
          "the places fit the index");
  Require(content->file_size / 16 >= content->records, "the records fit the file");
  Require(RecordIndexHeader(*content) == header.substr(0, kRecordIndexHeader), "the header has one meaning");
}

// The header with its correct checksum appended. Random bytes hardly ever have a correct checksum.
std::string WithChecksum(std::string header, int64_t size) {
  if (static_cast<int64_t>(header.size()) < size) return header;
  const int64_t at = size - static_cast<int64_t>(sizeof(uint32_t));
  const uint32_t crc = Crc32c(absl::string_view(header).substr(0, at));
  std::memcpy(&header[at], &crc, sizeof(crc));
  return header;
}

}  // namespace

void FuzzCache(absl::string_view input) {
  ByteReader reader(input.substr(0, 9));
  const auto size = static_cast<int64_t>(reader.Number() >> 1);
  input.remove_prefix(std::min<size_t>(9, input.size()));
  const std::string header(input);
  for (const int64_t file : {size, static_cast<int64_t>(input.size())}) {
    ReadSamples(header, file);
    ReadSamples(WithChecksum(header, kSampleCacheHeader), file);
    ReadIndex(header, file);
    ReadIndex(WithChecksum(header, kRecordIndexHeader), file);
  }
}

}  // namespace tethys::fuzz
