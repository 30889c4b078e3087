#include "runtime/data/known_format.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

// A format recognised by certain bytes at a certain position.
struct Mark {
  size_t offset;
  absl::string_view bytes;
  KnownFormat format;
};

using std::string_view_literals::operator""sv;

absl::string_view Bytes(std::string_view text) { return {text.data(), text.size()}; }

const std::vector<Mark>& Marks() {
  static constexpr char kConvert[] = "convert it to PNG or JPEG";
  static constexpr char kUnpack[] = "unpack it";
  static const auto* const marks = new std::vector<Mark>{
      {0, Bytes("\x1f\x8b"sv), {"compressed by gzip", "unpack it with gunzip, or tar -xzf for a .tar.gz"}},
      {0,
       Bytes("PK\x03\x04"sv),
       {"a ZIP archive (or .npz, .xlsx, .pt)", "unpack it, or export the table as CSV"}},
      {0, Bytes("PK\x05\x06"sv), {"an empty ZIP archive", kUnpack}},
      {257, Bytes("ustar"sv), {"a tar archive", "unpack it with tar -xf"}},
      {0, Bytes("BZh"sv), {"compressed by bzip2", "unpack it with bunzip2"}},
      {0,
       Bytes("\xfd"
             "7zXZ\0"sv),
       {"compressed by xz", "unpack it with unxz"}},
      {0, Bytes("\x28\xb5\x2f\xfd"sv), {"compressed by zstd", "unpack it with unzstd"}},
      {0, Bytes("\x04\x22\x4d\x18"sv), {"compressed by LZ4", "unpack it with unlz4"}},
      {0, Bytes("\xff\x06\0\0sNaPpY"sv), {"compressed by Snappy", kUnpack}},
      {0, Bytes("7z\xbc\xaf\x27\x1c"sv), {"a 7-Zip archive", kUnpack}},
      {0, Bytes("Rar!\x1a\x07"sv), {"a RAR archive", kUnpack}},
      {0, Bytes("\x89PNG\r\n\x1a\n"sv), {"a PNG picture", "pictures are read by data.image_folder"}},
      {0, Bytes("\xff\xd8\xff"sv), {"a JPEG picture", "pictures are read by data.image_folder"}},
      {0, Bytes("GIF8"sv), {"a GIF picture", kConvert}},
      {8, Bytes("WEBP"sv), {"a WebP picture", kConvert}},
      {0, Bytes("II*\0"sv), {"a TIFF picture", kConvert}},
      {0, Bytes("MM\0*"sv), {"a TIFF picture", kConvert}},
      {4, Bytes("ftypavif"sv), {"an AVIF picture", kConvert}},
      {4, Bytes("ftyphei"sv), {"a HEIC picture", kConvert}},
      {4, Bytes("ftypmif1"sv), {"a HEIC picture", kConvert}},
      {0, Bytes("\0\0\0\x0cjP  "sv), {"a JPEG 2000 picture", kConvert}},
      {0, Bytes("\xff\x4f\xff\x51"sv), {"a JPEG 2000 picture", kConvert}},
      {128, Bytes("DICM"sv), {"a DICOM picture", kConvert}},
      {0, Bytes("%PDF"sv), {"a PDF document", "fetch the data itself", true}},
      {0, Bytes("\x93NUMPY"sv), {"an array of NumPy", "arrays are read by data.npy"}},
      {0, Bytes("\x89HDF\r\n\x1a\n"sv), {"an HDF5 file", "write its arrays with numpy.save"}},
      {0, Bytes("MATLAB 5.0 MAT-file"sv), {"a MATLAB file", "write its arrays with numpy.save"}},
      {0, Bytes("PAR1"sv), {"a Parquet file", "write it with DataFrame.to_csv or numpy.save"}},
      {0, Bytes("ARROW1"sv), {"an Arrow file", "write it with DataFrame.to_csv or numpy.save"}},
      {0, Bytes("SQLite format 3"sv), {"an SQLite database", "export its table as CSV"}},
      {0, Bytes("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv), {"an old Office document", "export the table as CSV"}},
      {0, Bytes("Obj\x01"sv), {"an Avro file", "write it as CSV or TFRecords"}},
      {0,
       Bytes("version https://git-lfs"sv),
       {"a pointer of Git LFS, not the file itself", "fetch it with git lfs pull", true}},
      {0, Bytes("\xff\xfe"sv), {"text in UTF-16", "save it as UTF-8"}},
      {0, Bytes("\xfe\xff"sv), {"text in UTF-16", "save it as UTF-8"}},
  };
  return *marks;
}

// A pickle of protocol 2 to 5 begins with the protocol's number, followed by frames, a dictionary, a list, a
// tuple or a call.
bool IsPickle(absl::Span<const uint8_t> begin) {
  if (begin.size() < 3 || begin[0] != 0x80 || begin[1] < 2 || begin[1] > 5) return false;
  return std::strchr("}](c\x95KMXU", begin[2]) != nullptr && begin[2] != 0;
}

// A zlib stream with the usual window of 32 KiB begins with the byte 0x78 and a byte of flags. As one
// big-endian number, the two bytes are a multiple of 31. A text such as "x^2,y" may begin in the same way.
bool IsZlib(absl::Span<const uint8_t> begin) {
  return begin.size() >= 2 && begin[0] == 0x78 && (begin[0] << 8 | begin[1]) % 31 == 0 &&
         (begin[1] >= 0x80 || !HoldsTextOnly(begin));
}

// A TFRecord file begins with u64 length, u32 masked CRC-32C of the length.
bool IsTfrecord(absl::Span<const uint8_t> begin) {
  if (begin.size() < 12) return false;
  uint32_t crc = 0;
  std::memcpy(&crc, begin.data() + 8, sizeof(crc));
  return MaskedCrc32c({reinterpret_cast<const char*>(begin.data()), 8}) == crc;
}

// An IDX file begins with u8 0, u8 0, u8 type, u8 axes, then a u32 size per axis, big-endian. The first size
// is the number of samples.
bool IsIdx(absl::Span<const uint8_t> begin) {
  return begin.size() >= 8 && begin[0] == 0 && begin[1] == 0 && begin[2] >= 8 && begin[2] <= 14 &&
         begin[3] >= 1 && begin[3] <= 8 && begin[4] == 0 && (begin[5] | begin[6] | begin[7]) != 0;
}

// A bitmap begins with u8 'B', u8 'M', u32 bytes, u32 zero.
bool IsBitmap(absl::Span<const uint8_t> begin) {
  return begin.size() >= 10 && begin[0] == 'B' && begin[1] == 'M' &&
         std::all_of(begin.begin() + 6, begin.begin() + 10, [](uint8_t byte) { return byte == 0; });
}

// Recognises text that is no table of numbers.
KnownFormat MarkedText(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  text = absl::StripLeadingAsciiWhitespace(text);
  for (const absl::string_view tag : {"<!doctype html", "<html", "<head", "<body", "<script"}) {
    if (absl::StartsWithIgnoreCase(text, tag)) {
      return {"an HTML page", "the download failed: fetch the file itself", true};
    }
  }
  if (absl::StartsWith(text, "<?xml")) return {"an XML document", "fetch the data itself", true};
  const absl::string_view after = text.empty() ? text : absl::StripLeadingAsciiWhitespace(text.substr(1));
  const bool object =
      absl::StartsWith(text, "{") && (absl::StartsWith(after, "\"") || absl::StartsWith(after, "}"));
  const bool list =
      absl::StartsWith(text, "[") && (absl::StartsWith(after, "{") || absl::StartsWith(after, "["));
  if (object || list) return {"a JSON file", "write it as CSV, or with numpy.save", true};
  return {};
}

}  // namespace

bool HoldsTextOnly(absl::Span<const uint8_t> begin) {
  return std::none_of(begin.begin(), begin.end(), [](uint8_t byte) {
    return byte == 0x7f || (byte < 0x20 && (byte < '\t' || byte > '\r'));
  });
}

KnownFormat FormatOfBytes(absl::Span<const uint8_t> begin) {
  const absl::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  for (const Mark& mark : Marks()) {
    if (text.size() >= mark.offset && absl::StartsWith(text.substr(mark.offset), mark.bytes))
      return mark.format;
  }
  if (IsTfrecord(begin)) return {"a TFRecord file", "its records are read by data.tfrecord"};
  if (IsPickle(begin))
    return {"a pickle of Python, which can run programs when it is read", "write its arrays with numpy.save"};
  if (IsZlib(begin)) return {"compressed by zlib", "write it with GZIP or without compression"};
  if (IsIdx(begin)) return {"an IDX file", "it is read by data.idx"};
  if (IsBitmap(begin)) return {"a BMP picture", "convert it to PNG or JPEG"};
  return MarkedText(text);
}

std::string WhatItIs(absl::Span<const uint8_t> begin) {
  const KnownFormat format = FormatOfBytes(begin);
  return format.name.empty() ? "" : absl::StrCat("; it is ", format.name, ": ", format.remedy);
}

std::string WhatItIs(const ByteSource& file) {
  std::vector<uint8_t> begin(std::min(kTellingBytes, file.size()));
  return file.ReadAt(0, absl::MakeSpan(begin)).ok() ? WhatItIs(begin) : "";
}

}  // namespace tethys
