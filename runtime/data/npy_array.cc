// The format of an array (numpy.lib.format, versions 1 to 3):
//
//   "\x93NUMPY", u8 major version, u8 minor version,
//   the length of the header: u16 in version 1, u32 in versions 2 and 3, little-endian,
//   the header: "{'descr': '|u1', 'fortran_order': False, 'shape': (60000, 28, 28), }",
//   the values
#include "runtime/data/npy_array.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/data/known_format.h"
#include "runtime/data/zip_archive.h"

namespace tethys {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxPreamble = 12;  // The most bytes before the header.
constexpr int64_t kMaxHeader = 1 << 16;
constexpr int kMaxAxes = 8;

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

absl::Status NotAnArray(const std::string& path, absl::string_view why) {
  return Refused(path, absl::StrCat(why, ": write the array with numpy.save(path, array)"));
}

// The letter for the kind of values in a NumPy type; 0 if the text is no such type.
char KindOf(absl::string_view type) { return type.size() < 3 ? '\0' : type[1]; }

// Says how to convert an array whose type is not supported.
absl::string_view CureOf(absl::string_view type) {
  switch (KindOf(type)) {
    case 'f':
      return "write array.astype('float32'), or array.astype('int32') for classes";
    case 'b':
      return "write array.astype('uint8')";
    case 'i':
    case 'u':
      return "write array.astype('<i4')";
    case 'U':
    case 'S':
      return "if these are labels, number the classes: write numpy.unique(array, return_inverse=True)[1]";
    default:
      return "write an array of integers or of float32";
  }
}

// The text after "'key':" in the header; empty if the key is missing.
absl::string_view After(absl::string_view header, absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return {};
  return absl::StripLeadingAsciiWhitespace(header.substr(at + key.size() + 3));
}

// The text between the first character, which must be `open`, and the next `close`.
absl::string_view Between(absl::string_view text, char open, char close) {
  if (text.empty() || text[0] != open) return {};
  const size_t end = text.find(close, 1);
  return end == absl::string_view::npos ? absl::string_view() : text.substr(1, end - 1);
}

absl::StatusOr<Shape> ParseShape(const std::string& path, absl::string_view header) {
  Shape shape;
  const absl::string_view tuple = Between(After(header, "shape"), '(', ')');
  for (const absl::string_view word : absl::StrSplit(tuple, ',', absl::SkipWhitespace())) {
    int64_t axis = 0;
    if (!absl::SimpleAtoi(word, &axis) || axis < 0) return NotAnArray(path, "its shape cannot be read");
    if (axis == 0) return Refused(path, "the array is empty: it must hold a sample or more");
    shape.push_back(axis);
  }
  if (shape.empty())
    return Refused(path,
                   "the array has no axes: the index along its first axis must be the number of the sample");
  if (shape.size() > kMaxAxes)
    return Refused(path, "the array has more than 8 axes: write array.reshape(len(array), -1)");
  return shape;
}

// Checks that the header is followed by exactly the array's values.
absl::Status CheckSize(const NpyArray& array) {
  const absl::StatusOr<int64_t> count = ElementCount(array.shape);
  const int64_t held = array.file->size() - array.begin;
  if (count.ok() && held % array.value_bytes() == 0 && *count == held / array.value_bytes()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      array.file->name(), ": the header announces values of shape ", ShapeText(array.shape), ", ",
      array.value_bytes(), " bytes each, but ", held, " bytes follow it: the file is truncated or damaged"));
}

// The two parts of "FILE.npz#MEMBER". For any other path, `file` is the path, and `member` is empty.
struct Place {
  std::string file;
  std::string member;
};

Place PlaceOf(const std::string& path) {
  static constexpr absl::string_view kMark = ".npz#";
  const size_t at = path.find(kMark.data());
  if (at == std::string::npos) return {.file = path, .member = {}};
  const size_t hash = at + kMark.size() - 1;
  return {.file = path.substr(0, hash), .member = path.substr(hash + 1)};
}

// Finds the array `name`. Its member may be called NAME.npy, because NumPy appends ".npy" to the names of
// arrays.
absl::StatusOr<const ZipMember*> FindMember(const ZipArchive& archive, const std::string& name) {
  for (const ZipMember& member : archive.members()) {
    if (member.name == name || member.name == name + ".npy") return &member;
  }
  std::vector<std::string> names;
  for (const ZipMember& member : archive.members()) {
    names.push_back(absl::CEscape(absl::StripSuffix(member.name, ".npy")));
  }
  return absl::NotFoundError(absl::StrCat(
      archive.name(), " has no array \"", absl::CEscape(name), "\"; its arrays: ",
      names.empty() ? "none" : absl::StrJoin(names, ", "), ": write the name of one after the #"));
}

