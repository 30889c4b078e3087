// Tests that entries of the host's cache are made once, whole or not at all.
#include "runtime/data/host_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/testing/failing_calls.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostCacheTest : public ::testing::Test {
 protected:
  HostCache Open(Nanoseconds patience = HostCache::kPatience) {
    absl::StatusOr<HostCache> cache = HostCache::Open(directory_.Path("cache"), patience);
    TETHYS_CHECK(cache.ok(), cache.status().message());
    return *std::move(cache);
  }
  // Makes or finds the entry with this content.
  absl::StatusOr<std::string> Entry(const HostCache& cache, const std::string& name,
                                    const std::string& content) {
    return cache.Entry(
        name, [&](const std::string& path) { return ReadFile(path).value() == content; },
        [&](const std::string& path, absl::FunctionRef<void()> progressed) {
          ++made_;
          progressed();
          return WriteFileAtomically(path, content);
        });
  }
  std::vector<std::string> Names() { return ListDirectory(directory_.Path("cache")).value(); }

  const testing::TempDirectory directory_;
  std::atomic<int> made_{0};
};

TEST(CacheKeyTest, FieldsWithDifferentLengthsOrContentsGiveDifferentKeys) {
  const std::string key = CacheKey().Add("ab").Add("c").text();
  EXPECT_EQ(key.size(), 32);
  EXPECT_EQ(key, CacheKey().Add("ab").Add("c").text());
  EXPECT_NE(key, CacheKey().Add("a").Add("bc").text());
  EXPECT_NE(key, CacheKey().Add("ab").Add("d").text());
  EXPECT_NE(CacheKey().Add(1).text(), CacheKey().Add(2).text());
}

TEST_F(HostCacheTest, EntryIsMadeOnceThenFound) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Entry(Open(), "a", "text").value(), directory_.Path("cache/a"));
  EXPECT_EQ(made_, 1);
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(HostCacheTest, EntryThatTheCallerDoesNotAcceptIsMadeAnew) {
  ASSERT_TRUE(Entry(Open(), "a", "old").ok());
  ASSERT_TRUE(Entry(Open(), "a", "new").ok());
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(ReadFile(directory_.Path("cache/a")).value(), "new");
}

TEST_F(HostCacheTest, ThreadsThatWantTheSameEntryAtOnceMakeItOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { EXPECT_TRUE(Entry(Open(), "a", std::string(1 << 16, 'x')).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made_, 1);
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(HostCacheTest, FailureToMakeAnEntryLeavesNoFile) {
  const absl::Status status = Open()
                                  .Entry(
                                      "a", [](const std::string&) { return true; },
                                      [this](const std::string& path, absl::FunctionRef<void()>) {
                                        directory_.Write("cache/a.partial", "half");
                                        EXPECT_EQ(path, directory_.Path("cache/a.partial"));
                                        return absl::DataLossError("damaged");
                                      })
                                  .status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(HostCacheTest, LockHolderWithoutProgressIsNamedAfterTheDeadline) {
  const HostCache cache = Open(0);
  const CacheLock lock = cache.Lock("a").value();
  const absl::Status status = Entry(cache, "a", "text").status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(absl::StrCat("process ", getpid())), HasSubstr("cache/a")));
  EXPECT_EQ(made_, 0);
  EXPECT_FALSE(cache.TryLock("a").value().has_value());
}

TEST_F(HostCacheTest, ReleasedLockCanBeTakenAgainAndLeavesNoFile) {
  const HostCache cache = Open();
  { const CacheLock lock = cache.Lock("a").value(); }
  EXPECT_TRUE(cache.TryLock("a").value().has_value());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(HostCacheTest, PartialFilesAndLocksOfDeadProcessesAreRemoved) {
  const HostCache cache = Open();
  directory_.Write("cache/dead.partial", "half");
  directory_.Write("cache/dead.lock", "12\n");
  directory_.Write("cache/alive.partial", "half");
  directory_.Write("cache/entry", "whole");
  const CacheLock lock = cache.Lock("alive").value();
  Open();
  EXPECT_THAT(Names(), ElementsAre("alive.lock", "alive.partial", "entry"));
}

TEST_F(HostCacheTest, EntriesNotReadFor60DaysAreRemoved) {
  const HostCache cache = Open();
  const std::string key = CacheKey().Add("data").text();
  const auto write = [&](const std::string& name, int64_t days) {
    directory_.Write("cache/" + name, "text");
    const timespec time = {::time(nullptr) - days * 24 * 3600, 0};
    const timespec times[] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, directory_.Path("cache/" + name).c_str(), times, 0), 0);
  };
  write("samples-" + key, 61);
  write("samples-" + key + ".of", 61);
  write("records-" + key, 59);
  write("pictures-" + key, 61);  // The lock below marks this entry as in use.
  write("notes-of-mine", 61);
  write("samples-" + key.substr(1), 61);
  const CacheLock lock = cache.Lock("pictures-" + key).value();
  Open();
  EXPECT_THAT(Names(), ElementsAre("notes-of-mine", "pictures-" + key, "pictures-" + key + ".lock",
                                   "records-" + key, "samples-" + key.substr(1)));
}

TEST_F(HostCacheTest, FolderStaysInTheCacheIfOneOfItsFilesWasReadRecently) {
  Open();
  const std::string entry = "cache/chief-" + CacheKey().Add("data").text();
  ASSERT_TRUE(CreateDirectories(directory_.Path(entry)).ok());
  directory_.Write(entry + "/read", "text");
  const timespec long_ago[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, directory_.Path(entry).c_str(), long_ago, 0), 0);
  Open();
  EXPECT_TRUE(FileExists(directory_.Path(entry)));
  ASSERT_EQ(utimensat(AT_FDCWD, directory_.Path(entry + "/read").c_str(), long_ago, 0), 0);
  Open();
  EXPECT_FALSE(FileExists(directory_.Path(entry)));
}

TEST_F(HostCacheTest, FullDiskErrorNamesTheFolderAndTheNeededSpace) {
  const HostCache cache = Open();
  const testing::FailingCalls full({.name = "posix_fallocate", .errors = {ENOSPC}, .for_good = true});
  const absl::Status status = ReserveInCache(-1, 12345, cache.PathOf("a"));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(cache.PathOf("a")), HasSubstr("12345 bytes"), HasSubstr("data.cache_dir")));
}

TEST_F(HostCacheTest, ErrorNamesTheCacheFolderThatCannotBeMade) {
  directory_.Write("cache", "a file");
  const absl::Status status = HostCache::Open(directory_.Path("cache/deeper")).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("cache"), HasSubstr("data.cache_dir")));
}

}  // namespace
}  // namespace tethys
