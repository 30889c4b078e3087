#include "runtime/data/idx.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/data/byte_source.h"
#include "runtime/data/byte_stream.h"
#include "runtime/data/known_format.h"

namespace tethys {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr uint8_t kFloat = 0x0D;
constexpr int kMaxAxes = 8;
constexpr int64_t kMagicBytes = 4;
constexpr int64_t kMaxValues = int64_t{1} << 38;  // 256 GiB. A header that announces more is damaged.
// One byte of a deflate stream expands to at most this many bytes (zlib's technical notes).
constexpr int64_t kMaxExpansion = 1032;
constexpr int64_t kFirstStep = int64_t{1} << 20;

bool IsTypeOf(uint8_t type, IdxKind kind) {
  return type == (kind == IdxKind::kTargets ? kFloat : kUnsignedByte) ||
         (kind == IdxKind::kImages && type == kFloat);
}

const char* TypeName(uint8_t type) {
  switch (type) {
    case 0x08:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit integers";
    case 0x0C:
      return "32-bit integers";
    case 0x0D:
      return "32-bit floats";
    case 0x0E:
      return "64-bit floats";
    default:
      return "an unknown type";
  }
}

// Reads one IDX file from its start.
class IdxReader {
 public:
  explicit IdxReader(const std::string& path) : path_(path) {}

  absl::Status Open();
  absl::StatusOr<IdxHeader> ReadHeader(IdxKind kind);
  // Reads `count` bytes of values into `values`. Further bytes in the file are an error.
  absl::Status ReadValues(int64_t count, ByteBuffer& values);

 private:
  absl::Status CheckMagic(const uint8_t* magic, IdxKind kind);
  // Names the format of the file (WhatItIs). Requires that only the bytes `magic` of the file were read so
  // far.
  std::string WhatBegins(const uint8_t* magic);
  absl::Status CheckFits(const IdxHeader& header, int64_t header_bytes) const;
  absl::Status Truncated(absl::string_view part, int64_t missing) const;
  absl::Status Invalid(absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", problem));
  }

