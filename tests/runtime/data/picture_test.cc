// Tests that pictures written by libpng and libjpeg-turbo are decoded, and that damaged pictures are refused.
#include "runtime/data/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/runtime/data/picture_files.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

absl::Span<const uint8_t> Span(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string PngName() { return "a.png"; }
std::string JpegName() { return "a.jpg"; }

Bytes Decode(const std::string& file, const Shape& shape, bool resize = false) {
  Bytes values(shape[0] * shape[1] * shape[2]);
  const absl::Status status = DecodePicture(Span(file), PngName, shape, resize, values.data());
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

std::string ErrorOf(const std::string& file, const Shape& shape) {
  Bytes values(shape[0] * shape[1] * shape[2]);
  return std::string(DecodePicture(Span(file), PngName, shape, false, values.data()).message());
}

TEST(PictureTest, DecodedPngHasTheValuesThatWereEncoded) {
  for (const int64_t channels : {1, 3}) {
    const Bytes values = testing::Gradient(5, 7, channels);
    const std::string file = testing::Png(values, 5, 7, channels);
    EXPECT_TRUE(LooksLikePicture(Span(file)));
    EXPECT_EQ(ReadPictureShape(Span(file), PngName).value(), (Shape{5, 7, channels}));
    EXPECT_EQ(Decode(file, {5, 7, channels}), values);
  }
}

TEST(PictureTest, DecodedJpegIsNearTheValuesThatWereEncoded) {
  for (const int64_t channels : {1, 3}) {
    const Bytes values = testing::Gradient(16, 24, channels);
    const std::string file = testing::Jpeg(values, 16, 24, channels);
    EXPECT_EQ(ReadPictureShape(Span(file), JpegName).value(), (Shape{16, 24, channels}));
    const Bytes decoded = Decode(file, {16, 24, channels});
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(decoded[i], values[i], 8) << i;
  }
}

// The values that libjpeg-turbo decodes without Tethys's code.
Bytes BareJpeg(const std::string& file, const Shape& shape) {
  Bytes values(shape[0] * shape[1] * shape[2]);
  const tjhandle decoder = tjInitDecompress();
  EXPECT_EQ(tjDecompress2(decoder, Span(file).data(), file.size(), values.data(), static_cast<int>(shape[1]),
                          0, static_cast<int>(shape[0]), shape[2] == 1 ? TJPF_GRAY : TJPF_RGB, 0),
            0);
  tjDestroy(decoder);
  return values;
}

TEST(PictureTest, JpegDecodesToLibjpegTurbosBitsAtAnyAlignment) {
  // Pictures below and above 2^18 bytes, with rows that are and are not multiples of 32 bytes.
  for (const Shape& shape : {Shape{32, 32, 3}, Shape{33, 32, 1}, Shape{21, 35, 3}, Shape{300, 320, 3}}) {
    const int64_t size = shape[0] * shape[1] * shape[2];
    for (const int sampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411}) {
      for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
        const std::string file = testing::Jpeg(testing::Gradient(shape[0], shape[1], shape[2]), shape[0],
                                               shape[1], shape[2], sampling, flags);
        const Bytes expected = BareJpeg(file, shape);
        alignas(64) static std::array<uint8_t, 300 * 320 * 3 + 3> memory;
        for (const int64_t place : {0, 1}) {
          memory.fill(99);
          ASSERT_TRUE(DecodePicture(Span(file), JpegName, shape, false, &memory[place]).ok());
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(), &memory[place]))
              << ShapeText(shape) << ", sampling " << sampling << ", flags " << flags << ", place " << place;
          EXPECT_EQ(memory[place + size], 99);
        }
      }
    }
  }
}

TEST(PictureTest, JpegWithCommentSegmentsBeforeItsTablesIsDecoded) {
  const std::string file = testing::Jpeg(testing::Gradient(8, 8, 3), 8, 8, 3);
  const Bytes expected = Decode(file, {8, 8, 3});
  const std::string comment(
      "\xff\xfe\x00\x06"
      "abcd",
      8);
  EXPECT_EQ(Decode(file.substr(0, 2) + comment + file.substr(2), {8, 8, 3}), expected);
  // A segment may begin with several bytes 0xff.
  EXPECT_EQ(Decode(file.substr(0, 2) + "\xff\xff" + comment + file.substr(2), {8, 8, 3}), expected);
}

