#include "runtime/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/base/random.h"
#include "tests/runtime/data/idx_files.h"

namespace tethys {
namespace {

using testing::Counting;
using testing::Gzip;
using ::testing::HasSubstr;
using testing::Idx;
using testing::IdxHeader;

class IdxTest : public ::testing::Test {
 protected:
  // Expects that ReadIdx refuses the file with the path and all of `fragments` in the message, and that
  // ReadIdxHeader refuses it too.
  void ExpectRefused(const std::string& bytes, const std::vector<std::string>& fragments,
                     IdxKind kind = IdxKind::kImages) {
    ExpectRefusedInValues(bytes, fragments, kind);
    EXPECT_FALSE(ReadIdxHeader(path(), kind).ok());
  }
  // Like ExpectRefused, but ReadIdxHeader may accept the file, because it reads only the header.
  void ExpectRefusedInValues(const std::string& bytes, const std::vector<std::string>& fragments,
                             IdxKind kind = IdxKind::kImages) {
    directory_.Write("file", bytes);
    const absl::Status status = ReadIdx(path(), kind).status();
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
    for (const std::string& fragment : fragments) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
    }
  }
  static std::string Text(const IdxArray& array) {
    return std::string(reinterpret_cast<const char*>(array.values.data()), array.values.size());
  }
  std::string path() const { return directory_.Path("file"); }

  testing::TempDirectory directory_;
};

TEST_F(IdxTest, ReadsAnUncompressedFile) {
  directory_.Write("file", Idx({3, 4, 5}));
  const auto array = ReadIdx(path(), IdxKind::kImages);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->header.shape, (Shape{3, 4, 5}));
  EXPECT_EQ(Text(*array), Counting(60));
}

TEST_F(IdxTest, RecognisesGzipByContentNotByName) {
  directory_.Write("file", Gzip(Idx({3, 4, 5})));
  const auto array = ReadIdx(path(), IdxKind::kImages);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(Text(*array), Counting(60));
}

TEST_F(IdxTest, ReadsAFileLargerThanOneRead) {
  directory_.Write("file", Gzip(Idx({5000, 28, 28})));
  const auto array = ReadIdx(path(), IdxKind::kImages);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(Text(*array), Counting(5000 * 28 * 28));
}

TEST_F(IdxTest, ReadsHeadersOfLabelsAndOfImagesWithChannels) {
  directory_.Write("file", Idx({7}));
  EXPECT_EQ(ReadIdxHeader(path(), IdxKind::kLabels)->shape, (Shape{7}));
  directory_.Write("file", Idx({2, 3, 4, 3}));
  EXPECT_EQ(ReadIdxHeader(path(), IdxKind::kImages)->shape, (Shape{2, 3, 4, 3}));
}

TEST_F(IdxTest, RefusesAMissingFile) {
  const absl::Status status = ReadIdx(path(), IdxKind::kImages).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
}

TEST_F(IdxTest, RefusesADirectory) {
  EXPECT_THAT(std::string(ReadIdxHeader(directory_.path(), IdxKind::kImages).status().message()),
              HasSubstr("not a regular file"));
}

TEST_F(IdxTest, RefusesAPipeInsteadOfWaitingForAWriter) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadIdxHeader(path(), IdxKind::kImages).status().message()),
              HasSubstr("not a regular file"));
}

TEST_F(IdxTest, RefusesAnEmptyFile) { ExpectRefused("", {"is empty", "fetch it again"}); }

TEST_F(IdxTest, RefusesATruncatedHeader) {
  ExpectRefused(Idx({3, 4, 5}).substr(0, 3), {"truncated", "1 bytes of its header"});
  ExpectRefused(Idx({3, 4, 5}).substr(0, 10), {"truncated", "6 bytes of its header"});
  ExpectRefused(Gzip(Idx({3, 4, 5}).substr(0, 10)), {"truncated", "6 bytes of its header", "decompression"});
}

TEST_F(IdxTest, RefusalSaysHowManyBytesOfValuesAreMissing) {
  ExpectRefused(Idx({3, 4, 5}).substr(0, 16 + 49), {"truncated", "11 bytes of its values are missing"});
  ExpectRefusedInValues(Gzip(Idx({3, 4, 5}).substr(0, 16 + 49)), {"11 bytes of its values are missing"});
}