  const std::string path_;
  std::unique_ptr<ByteStream> file_;
};

absl::Status IdxReader::Open() {
  TETHYS_ASSIGN_OR_RETURN(auto bytes, OpenFile(path_));
  TETHYS_ASSIGN_OR_RETURN(file_, ByteStream::Open(std::move(bytes)));
  return absl::OkStatus();
}

absl::Status IdxReader::Truncated(absl::string_view part, int64_t missing) const {
  return absl::DataLossError(absl::StrCat(path_, ": the file is truncated: ", missing, " bytes of its ", part,
                                          " are missing", file_->gzipped() ? " (after decompression)" : "",
                                          ": fetch it again"));
}

std::string IdxReader::WhatBegins(const uint8_t* magic) {
  std::vector<uint8_t> begin(kTellingBytes);
  std::copy_n(magic, kMagicBytes, begin.begin());
  const absl::StatusOr<int64_t> more = file_->Read(begin.data() + kMagicBytes, kTellingBytes - kMagicBytes);
  begin.resize(kMagicBytes + (more.ok() ? *more : 0));
  return WhatItIs(begin);
}

absl::Status IdxReader::CheckMagic(const uint8_t* magic, IdxKind kind) {
  if (magic[0] != 0 || magic[1] != 0) {
    return Invalid(
        absl::StrCat("wrong magic number: this is not an IDX file (the format of MNIST), plain or gzipped",
                     WhatBegins(magic)));
  }
  if (const uint8_t type = magic[2]; !IsTypeOf(type, kind)) {
    const uint8_t expected = kind == IdxKind::kTargets ? kFloat : kUnsignedByte;
    return Invalid(absl::StrCat(
        "holds ", TypeName(type), " (type ", type, "), expected ", TypeName(expected), " (type ", expected,
        ")", kind == IdxKind::kImages ? " or 32-bit floats (type 13)" : "", ": convert the file"));
  }
  const int axes = magic[3];
  if (kind == IdxKind::kLabels && axes != 1 && axes != 3) {
    return Invalid(absl::StrCat(
        "has ", axes,
        " axes, but a file of labels has 1 or, for maps of labels, 3: are images and labels swapped?"));
  }
  if (kind == IdxKind::kTargets && axes < 1)
    return Invalid("has no axis, but a file of targets has at least 1");
  if (kind == IdxKind::kImages && axes < 3) {
    return Invalid(absl::StrCat("has ", axes,
                                " axes, but a file of images has 3 or more (count, height, width): ",
                                "are images and labels swapped?"));
  }
  if (axes > kMaxAxes)
    return Invalid(absl::StrCat("has ", axes, " axes, but at most ", kMaxAxes, " are supported"));
  return absl::OkStatus();
}

absl::StatusOr<IdxHeader> IdxReader::ReadHeader(IdxKind kind) {
  uint8_t magic[kMagicBytes];
  TETHYS_ASSIGN_OR_RETURN(const int64_t got_magic, file_->Read(magic, sizeof(magic)));
  if (got_magic < static_cast<int64_t>(sizeof(magic))) return Truncated("header", sizeof(magic) - got_magic);
  TETHYS_RETURN_IF_ERROR(CheckMagic(magic, kind));

  uint8_t bytes[4 * kMaxAxes];
  const int64_t size = 4 * magic[3];
  TETHYS_ASSIGN_OR_RETURN(const int64_t got, file_->Read(bytes, size));
  if (got < size) return Truncated("header", size - got);
  IdxHeader header = {.shape = {}, .type = magic[2] == kFloat ? ValueType::kFloat : ValueType::kByte};
  Shape& shape = header.shape;
  for (const uint8_t* at = bytes; at < bytes + size; at += 4) {
    shape.push_back(int64_t{at[0]} << 24 | at[1] << 16 | at[2] << 8 | at[3]);
    if (shape.back() == 0) {
      return Invalid(absl::StrCat("axis ", shape.size() - 1, " is 0: the file holds no samples"));
    }
  }
  TETHYS_RETURN_IF_ERROR(CheckFits(header, sizeof(magic) + size));
  return header;
}

// Refuses a header that announces more values than a file of this size can contain.
absl::Status IdxReader::CheckFits(const IdxHeader& header, int64_t header_bytes) const {
  const Shape& shape = header.shape;
  absl::StatusOr<int64_t> count = ElementCount(shape);
  if (!count.ok() || *count > kMaxValues) {
    return Invalid(absl::StrCat("the header announces the shape ", ShapeText(shape), ", more than ",
                                kMaxValues, " bytes: the header is damaged; fetch the file again"));
  }
  *count *= BytesOf(header.type);
  if (!file_->gzipped()) {
    const int64_t held = file_->file_bytes() - header_bytes;
    if (*count > held) return Truncated("values", *count - held);
    if (*count < held) {
      return absl::DataLossError(absl::StrCat(path_, ": ", held - *count, " bytes follow the ", *count,
                                              " bytes that the header announces for the shape ",
                                              ShapeText(shape), ": fetch the file again"));
    }
  } else if (*count / kMaxExpansion > file_->file_bytes()) {
    return Invalid(absl::StrCat("the header announces the shape ", ShapeText(shape), ", more than ",
                                file_->file_bytes(),
                                " bytes of gzip can hold: the header is damaged; fetch the file again"));
  }
  return absl::OkStatus();
}

absl::Status IdxReader::ReadValues(int64_t count, ByteBuffer& values) {
  int64_t done = 0;
  for (int64_t step = kFirstStep; done < count; step *= 2) {
    const int64_t want = std::min(step, count - done);
    TETHYS_RETURN_IF_ERROR(Annotate(values.Resize(done + want), path_));
    TETHYS_ASSIGN_OR_RETURN(const int64_t got, file_->Read(values.data() + done, want));
    done += got;
    if (got < want) return Truncated("values", count - done);
  }
  // Reading one byte beyond the values makes zlib verify the gzip checksum.
  uint8_t extra;
  TETHYS_ASSIGN_OR_RETURN(const int64_t got, file_->Read(&extra, 1));
  if (got > 0) {
    return absl::DataLossError(absl::StrCat(path_, ": more bytes follow the ", count,
                                            " bytes that the header announces: fetch the file again"));
  }
  if (file_->cut()) {
    return absl::DataLossError(absl::StrCat(
        path_, ": the file is truncated: the end of its gzip stream is missing: fetch it again"));
  }
  return absl::OkStatus();
}

// Converts float32 values to the byte order of the host.
void FromBigEndian(ByteBuffer& values) {
  for (uint8_t* at = values.data(); at < values.data() + values.size(); at += sizeof(uint32_t)) {
    const uint32_t bits = uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
    std::memcpy(at, &bits, sizeof(bits));
  }
}

}  // namespace

absl::Status ByteBuffer::Resize(int64_t size) {
  auto* moved =
      static_cast<uint8_t*>(std::realloc(data_.get(), static_cast<size_t>(std::max<int64_t>(size, 1))));
  if (moved == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", size, " bytes"));
  static_cast<void>(data_.release());
  data_.reset(moved);
  size_ = size;
  return absl::OkStatus();
}

absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, IdxKind kind) {
  IdxReader reader(path);
  TETHYS_RETURN_IF_ERROR(reader.Open());
  return reader.ReadHeader(kind);
}

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, IdxKind kind) {
  IdxReader reader(path);
  TETHYS_RETURN_IF_ERROR(reader.Open());
  IdxArray array;
  TETHYS_ASSIGN_OR_RETURN(array.header, reader.ReadHeader(kind));
  TETHYS_ASSIGN_OR_RETURN(const int64_t count, ElementCount(array.header.shape));
  TETHYS_RETURN_IF_ERROR(reader.ReadValues(count * BytesOf(array.header.type), array.values));
  if (array.header.type == ValueType::kFloat) FromBigEndian(array.values);
  return array;
}

}  // namespace tethys
