#include "runtime/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace tethys {
namespace {

using testing::HasSubstr;

// Decodes a header, given without its length field, of a file with `data_bytes` bytes of tensor data.
absl::StatusOr<std::vector<SafetensorsEntry>> Decode(const std::string& json, int64_t data_bytes) {
  return DecodeSafetensorsHeader(json, data_bytes);
}

std::string Tensor(const std::string& name, const std::string& shape, const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"F32\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                      "}");
}

void ExpectRefused(const std::string& json, int64_t data_bytes, const std::string& why) {
  const auto entries = Decode(json, data_bytes);
  ASSERT_FALSE(entries.ok()) << json;
  EXPECT_EQ(entries.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(entries.status().message(), HasSubstr(why)) << json;
}

TEST(Safetensors, EncodedHeaderDecodesToTheSameTensors) {
  std::vector<SafetensorsEntry> entries = {{.name = "a/weights", .shape = {784, 128}},
                                           {.name = "quote\" \\ \n é", .shape = {3}},
                                           {.name = "scalar", .shape = {}}};
  ASSERT_TRUE(LayOut(entries).ok());
  EXPECT_EQ(entries[2].end, 4 * (784 * 128 + 3 + 1));
  const auto header = EncodeSafetensorsHeader(entries);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->size() % 64, 0);
  const auto json_bytes = DecodeSafetensorsHeaderBytes(header->data(), 1 << 20);
  ASSERT_TRUE(json_bytes.ok());
  EXPECT_EQ(*json_bytes + 8, header->size());
  const auto decoded = Decode(header->substr(8), entries[2].end);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, entries);
}

TEST(Safetensors, OffsetsBeyondFourGibibytesStayExact) {
  std::vector<SafetensorsEntry> entries = {{.name = "a", .shape = {123456789, 1001}},
                                           {.name = "b", .shape = {1}}};
  ASSERT_TRUE(LayOut(entries).ok());
  const auto decoded = Decode(EncodeSafetensorsHeader(entries)->substr(8), entries[1].end);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, entries);
}

TEST(Safetensors, DecodedTensorsAreInTheOrderOfTheirData) {
  const auto entries = Decode("{" + Tensor("a", "[1]", "[4,8]") + "," + Tensor("b", "[1]", "[0,4]") + "}", 8);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ((*entries)[0].name, "b");
}

TEST(Safetensors, RangesMustCoverTheDataExactlyOnce) {
  const std::string first = Tensor("a", "[2]", "[0,8]");
  ExpectRefused("{" + first + "," + Tensor("b", "[1]", "[4,8]") + "}", 8, "overlaps");
  ExpectRefused("{" + first + "," + Tensor("b", "[1]", "[12,16]") + "}", 16, "leaves a gap");
  ExpectRefused("{" + Tensor("a", "[2]", "[4,12]") + "}", 12, "leaves a gap");
  ExpectRefused("{" + first + "}", 7, "cut short");
  ExpectRefused("{" + first + "}", 9, "end at byte 8, but the data end at byte 9");
  ExpectRefused("{}", 1, "end at byte 0, but the data end at byte 1");
}

TEST(Safetensors, DataLengthMustMatchShapeAndDtype) {
  ExpectRefused("{" + Tensor("a", "[2]", "[0,4]") + "}", 4, "do not span the 8 bytes of shape [2]");
  ExpectRefused("{" + Tensor("a", "[1]", "[4,0]") + "}", 4, "do not span");
  // 2^32 x 2^32 x 4 is 0 in 64-bit arithmetic.
  ExpectRefused("{" + Tensor("a", "[4294967296,4294967296]", "[0,0]") + "}", 0, "too many elements");
  ExpectRefused("{" + Tensor("a", "[9007199254740992]", "[0,0]") + "}", 0, "too many elements");
}

TEST(Safetensors, ShapesAndOffsetsThatAreNotExactNonNegativeIntegersAreRefused) {
  for (const char* shape :
       {"[-1]", "[1.5]", "[1e300]", "[\"1\"]", "1", "null", "[[1]]", "[9007199254740994]"}) {
    ExpectRefused("{" + Tensor("a", shape, "[0,4]") + "}", 4, "shape is not a list of integers");
  }
  ExpectRefused("{" + Tensor("a", "[1]", "[0,4,8]") + "}", 4, "not two numbers");
}

TEST(Safetensors, MissingWrongAndExtraFieldsAreRefused) {
  ExpectRefused(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "dtype");
  ExpectRefused(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 4, "not F32");
  ExpectRefused(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "has no shape");
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "has no data_offsets");
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", 4, "fields beside");
  ExpectRefused(R"({"a":[]})", 4, "is not an object");
  ExpectRefused(R"({"__metadata__":{"a":1}})", 0, "not an object of strings");
}

TEST(Safetensors, TextThatIsNotAJsonObjectIsRefused) {
  const std::string good = "{" + Tensor("a", "[1]", "[0,4]") + "}";
  for (size_t size = 0; size < good.size(); ++size)
    ExpectRefused(good.substr(0, size), 4, "not a JSON object");
  ExpectRefused(" " + good, 4, "not a JSON object");
  ExpectRefused(good + "x", 4, "not a JSON object");
  ExpectRefused("[]", 4, "not a JSON object");
  ExpectRefused("{" + std::string(1 << 20, '[') + "}", 4, "not a JSON object");
  ExpectRefused("{" + Tensor("a", "[1]", "[0,4]") + "," + Tensor("a", "[1]", "[0,4]") + "}", 4,
                "not a JSON object");
}

TEST(Safetensors, HeaderLongerThanTheFileOrTheLimitIsRefused) {
  for (const uint64_t length : {uint64_t{93}, uint64_t{1} << 25, uint64_t{1} << 63, ~uint64_t{0}}) {
    char first8[8];
    std::memcpy(first8, &length, 8);
    EXPECT_FALSE(DecodeSafetensorsHeaderBytes(first8, 100).ok()) << length;
    EXPECT_FALSE(DecodeSafetensorsHeaderBytes(first8, 7).ok()) << length;
  }
}

TEST(Safetensors, MoreTensorsThanTheLimitAreRefused) {
  std::vector<SafetensorsEntry> entries(kMaxSafetensorsEntries + 1);
  EXPECT_EQ(LayOut(entries).code(), absl::StatusCode::kInvalidArgument);
  std::string json = "{";
  for (int i = 0; i <= kMaxSafetensorsEntries; ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",", Tensor(absl::StrCat(i), "[0]", "[0,0]"));
  }
  ExpectRefused(json + "}", 0, "more than");
}

TEST(Safetensors, TypesOtherThanFloat32AreReadOnlyOnRequest) {
  const std::string header = R"({"count":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("half":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
  EXPECT_FALSE(DecodeSafetensorsHeader(header, 14).ok());
  const auto entries = DecodeSafetensorsHeader(header, 14, SafetensorsTypes::kAll);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ((*entries)[0].dtype, "I64");
  EXPECT_EQ((*entries)[1].shape, Shape{3});
  for (const char* wrong : {R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"X8","shape":[4],"data_offsets":[0,4]}})",
                            R"({"a":{"dtype":"F64","shape":[2251799813685248],"data_offsets":[0,4]}})"}) {
    EXPECT_EQ(DecodeSafetensorsHeader(wrong, 4, SafetensorsTypes::kAll).status().code(),
              absl::StatusCode::kDataLoss)
        << wrong;
  }
}

}  // namespace
}  // namespace tethys
