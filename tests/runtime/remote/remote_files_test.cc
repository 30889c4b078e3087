// Tests the cache of blocks, and reads through the cache.
#include "runtime/remote/remote_files.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/remote/block_cache.h"
#include "tests/runtime/remote/scripted_transport.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ScriptedTransport;

absl::StatusOr<std::string> Bytes(int64_t count) { return std::string(static_cast<size_t>(count), 'x'); }

TEST(BlockCacheTest, LeastRecentlyUsedBlockIsDropped) {
  BlockCache cache(100);
  int fetches = 0;
  const auto get = [&](int64_t block) {
    EXPECT_TRUE(cache
                    .Get({.file = 0, .block = block}, 40,
                         [&](std::string) {
                           ++fetches;
                           return Bytes(40);
                         })
                    .ok());
  };
  get(1);
  get(2);
  get(1);
  get(3);  // The cache drops block 2.
  EXPECT_EQ(fetches, 3);
  get(1);
  EXPECT_EQ(fetches, 3);
  EXPECT_FALSE(cache.Has({.file = 0, .block = 2}));
  EXPECT_FALSE(cache.Has({.file = 1, .block = 1}));
}

TEST(BlockCacheTest, MemoryOfADroppedBlockIsReusedForABlockOfTheSameSize) {
  constexpr int64_t kBytes = 4000;
  BlockCache cache(8 * kBytes);
  // Fetches a block. Returns the capacity in bytes of the memory that the cache gives to the fetch for reuse.
  const auto spare_for = [&](int64_t block, int64_t size) {
    size_t spare = 0;
    const auto fetch = [&](std::string memory) {
      EXPECT_EQ(memory, "");
      spare = memory.capacity();
      memory.append(static_cast<size_t>(size), 'x');
      return absl::StatusOr<std::string>(std::move(memory));
    };
    EXPECT_TRUE(cache.Get({.file = 0, .block = block}, size, fetch).ok());
    return static_cast<int64_t>(spare);
  };
  for (int64_t block = 0; block < 8; ++block) EXPECT_LT(spare_for(block, kBytes), kBytes);
  EXPECT_GE(spare_for(8, kBytes), kBytes);   // The cache drops block 0.
  EXPECT_LT(spare_for(9, kBytes / 4), 100);  // The cache drops block 1, whose memory is too large.
}

TEST(BlockCacheTest, FailedFetchIsNotCached) {
  BlockCache cache(100);
  EXPECT_EQ(
      cache.Get({}, 1, [](std::string) { return absl::StatusOr<std::string>(absl::UnavailableError("cut")); })
          .status(),
      absl::UnavailableError("cut"));
  EXPECT_EQ(*cache.Get({}, 1, [](std::string) { return Bytes(1); }).value(), "x");
}

TEST(BlockCacheTest, ThreadsThatReadTheSameBlockAtOnceFetchItOnce) {
  BlockCache cache(100);
  std::atomic<int> fetches = 0, got = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto block = cache.Get({}, 10, [&](std::string) {
        ++fetches;
        std::this_thread::yield();
        return Bytes(10);
      });
      if (block.ok() && (*block)->size() == 10) ++got;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetches, 1);
  EXPECT_EQ(got, 8);
}

std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

struct Opened {
  std::unique_ptr<RemoteFiles> files;
  ScriptedTransport* transport;
};

Opened Over(ScriptedTransport::Script script, int blocks_ahead, int64_t cache_bytes = 1 << 12) {
  auto transport = std::make_unique<ScriptedTransport>(std::move(script));
  ScriptedTransport* raw = transport.get();
  RemoteOptions options = {
      .cache_bytes = cache_bytes, .block_bytes = 100, .random_bytes = 10, .blocks_ahead = blocks_ahead};
  options.patience.pause = [](Nanoseconds) {};
  return {CreateRemoteFiles(std::move(transport), {}, std::move(options)), raw};
}

