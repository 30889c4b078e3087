// Tests that files of pictures are read whole, and that a path to anything else is refused.
#include "runtime/data/picture_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& path) { return std::string(ReadPictureFile(path).status().message()); }

TEST(PictureFilesTest, FileOfAnyLengthIsReadWhole) {
  const testing::TempDirectory directory;
  constexpr int kPage = 1 << 16;  // Smaller files are read without a query of their size.
  for (const int size : {1, 300'000, kPage - 1, kPage, kPage + 1, 2 * kPage, 5}) {
    std::string content;
    for (int i = 0; i < size; ++i) content.push_back(static_cast<char>(i * 2'654'435'761u >> 24));
    const absl::StatusOr<absl::Span<const uint8_t>> bytes =
        ReadPictureFile(directory.Write("a.png", content));
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(content == std::string(bytes->begin(), bytes->end())) << size;
  }
}

TEST(PictureFilesTest, MissingEmptyOrIrregularPictureFileIsRefused) {
  const testing::TempDirectory directory;
  EXPECT_THAT(ErrorOf(directory.Path("none.png")), HasSubstr("cannot open " + directory.Path("none.png")));
  EXPECT_THAT(ErrorOf(directory.Write("empty.png", "")), HasSubstr("empty.png: the file is empty"));
  EXPECT_THAT(ErrorOf(directory.path()), HasSubstr(directory.path() + ": not a regular file"));
  const std::string pipe = directory.Path("pipe.png");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(pipe), HasSubstr("pipe.png: not a regular file"));
}

TEST(PictureFilesTest, FileOfMoreThanAGibibyteIsRefused) {
  const testing::TempDirectory directory;
  const std::string path = directory.Write("huge.png", "");
  ASSERT_EQ(truncate(path.c_str(), (int64_t{1} << 30) + 1), 0);
  EXPECT_THAT(ErrorOf(path), HasSubstr("huge.png: 1073741825 bytes are too many for a picture"));
}

}  // namespace
}  // namespace tethys
