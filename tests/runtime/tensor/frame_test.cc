#include "runtime/tensor/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/fuzz/frame_bytes.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// All fields have different values, so that swapped fields are noticed.
Frame Sample() {
  Frame frame;
  frame.kind = FrameKind::kPush;
  frame.dtype = FrameDType::kFloat32;
  frame.global_sample_count = 0x01020304;
  frame.generation = 11;
  frame.group = 12;
  frame.rank = 13;
  frame.incarnation = 14;
  frame.step = 15;
  frame.sequence = 16;
  frame.range_begin = 17;
  frame.range_count = 18;
  frame.sample_begin = 19;
  frame.sample_count = 20;
  frame.schedule_position = 21;
  frame.base_version = 22;
  frame.payload_bytes = 72;
  frame.payload_checksum = 0x05060708;
  return frame;
}

std::string Encoded(const Frame& frame) {
  std::string bytes(kFrameBytes, '\xee');
  frame.EncodeTo(bytes.data());
  return bytes;
}

absl::StatusOr<Frame> Decoded(const std::string& bytes) {
  return Frame::Decode(bytes.data(), static_cast<int64_t>(bytes.size()));
}

uint64_t Word(const std::string& bytes, int64_t offset, int64_t size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, size);
  return value;
}

TEST(FrameTest, DecodedFrameEqualsTheEncodedFrame) {
  const auto frame = Decoded(Encoded(Sample()));
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(*frame, Sample());
}

TEST(FrameTest, EncodedFrameHasTheDocumentedByteLayout) {
  const std::string bytes = Encoded(Sample());
  EXPECT_EQ(bytes.substr(0, 4), "TTHF");
  EXPECT_EQ(Word(bytes, 4, 2), kWireVersion);
  EXPECT_EQ(Word(bytes, 6, 1), 7);
  EXPECT_EQ(Word(bytes, 7, 1), 1);
  EXPECT_EQ(bytes.substr(8, 4), "\x04\x03\x02\x01");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Word(bytes, 12 + 4 * i, 4), 11 + i);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Word(bytes, 32 + 8 * i, 8), 15 + i);
  EXPECT_EQ(Word(bytes, 96, 4), 72);
  EXPECT_EQ(Word(bytes, 100, 4), 0x05060708);
}

TEST(FrameTest, FieldThatOnlyOneKindOfFrameUsesIsEncodedOnlyInFramesOfThatKind) {
  Frame frame = Sample();
  frame.global_sample_count = 1;
  frame.staleness = 2;
  frame.parts_hash = 3;
  frame.status_code = 4;
  const auto sent = [&](FrameKind kind) {
    frame.kind = kind;
    const std::string bytes = Encoded(frame);
    const absl::StatusOr<Frame> decoded = Decoded(bytes);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->global_sample_count + decoded->staleness + decoded->parts_hash + decoded->status_code,
              Word(bytes, 8, 4));
    return Word(bytes, 8, 4);
  };
  EXPECT_EQ(sent(FrameKind::kPush), 1);
  EXPECT_EQ(sent(FrameKind::kParameters), 2);
  EXPECT_EQ(sent(FrameKind::kGather), 3);
  EXPECT_EQ(sent(FrameKind::kError), 4);
  EXPECT_EQ(sent(FrameKind::kReduce), 0);
}

TEST(FrameTest, FrameOfParametersCarriesASumOfSquaresInsteadOfASampleBegin) {
  Frame frame = Sample();
  frame.kind = FrameKind::kParameters;
  frame.sum_square = 0.1;
  const absl::StatusOr<Frame> decoded = Decoded(Encoded(frame));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->sum_square, 0.1);
  EXPECT_EQ(decoded->sample_begin, 0);
  for (const double wrong : {-1.0, std::nan(""), HUGE_VAL}) {
    frame.sum_square = wrong;
    const absl::Status refused = Decoded(Encoded(frame)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("sum of squares"));
  }
}

TEST(FrameTest, EveryDamagedByteIsDetected) {
  const std::string whole = Encoded(Sample());
  for (int64_t offset = 0; offset < kFrameBytes; ++offset) {
    for (int difference = 1; difference < 256; ++difference) {
      std::string bytes = whole;
      bytes[offset] ^= static_cast<char>(difference);
      EXPECT_FALSE(Decoded(bytes).ok()) << "byte " << offset << " xor " << difference;
    }
  }
}

TEST(FrameTest, EveryTruncationIsDetected) {
  const std::string whole = Encoded(Sample());
  for (int64_t size = 0; size < kFrameBytes; ++size) {
    EXPECT_THAT(std::string(Decoded(whole.substr(0, size)).status().message()),
                HasSubstr("shorter than its header"));
  }
}

TEST(FrameTest, RefusesUnknownKindUnknownDtypeAndHugePayload) {
  Frame frame = Sample();
  frame.kind = static_cast<FrameKind>(99);
  EXPECT_THAT(std::string(Decoded(Encoded(frame)).status().message()), HasSubstr("unknown kind 99"));
  frame.kind = static_cast<FrameKind>(16);
  EXPECT_THAT(std::string(Decoded(Encoded(frame)).status().message()), HasSubstr("unknown kind 16"));
  frame = Sample();
  frame.dtype = static_cast<FrameDType>(9);
  EXPECT_THAT(std::string(Decoded(Encoded(frame)).status().message()), HasSubstr("unknown dtype 9"));
  frame = Sample();
  frame.payload_bytes = kMaxPayloadBytes + 1;
  EXPECT_THAT(std::string(Decoded(Encoded(frame)).status().message()),
              HasSubstr("frame announces 1073741825 bytes"));
  std::string bytes = Encoded(Sample());
  bytes[6] = static_cast<char>(FrameKind::kReduce);
  fuzz::SealFrame(bytes.data());
  EXPECT_THAT(std::string(Decoded(bytes).status().message()),
              HasSubstr("frame of kind reduce has 16909060 at byte 8, expected 0"));
}

TEST(FrameTest, RefusesFramesOfAnotherProtocolOrProtocolVersion) {
  std::string bytes(kFrameBytes, '\0');
  std::memcpy(bytes.data(), "GET / HTTP/1.1\r\n", 16);
  EXPECT_THAT(std::string(Decoded(bytes).status().message()), HasSubstr("wrong magic"));
  bytes = Encoded(Sample());
  bytes[4] = 4;
  EXPECT_THAT(std::string(Decoded(bytes).status().message()),
              HasSubstr("wire version 4, but this build uses version 3"));
}

TEST(FrameTest, FrameTextNamesKindSenderStepAndRange) {
  EXPECT_EQ(FrameText(Sample()),
            "push, rank 13, incarnation 14, generation 11, step 15, sequence 16, range [17, 35)");
}

}  // namespace
}  // namespace tethys