std::string Read(const RemoteFile& file, int64_t offset, size_t size) {
  std::string out(size, '\0');
  const absl::Status status = file.ReadAt(offset, {reinterpret_cast<uint8_t*>(out.data()), size});
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(RemoteFilesTest, SmallReadsOfOneBlockNeedOneRequest) {
  const std::string content = Pattern(1234);
  const Opened opened =
      Over([&](const HttpRequest& request) { return testing::Serve(request, content, "\"1\""); }, 0);
  const auto file = opened.files->Open("http://h/a");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->size(), 1234);
  for (int64_t offset = 399; offset >= 300; --offset) EXPECT_EQ(Read(**file, offset, 1)[0], content[offset]);
  EXPECT_EQ(opened.transport->requests().size(), 2);  // One HEAD request and one request for a range.
  EXPECT_EQ(Read(**file, 1150, 84), content.substr(1150));
}

TEST(RemoteFilesTest, ReadsWithBlocksFetchedAheadReturnTheFilesBytes) {
  const std::string content = Pattern(9876);
  const Opened opened =
      Over([&](const HttpRequest& request) { return testing::Serve(request, content, "\"1\""); }, 3, 1 << 14);
  const auto file = opened.files->Open("http://h/a");
  ASSERT_TRUE(file.ok()) << file.status();
  std::string all;
  for (int64_t offset = 0; offset < 9876; offset += 37) {
    all += Read(**file, offset, std::min<size_t>(37, 9876 - offset));
  }
  EXPECT_EQ(all, content);
  EXPECT_EQ(opened.transport->requests().size(), 1 + 99);  // One HEAD request and one for each block.
}

TEST(RemoteFilesTest, RandomReadsOfMuchDataFetchLittleMoreThanTheyRead) {
  // The cache holds 4,096 bytes. Of a file that fits into the cache, blocks of 100 bytes are fetched, of a
  // larger file blocks of 10 bytes.
  for (const auto& [size, fetched] : {std::pair{4000, 100}, {5000, 10}}) {
    const std::string content = Pattern(size);
    const Opened opened =
        Over([&](const HttpRequest& request) { return testing::Serve(request, content, "\"1\""); }, 3);
    const auto file = opened.files->Open("http://h/a");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const int64_t offset : {3211, 515, 1998})
      EXPECT_EQ(Read(**file, offset, 4), content.substr(offset, 4));
    const auto requests = opened.transport->requests();
    for (size_t i = 1; i < requests.size(); ++i) EXPECT_EQ(requests[i].most_bytes, fetched);
    EXPECT_EQ(requests.size(), 1 + 4);  // The last read covers parts of two blocks.
  }
}

TEST(RemoteFilesTest, FileOpenedAgainUsesCachedBlocksUnlessItHasChanged) {
  const std::string content = Pattern(300);
  std::string etag = "\"1\"";
  const Opened opened =
      Over([&](const HttpRequest& request) { return testing::Serve(request, content, etag); }, 0);
  for (int i = 0; i < 2; ++i) Read(**opened.files->Open("http://h/a"), 0, 100);
  EXPECT_EQ(opened.transport->requests().size(), 3);
  etag = "\"2\"";
  Read(**opened.files->Open("http://h/a"), 0, 100);
  EXPECT_EQ(opened.transport->requests().size(), 5);
}

TEST(RemoteFilesTest, PatternInAnHttpPathIsRefused) {
  const Opened opened = Over([](const HttpRequest&) { return HttpAnswer{.status = 404}; }, 0);
  EXPECT_THAT(StatusText(opened.files->Expand("http://h/part-*").status()), HasSubstr("name each"));
  EXPECT_EQ(opened.files->Expand("http://h/a?x=*").value().front(), "http://h/a?x=*");
}

TEST(RemoteFilesTest, MissingLibraryErrorSaysHowToBuildIt) {
  const testing::TempDirectory empty;
  EXPECT_THAT(StatusText(LoadHttpTransport(empty.path(), {}).status()),
              AllOf(HasSubstr(empty.path() + "/libtethys_remote.so"), HasSubstr("libcurl4-openssl-dev")));
}

}  // namespace
}  // namespace tethys
