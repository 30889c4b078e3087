#include "runtime/checkpoint/safetensors.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <google/protobuf/wrappers.pb.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <tuple>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "proto/json.pb.h"

namespace tethys {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written in the byte order of memory, which must be little-endian");

constexpr int64_t kDataAlignment = 64;
constexpr char kMetadataKey[] = "__metadata__";
// The largest integer that is accepted. A double represents every integer up to this limit exactly.
constexpr int64_t kMaxJsonInteger = int64_t{1} << 53;

absl::Status Bad(const std::string& tensor, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("safetensors header, tensor '", absl::CEscape(tensor.substr(0, 100)), "': ", what));
}

// The size of a tensor in bytes. The number of elements is limited so that the size is at most
// kMaxJsonInteger even with the largest elements, which have 8 bytes.
absl::StatusOr<int64_t> ByteCount(const Shape& shape, int64_t element_bytes = sizeof(float)) {
  TETHYS_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(shape));
  if (elements > kMaxJsonInteger / 8) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeText(shape), " has too many elements"));
  }
  return elements * element_bytes;
}

// The size of an element in bytes; 0: the format has no such dtype.
int64_t ElementBytes(absl::string_view dtype) {
  struct Dtype {
    absl::string_view name;
    int64_t bytes;
  };
  static constexpr Dtype kDtypes[] = {{"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4},     {"I32", 4},
                                      {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},     {"U16", 2},
                                      {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

std::string JsonString(const std::string& text) {
  google::protobuf::StringValue value;
  value.set_value(text);
  std::string json;
  TETHYS_CHECK(google::protobuf::util::MessageToJsonString(value, &json).ok());
  return json;
}

absl::StatusOr<proto::JsonObject> ParseJson(absl::string_view json) {
  // protobuf's JSON parser recognises the type Struct only under this type URL.
  const std::string server = "type.googleapis.com";
  const auto* type = google::protobuf::Struct::descriptor();
  const std::unique_ptr<google::protobuf::util::TypeResolver> resolver(
      google::protobuf::util::NewTypeResolverForDescriptorPool(server, type->file()->pool()));
  std::string wire;
  const auto converted = google::protobuf::util::JsonToBinaryString(
      resolver.get(), absl::StrCat(server, "/", type->full_name()), {json.data(), json.size()}, &wire);
  proto::JsonObject object;
  if (json.empty() || json[0] != '{' || !converted.ok() || !object.ParseFromString(wire)) {
    return absl::DataLossError("safetensors header: not a JSON object");
  }
  return object;
}

// Null if the object has no field `key`.
const proto::JsonValue* Find(const proto::JsonObject& object, absl::string_view key) {
  for (const proto::JsonField& field : object.fields()) {
    if (field.key() == key) return &field.value();
  }
  return nullptr;
}

absl::StatusOr<std::vector<int64_t>> Integers(const proto::JsonValue& value) {
  const absl::Status bad = absl::DataLossError("is not a list of integers in [0, 2^53]");
  if (!value.has_list_value()) return bad;
  std::vector<int64_t> integers;
  for (const proto::JsonValue& element : value.list_value().values()) {
    const double number = element.number_value();
    if (!element.has_number_value() || !(number >= 0 && number <= kMaxJsonInteger) ||
        std::floor(number) != number) {
      return bad;
    }
    integers.push_back(static_cast<int64_t>(number));
  }
  return integers;
}

// Returns the list of integers in the field called `field`.
absl::StatusOr<std::vector<int64_t>> IntegerField(const std::string& tensor, const proto::JsonObject& object,
                                                  const std::string& field) {
  const proto::JsonValue* value = Find(object, field);
  if (value == nullptr) return Bad(tensor, absl::StrCat("has no ", field));
  absl::StatusOr<std::vector<int64_t>> integers = Integers(*value);
  if (!integers.ok()) return Bad(tensor, absl::StrCat(field, " ", integers.status().message()));
  return integers;
}

absl::StatusOr<SafetensorsEntry> DecodeEntry(const std::string& name, const proto::JsonValue& value,
                                             SafetensorsTypes types) {
  if (!value.has_object_value()) return Bad(name, "is not an object");
  const proto::JsonObject& object = value.object_value();
  const proto::JsonValue* dtype = Find(object, "dtype");
  if (dtype == nullptr || (types == SafetensorsTypes::kFloat32 && dtype->string_value() != kFloat32Dtype)) {
    return Bad(name, "its dtype is not F32, the only dtype that is read here");
  }
  SafetensorsEntry entry{.name = name, .dtype = dtype->string_value()};
  const int64_t element_bytes = ElementBytes(entry.dtype);
  if (element_bytes == 0) return Bad(name, "its dtype is not known");
  TETHYS_ASSIGN_OR_RETURN(entry.shape, IntegerField(name, object, "shape"));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, IntegerField(name, object, "data_offsets"));
  if (object.fields_size() != 3) return Bad(name, "has fields besides dtype, shape and data_offsets");
  if (offsets.size() != 2) return Bad(name, "data_offsets are not two numbers");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const absl::StatusOr<int64_t> bytes = ByteCount(entry.shape, element_bytes);
  if (!bytes.ok()) return Bad(name, bytes.status().message());
  if (entry.begin > entry.end || entry.end - entry.begin != *bytes) {
    return Bad(name, absl::StrCat("data_offsets [", entry.begin, ", ", entry.end, "] do not span the ",
                                  *bytes, " bytes of shape ", ShapeText(entry.shape)));
  }
  return entry;
}

absl::Status CheckMetadata(const proto::JsonValue& value) {
  const auto& fields = value.object_value().fields();
  const bool strings = std::all_of(fields.begin(), fields.end(), [](const proto::JsonField& field) {
    return field.value().has_string_value();
  });
  if (!value.has_object_value() || !strings) return Bad(kMetadataKey, "is not an object of strings");
  return absl::OkStatus();
}

// Checks that the entries, in order of their data, cover [0, data_bytes) exactly once.
absl::Status CheckCoverage(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  int64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != position) {
      return Bad(entry.name, absl::StrCat("begins at byte ", entry.begin, " and ",
                                          entry.begin < position ? "overlaps" : "leaves a gap after",
                                          " the tensor before it, which ends at ", position));
    }
    if (entry.end > data_bytes) {
      return Bad(entry.name, absl::StrCat("ends at byte ", entry.end, ", but the data end at byte ",
                                          data_bytes, ": the file is cut short"));
    }
    position = entry.end;
  }
  if (position != data_bytes) {
    return absl::DataLossError(absl::StrCat("safetensors header: the tensors end at byte ", position,
                                            ", but the data end at byte ", data_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LayOut(std::vector<SafetensorsEntry>& entries) {
  if (entries.size() > kMaxSafetensorsEntries) {
    return absl::InvalidArgumentError(absl::StrCat(
        entries.size(), " tensors in one safetensors file, but the limit is ", kMaxSafetensorsEntries));
  }
  int64_t position = 0;
  for (SafetensorsEntry& entry : entries) {
    TETHYS_ASSIGN_OR_RETURN(const int64_t bytes, ByteCount(entry.shape));
    if (bytes > kMaxJsonInteger - position)
      return absl::InvalidArgumentError("a safetensors file would be longer than 2^53 bytes");
    entry.begin = position;
    entry.end = position + bytes;
    position = entry.end;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EncodeSafetensorsHeader(
    const std::vector<SafetensorsEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string json = absl::StrCat("{\"", kMetadataKey, "\":{\"format\":\"pt\"");
  for (const auto& [key, text] : metadata)
    absl::StrAppend(&json, ",", JsonString(key), ":", JsonString(text));
  json += "}";
  for (const SafetensorsEntry& entry : entries) {
    absl::StrAppend(&json, ",", JsonString(entry.name), ":{\"dtype\":\"F32\",\"shape\":[",
                    absl::StrJoin(entry.shape, ","), "],\"data_offsets\":[", entry.begin, ",", entry.end,
                    "]}");
  }
  json += "}";
  const int64_t unpadded = kSafetensorsLengthBytes + static_cast<int64_t>(json.size());
  json.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  const uint64_t length = json.size();
  if (length > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a safetensors header has ", length,
                                                   " bytes, but the limit is ", kMaxSafetensorsHeaderBytes));
  }
  std::string header(kSafetensorsLengthBytes, '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

absl::StatusOr<int64_t> DecodeSafetensorsHeaderBytes(const char* first8, int64_t file_bytes) {
  uint64_t length;
  std::memcpy(&length, first8, sizeof(length));
  if (length > kMaxSafetensorsHeaderBytes ||
      static_cast<int64_t>(length) > file_bytes - kSafetensorsLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("safetensors header: a length of ", length, " bytes does not fit into a file of ",
                     file_bytes, " bytes, or is above the limit of ", kMaxSafetensorsHeaderBytes, " bytes"));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<std::vector<SafetensorsEntry>> DecodeSafetensorsHeader(absl::string_view json,
                                                                      int64_t data_bytes,
                                                                      SafetensorsTypes types) {
  TETHYS_ASSIGN_OR_RETURN(const proto::JsonObject header, ParseJson(json));
  std::vector<SafetensorsEntry> entries;
  for (const proto::JsonField& field : header.fields()) {
    if (field.key() == kMetadataKey) {
      TETHYS_RETURN_IF_ERROR(CheckMetadata(field.value()));
      continue;
    }
    if (entries.size() == kMaxSafetensorsEntries) {
      return absl::DataLossError(absl::StrCat("safetensors header: more than ", entries.size(), " tensors"));
    }
    TETHYS_ASSIGN_OR_RETURN(SafetensorsEntry entry, DecodeEntry(field.key(), field.value(), types));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  TETHYS_RETURN_IF_ERROR(CheckCoverage(entries, data_bytes));
  return entries;
}

}  // namespace tethys
