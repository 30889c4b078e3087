#include "runtime/base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "runtime/base/file.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

constexpr int64_t kPage = 4096, kPages = 4096;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string bytes(kPages * kPage, '\0');
    for (int64_t page = 0; page < kPages; ++page) bytes[page * kPage] = static_cast<char>(page % 100);
    directory_.Write("samples", bytes);
    fd_ = FileDescriptor(open(directory_.Path("samples").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
  }

  // The number of bytes of mapped files that are in the page tables of this process.
  static int64_t MappedBytes() {
    const std::string status = ReadFile("/proc/self/status").value();
    int64_t kilobytes = -1;
    std::sscanf(status.c_str() + status.find("RssFile:"), "RssFile: %ld", &kilobytes);
    return kilobytes * 1024;
  }

  testing::TempDirectory directory_;
  FileDescriptor fd_;
};

TEST_F(MappedFileTest, PopulateMapsAllPagesOfTheFile) {
  utsname kernel = {};
  int major = 0, minor = 0;
  ASSERT_EQ(uname(&kernel), 0);
  ASSERT_EQ(std::sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  if (major < 5 || (major == 5 && minor < 14)) GTEST_SKIP() << "populating needs Linux 5.14";
  const int64_t before = MappedBytes();
  const MappedFile file = MappedFile::Map(fd_.get(), kPages * kPage).value();
  const int64_t mapped = MappedBytes();
  file.Populate();
  // The kernel's counters are not exact, because they may miss some pages.
  EXPECT_LT(mapped - before, kPages * kPage / 4);
  EXPECT_GT(MappedBytes() - before, kPages * kPage * 3 / 4);
}

TEST_F(MappedFileTest, PagesCutOffByTruncationReadAsZerosAndMarkTheFileAsLost) {
  const MappedFile file = MappedFile::Map(fd_.get(), kPages * kPage).value();
  ASSERT_EQ(ftruncate(fd_.get(), kPage), 0);
  file.Populate();
  EXPECT_FALSE(file.lost());
  EXPECT_EQ(file.bytes()[99 * kPage], 0);
  EXPECT_TRUE(file.lost());
}

}  // namespace
}  // namespace tethys