absl::StatusOr<std::shared_ptr<const ByteSource>> OpenBytes(const std::string& path, NpyExtent extent) {
  const Place place = PlaceOf(path);
  TETHYS_ASSIGN_OR_RETURN(auto file, OpenFile(place.file));
  if (place.member.empty() && place.file == path) return file;
  TETHYS_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(std::move(file)));
  TETHYS_ASSIGN_OR_RETURN(const ZipMember* member, FindMember(archive, place.member));
  if (extent == NpyExtent::kHeader) return archive.OpenHead(*member, kMaxPreamble + kMaxHeader);
  return archive.Open(*member);
}

// Reads version and header, and sets the position of the values.
absl::StatusOr<std::string> ReadHeaderText(const std::string& path, NpyArray& array) {
  std::array<uint8_t, kMaxPreamble> start = {};
  const auto given = std::min<int64_t>(array.file->size(), start.size());
  TETHYS_RETURN_IF_ERROR(array.file->ReadAt(0, {start.data(), static_cast<size_t>(given)}));
  if (given < 10 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return start[0] == 'P' && start[1] == 'K'
               ? absl::InvalidArgumentError(absl::StrCat(
                     path, ": an .npz archive, not an .npy file: name one of its arrays as FILE.npz#ARRAY"))
               : NotAnArray(path, absl::StrCat("not an .npy file", WhatItIs(*array.file)));
  }
  const int major = start[6];
  if (major < 1 || major > 3)
    return NotAnArray(path, absl::StrCat("version ", major, " of the format is unknown"));
  array.begin = major == 1 ? 10 : 12;
  int64_t length = start[8] | start[9] << 8;
  if (major > 1) length |= int64_t{start[10]} << 16 | int64_t{start[11]} << 24;
  if (length > kMaxHeader || length > array.file->size() - array.begin) {
    return NotAnArray(path, absl::StrCat("a header of ", length,
                                         " bytes is longer than the file, or longer than any valid header"));
  }
  std::string header(static_cast<size_t>(length), '\0');
  TETHYS_RETURN_IF_ERROR(
      array.file->ReadAt(array.begin, {reinterpret_cast<uint8_t*>(header.data()), header.size()}));
  array.begin += length;
  return header;
}

}  // namespace

absl::StatusOr<NpyArray> OpenNpyArray(const std::string& path, NpyExtent extent) {
  NpyArray array;
  TETHYS_ASSIGN_OR_RETURN(array.file, OpenBytes(path, extent));
  TETHYS_ASSIGN_OR_RETURN(const std::string header, ReadHeaderText(path, array));
  array.type = std::string(Between(After(header, "descr"), '\'', '\''));
  if (array.type.find('O') != std::string::npos) {
    return Refused(path,
                   "it holds pickled objects, which can run programs when they are read: make it an array of "
                   "numbers, such as array.astype('float32')");
  }
  static constexpr const char* kTypes[] = {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4"};
  if (std::find(std::begin(kTypes), std::end(kTypes), array.type) == std::end(kTypes)) {
    return Refused(path, absl::StrCat("values of type ", NpyTypeText(array.type),
                                      " are not read: ", CureOf(array.type)));
  }
  if (!absl::StartsWith(After(header, "fortran_order"), "False")) {
    return Refused(path, "the array is in Fortran order: write numpy.ascontiguousarray(array)");
  }
  TETHYS_ASSIGN_OR_RETURN(array.shape, ParseShape(path, header));
  TETHYS_RETURN_IF_ERROR(CheckSize(array));
  return array;
}

std::string NpyTypeText(absl::string_view type) {
  constexpr size_t kMostShown = 20;
  if (type.empty()) return "(none)";
  const std::string text = absl::CEscape(type.substr(0, kMostShown));
  const char kind = KindOf(type);
  if (kind == 'U' || kind == 'S') return absl::StrCat(text, " (words)");
  if (kind == 'b') return absl::StrCat(text, " (bool)");
  const char* const name = kind == 'f' ? "float" : kind == 'i' ? "int" : kind == 'u' ? "uint" : nullptr;
  int bytes = 0;
  if (name == nullptr || !absl::SimpleAtoi(type.substr(2), &bytes) || bytes < 1 || bytes > 16) return text;
  return absl::StrCat(text, " (", name, 8 * bytes, type[0] == '>' ? ", big-endian)" : ")");
}

std::string NpyFileOf(const std::string& path) { return PlaceOf(path).file; }

bool IsHeldInMemory(const std::string& path) {
  const Place place = PlaceOf(path);
  if (place.file == path) return false;
  auto file = OpenFile(place.file);
  if (!file.ok()) return false;
  const absl::StatusOr<ZipArchive> archive = ZipArchive::Open(*std::move(file));
  if (!archive.ok()) return false;
  const absl::StatusOr<const ZipMember*> member = FindMember(*archive, place.member);
  return member.ok() && (*member)->deflated();
}

}  // namespace tethys