TEST_F(IdxTest, RefusesAFileWithBytesAfterTheValues) {
  ExpectRefused(Idx({3, 4, 5}) + "xy", {"2 bytes follow the 60"});
  ExpectRefusedInValues(Gzip(Idx({3, 4, 5}) + "xy"), {"more bytes follow the 60"});
}

TEST_F(IdxTest, RefusesAGzipStreamTruncatedAnywhere) {
  const std::string whole = Gzip(Idx({3, 4, 5}));
  for (size_t size = 2; size < whole.size(); ++size) {
    ExpectRefusedInValues(whole.substr(0, size), {"fetch"});
  }
}

TEST_F(IdxTest, RefusesAGzipFileWithAWrongChecksum) {
  std::string bytes = Gzip(Idx({3, 4, 5}));
  bytes[bytes.size() - 6] ^= 1;
  ExpectRefusedInValues(bytes, {"gzip stream is damaged", "incorrect data check", "fetch the file again"});
}

TEST_F(IdxTest, RefusesAWrongMagic) {
  ExpectRefused("P5 28 28 255 and so on", {"wrong magic", "not an IDX file"});
}

TEST_F(IdxTest, RefusesUnsupportedElementTypes) {
  ExpectRefused(IdxHeader({1, 1, 1}, 0x0E) + "abcdefgh",
                {"64-bit floats", "expected unsigned bytes (type 8) or 32-bit floats (type 13)"});
  ExpectRefused(IdxHeader({1}, 0x0D) + "abcd", {"32-bit floats", "expected unsigned bytes (type 8):"},
                IdxKind::kLabels);
  ExpectRefused(IdxHeader({1, 1, 1}, 0x77) + "abcd", {"an unknown type (type 119)"});
}

TEST_F(IdxTest, RefusesSwappedImagesAndLabels) {
  ExpectRefused(Idx({7}), {"has 1 axes", "swapped"}, IdxKind::kImages);
  ExpectRefused(Idx({3, 4}), {"has 2 axes", "swapped"}, IdxKind::kLabels);
  ExpectRefused(Idx({3, 4, 5, 6}), {"has 4 axes", "swapped"}, IdxKind::kLabels);
}

TEST_F(IdxTest, RefusesTooManyAxes) { ExpectRefused(Idx({1, 1, 1, 1, 1, 1, 1, 1, 1}), {"has 9 axes"}); }

TEST_F(IdxTest, RefusesAnAxisOfSizeZero) { ExpectRefused(IdxHeader({3, 0, 5}), {"axis 1 is 0"}); }

TEST_F(IdxTest, RefusesAHeaderWithMoreValuesThanAnyFileCanContain) {
  ExpectRefused(IdxHeader({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}) + "abc", {"the header announces"});
  ExpectRefused(IdxHeader({1 << 20, 1 << 10, 1 << 9}) + "abc", {"the header announces"});
}

TEST_F(IdxTest, RefusesAHeaderWithMoreValuesThanItsFileContains) {
  ExpectRefused(IdxHeader({60000, 2800, 280}) + "abc", {"truncated", "47039999997 bytes of its values"});
  ExpectRefused(Gzip(IdxHeader({60000, 2800, 280}) + "abc"), {"the header announces", "of gzip can hold"});
}

// A damaged file is either refused with its path in the message or read with all its values. A gzip file has
// a checksum, so the values read from it must be the original values.
TEST_F(IdxTest, RandomDamageOfAFileIsRefusedOrLeavesTheContentsOfAGzipFileIntact) {
  RandomStream random(1, RandomPurpose::kTest, 0);
  const std::string plain = Idx({6, 5, 7});
  for (const std::string& whole : {plain, Gzip(plain)}) {
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = whole;
      for (uint32_t flips = random.NextBelow(4); flips > 0; --flips) {
        bytes[random.NextBelow(bytes.size())] ^= static_cast<char>(1 + random.NextBelow(255));
      }
      if (random.NextBelow(3) == 0) bytes.resize(random.NextBelow(bytes.size()));
      directory_.Write("file", bytes);
      const auto array = ReadIdx(path(), IdxKind::kImages);
      if (!array.ok()) {
        EXPECT_THAT(std::string(array.status().message()), HasSubstr(path()));
      } else {
        EXPECT_EQ(array->values.size(), 210);
        EXPECT_TRUE(whole == plain || Text(*array) == plain.substr(16)) << "gzip hid the damage";
      }
    }
  }
}

}  // namespace
}  // namespace tethys
