#include <zlib.h>

#include <string>

#include "runtime/data/idx.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

constexpr int64_t kMaxExpansion = 1032;  // Deflate expands one byte to at most this many bytes.

std::string Gzipped(absl::string_view text) {
  constexpr int kGzip = 16 + 10;
  z_stream stream = {};
  Require(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 1, Z_DEFAULT_STRATEGY) == Z_OK, "zlib has memory");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib packs");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

absl::StatusOr<Shape> Read(absl::string_view input, IdxKind kind) {
  const InputFile file(input);
  const absl::StatusOr<IdxHeader> header = ReadIdxHeader(file.path(), kind);
  const absl::StatusOr<IdxArray> array = ReadIdx(file.path(), kind);
  if (!array.ok()) {
    RequireRefusal(array.status(), file.path());
    return array.status();
  }
  const auto& [shape, type] = array->header;
  Require(header.ok() && header->shape == shape && header->type == type,
          "the header alone gives the same shape and type");
  Require(*ElementCount(shape) * BytesOf(type) == array->values.size(),
          "there are as many values as the shape says");
  Require(array->values.size() <= kMaxExpansion * static_cast<int64_t>(input.size()),
          "no more values than the file can hold");
  return shape;
}

}  // namespace

void FuzzIdx(absl::string_view input) {
  const bool is_gzip = !input.empty() && input[0] == '\x1f';
  for (const IdxKind kind : {IdxKind::kImages, IdxKind::kLabels}) {
    const absl::StatusOr<Shape> plain = Read(input, kind);
    if (is_gzip) continue;
    const absl::StatusOr<Shape> gzipped = Read(Gzipped(input), kind);
    Require(plain.ok() == gzipped.ok() && (!plain.ok() || *plain == *gzipped), "gzip changes nothing");
  }
}

}  // namespace tethys::fuzz