// libjpeg only warns about superfluous bytes; TensorFlow and Pillow decode such files.
TEST(PictureTest, JpegWithSuperfluousBytesDecodesToThePixelsOfTheIntactFile) {
  const std::string file = testing::Jpeg(testing::Gradient(8, 8, 3), 8, 8, 3);
  const Bytes expected = Decode(file, {8, 8, 3});
  const size_t tables = file.find("\xff\xdb"), end = file.size() - 2;
  ASSERT_EQ(file.substr(end), "\xff\xd9");
  for (const auto& [name, changed] : std::vector<std::pair<const char*, std::string>>{
           {"before the end marker", file.substr(0, end) + std::string(99, 'x') + file.substr(end)},
           {"before a table", file.substr(0, tables) + std::string(99, 'x') + file.substr(tables)},
           {"behind the end", file + std::string(99, 'x')},
           {"a marker that belongs in no picture", file.substr(0, end) + "\xff\xd0" + file.substr(end)}}) {
    EXPECT_EQ(Decode(changed, {8, 8, 3}), expected) << name;
    EXPECT_EQ(ReadPictureShape(Span(changed), JpegName).value(), (Shape{8, 8, 3})) << name;
    EXPECT_THAT(ErrorOf(changed.substr(0, changed.find("\xff\xd9")), {8, 8, 3}), HasSubstr("damaged JPEG"))
        << name;
  }
}

TEST(PictureTest, JpegWithDamagedBitsIsDecodedAndATruncatedJpegIsRefused) {
  const std::string file = testing::Jpeg(testing::Gradient(32, 32, 1), 32, 32, 1);
  const size_t scan = file.find("\xff\xda");
  ASSERT_NE(scan, std::string::npos);
  // The file has half of the coded bits and then the end marker. Decoders fill in the missing pixels.
  const std::string half = file.substr(0, scan + (file.size() - scan) / 2);
  Bytes values(32 * 32);
  EXPECT_TRUE(DecodePicture(Span(half + "\xff\xd9"), JpegName, {32, 32, 1}, false, values.data()).ok());
  EXPECT_THAT(ErrorOf(half, {32, 32, 1}), HasSubstr("it ends before its end marker"));
  // Even with superfluous bytes in it, the file is reported as truncated.
  EXPECT_THAT(ErrorOf(file.substr(0, 20) + half.substr(20) + std::string(99, 'x'), {32, 32, 1}),
              HasSubstr("it ends before its end marker"));
}

TEST(PictureTest, HeaderShowsHeightAndWidth) {
  for (const int channels : {1, 3}) {
    const Bytes values = testing::Gradient(40, 8, channels);
    for (const std::string& file :
         {testing::Png(values, 40, 8, channels).substr(0, 64), testing::Jpeg(values, 40, 8, channels)}) {
      const PictureKind kind = KindOfPicture(Span(file));
      EXPECT_EQ(std::pair(kind.height, kind.width), (std::pair<int64_t, int64_t>(40, 8)));
    }
  }
  const std::string file = testing::Jpeg(testing::Gradient(8, 8, 3), 8, 8, 3);
  EXPECT_EQ(KindOfPicture(Span(file.substr(0, 30))).height, 0);
}

TEST(PictureTest, HeaderShowsChannelsAndBitsPerChannel) {
  const auto kind = [](const std::string& file) {
    const PictureKind kind = KindOfPicture(Span(file));
    return std::pair(kind.channels, kind.bits);
  };
  for (const int channels : {1, 3}) {
    const Bytes values = testing::Gradient(8, 8, channels);
    EXPECT_EQ(kind(testing::Png(values, 8, 8, channels).substr(0, 64)), std::pair(channels, 8));
    EXPECT_EQ(kind(testing::Jpeg(values, 8, 8, channels)), std::pair(channels, 8));
  }
  const std::string file = testing::Jpeg(testing::Gradient(8, 8, 3), 8, 8, 3);
  for (const std::string& other :
       {std::string(), std::string("\x89PNG\r\n\x1a\n", 8), std::string("GIF89a"), file.substr(0, 30)}) {
    EXPECT_EQ(kind(other).first, 0);
  }
}

TEST(PictureTest, PictureOfAnotherFormatIsRefusedNamingTheFormat) {
  for (const auto& [file, name] : std::vector<std::pair<std::string, std::string>>{
           {"GIF89a and so on", "a GIF picture"},
           {"RIFF....WEBPVP8 ", "a WebP picture"},
           {std::string("BM\x36\0\0\0\0\0\0\0\x36", 11), "a BMP picture"},
           {"<!DOCTYPE html><html>", "an HTML page"},
           {std::string("PK\3\4", 4), "a ZIP archive"}}) {
    EXPECT_THAT(ErrorOf(file, {8, 8, 3}), AllOf(HasSubstr("neither a PNG nor a JPEG"), HasSubstr(name)));
  }
}

TEST(PictureTest, JpegWithUnsupportedSamplingFactorsIsRefused) {
  std::string file = testing::Jpeg(testing::Gradient(8, 8, 3), 8, 8, 3);
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file[frame + 14] = 0x12;  // The sampling factors of the second component.
  const absl::Status reason = ReadPictureShape(Span(file), PngName).status();
  EXPECT_THAT(std::string(reason.message()), HasSubstr("damaged JPEG"));
  EXPECT_EQ(ErrorOf(file, {8, 8, 3}), reason.message());
}

TEST(PictureTest, TransparencyIsIgnored) {
  Bytes with_alpha, without;
  for (int i = 0; i < 12; ++i) {
    for (const int value : {i, 2 * i, 3 * i}) {
      with_alpha.push_back(static_cast<uint8_t>(value));
      without.push_back(static_cast<uint8_t>(value));
    }
    with_alpha.push_back(static_cast<uint8_t>(20 * i));
  }
  EXPECT_EQ(Decode(testing::Png(with_alpha, 3, 4, 4), {3, 4, 3}), without);
}

TEST(PictureTest, GreyAndColourAreConvertedToEachOther) {
  const Bytes grey = {0, 50, 100, 250};
  EXPECT_EQ(Decode(testing::Png(grey, 2, 2, 1), {2, 2, 3}),
            (Bytes{0, 0, 0, 50, 50, 50, 100, 100, 100, 250, 250, 250}));
  const Bytes colour = {100, 100, 100, 255, 0, 0, 0, 255, 0, 0, 0, 255};
  const Bytes luma = Decode(testing::Png(colour, 2, 2, 3), {2, 2, 1});
  const double expected[] = {100, 0.299 * 255, 0.587 * 255, 0.114 * 255};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(luma[i], expected[i], 1.5) << i;
}

TEST(PictureTest, ResizingInterpolatesBetweenCentresOfPixels) {
  const std::string file = testing::Png({0, 100, 100, 200}, 2, 2, 1);
  // The result of PyTorch's interpolate(mode="bilinear", align_corners=False).
  EXPECT_EQ(Decode(file, {4, 4, 1}, true),
            (Bytes{0, 25, 75, 100, 25, 50, 100, 125, 75, 100, 150, 175, 100, 125, 175, 200}));
  EXPECT_EQ(Decode(file, {1, 1, 1}, true), Bytes{100});
  EXPECT_EQ(Decode(testing::Png({2, 3}, 1, 2, 1), {1, 1, 1}, true), Bytes{3}) << "halves become larger";
  EXPECT_THAT(Decode(testing::Png(Bytes(90, 77), 9, 10, 1), {3, 17, 1}, true), Each(77));
}

TEST(PictureTest, PictureOfAnotherSizeIsRefusedUnlessItIsResized) {
  const Bytes values = testing::Gradient(5, 7, 1);
  for (const std::string& file : {testing::Png(values, 5, 7, 1), testing::Jpeg(values, 5, 7, 1)}) {
    for (const Shape& shape : {Shape{5, 8, 1}, Shape{10, 14, 1}, Shape{7, 5, 1}}) {
      EXPECT_THAT(ErrorOf(file, shape),
                  AllOf(HasSubstr("a.png: 5 x 7 pixels"),
                        HasSubstr(absl::StrCat("the first picture has ", shape[0], " x ", shape[1]))));
    }
  }
}

TEST(PictureTest, TruncatedPictureIsRefusedAndCorruptedPictureIsRefusedOrDecoded) {
  const Bytes values = testing::Gradient(8, 8, 3);
  for (const std::string& file : {testing::Png(values, 8, 8, 3), testing::Jpeg(values, 8, 8, 3)}) {
    for (size_t size = 0; size < file.size() - 2; ++size) {
      EXPECT_THAT(ErrorOf(file.substr(0, size), {8, 8, 3}), HasSubstr("a.png: ")) << size;
    }
    for (size_t at = 0; at < file.size(); ++at) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      Bytes decoded(values.size());
      const absl::Status status = DecodePicture(Span(changed), PngName, {8, 8, 3}, false, decoded.data());
      if (status.ok()) continue;
      EXPECT_THAT(std::string(status.message()), HasSubstr("a.png: "));
    }
  }
}

TEST(PictureTest, PictureWithAHugeSizeInItsHeaderIsRefused) {
  std::string file = testing::Png({1, 2, 3, 4}, 2, 2, 1);
  testing::SetPngSize(file, 1 << 20, 1 << 20);
  EXPECT_THAT(ErrorOf(file, {2, 2, 1}), HasSubstr("the header announces 1048576 x 1048576 pixels"));
}

}  // namespace
}  // namespace tethys
