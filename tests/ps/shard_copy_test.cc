#include "ps/shard_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

// The copy of server 1 with a parameter arena and one slot, of 8 + 3 elements with 8 elements of padding
// between them.
class ShardCopyTest : public ::testing::Test {
 protected:
  void SetUp() override { Make(/*with_book=*/false); }
  void Make(bool with_book) {
    proto::Placement placement;
    placement.set_servers(2);
    for (const auto& [name, range] : {std::pair{"a", Range{0, 8}}, std::pair{"b", Range{16, 3}}}) {
      proto::Shard& shard = *placement.add_shard();
      shard.set_variable(name);
      shard.set_begin(range.begin);
      shard.set_count(range.count);
      shard.set_server(1);
    }
    copy_ = *ShardCopy::Create(*ShardLayout::Create(placement, 1, 32), 1, 0, 1, with_book);
    size_ = copy_->layout().local_size();
  }
  Frame FrameOf(int64_t version, uint64_t number, int arena, Range range) const {
    Frame frame;
    frame.kind = FrameKind::kCopy;
    frame.group = 1;
    frame.step = static_cast<uint64_t>(arena);
    frame.sequence = number;
    frame.base_version = static_cast<uint64_t>(version);
    frame.range_begin = static_cast<uint64_t>(range.begin);
    frame.range_count = static_cast<uint64_t>(range.count);
    frame.payload_bytes = range.count * sizeof(float);
    return frame;
  }
  // "more", "complete" or the error.
  std::string Take(const Frame& frame, float value) {
    const std::vector<float> values(frame.payload_bytes / sizeof(float), value);
    const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), frame.payload_bytes);
    // In two pieces, as a transport may deliver the payload.
    const size_t cut = std::min<size_t>(5, bytes.size());
    const absl::StatusOr<bool> complete = copy_->Take(frame, {bytes.substr(0, cut), bytes.substr(cut)});
    return !complete.ok() ? StatusText(complete.status()) : *complete ? "complete" : "more";
  }
  // Takes a whole version, whose parameters have `value` and whose slots have 10 times this value.
  void TakeVersion(int64_t version, float value) {
    EXPECT_EQ(Take(FrameOf(version, 1, 0, {0, size_}), value), "more");
    EXPECT_EQ(Take(FrameOf(version, 2, 1, {0, size_}), 10 * value), "complete");
  }
  void ExpectVersion(int64_t version, float value) {
    ASSERT_EQ(copy_->version(), version);
    EXPECT_EQ(copy_->values(0)[size_ - 1], value);
    EXPECT_EQ(copy_->values(1)[0], 10 * value);
  }

  std::unique_ptr<ShardCopy> copy_;
  int64_t size_ = 0;
};

TEST_F(ShardCopyTest, NewestCompleteVersionStaysWhileTheNextVersionArrives) {
  EXPECT_EQ(copy_->version(), absl::nullopt);
  TakeVersion(7, 1);
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 1, 0, {0, size_}), 2), "more");
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 2, 1, {0, size_}), 20), "complete");
  ExpectVersion(8, 2);
}

TEST_F(ShardCopyTest, VersionArrivesInRangesOfAnyOrder) {
  EXPECT_EQ(Take(FrameOf(3, 1, 1, {8, size_ - 8}), 10), "more");
  EXPECT_EQ(Take(FrameOf(3, 2, 0, {8, size_ - 8}), 1), "more");
  EXPECT_EQ(Take(FrameOf(3, 3, 0, {0, 8}), 1), "more");
  EXPECT_EQ(Take(FrameOf(3, 4, 1, {0, 8}), 10), "complete");
  ExpectVersion(3, 1);
}

TEST_F(ShardCopyTest, VersionThatIsSentAgainBeginsAnew) {
  EXPECT_EQ(Take(FrameOf(3, 1, 0, {0, size_}), 5), "more");
  TakeVersion(3, 1);
  ExpectVersion(3, 1);
}

TEST_F(ShardCopyTest, FramesOfCompleteAndEarlierVersionsChangeNothing) {
  TakeVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 1, 0, {0, size_}), 2), "more");
  for (const int version : {6, 7}) {
    EXPECT_EQ(Take(FrameOf(version, 1, 0, {0, size_}), 9), "complete");
    EXPECT_EQ(Take(FrameOf(version, 2, 1, {0, size_}), 9), "complete");
  }
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 2, 1, {0, size_}), 20), "complete");
  ExpectVersion(8, 2);
}

TEST_F(ShardCopyTest, StepsBackToThePreviousVersionAndKeepsItWhileTheOwnerSendsItAgain) {
  TakeVersion(7, 1);
  TakeVersion(8, 2);
  copy_->StepBack(7);
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 1, 0, {0, size_}), 3), "more");
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 2, 1, {0, size_}), 30), "complete");
  ExpectVersion(8, 3);
}

TEST_F(ShardCopyTest, StepBackToTheNewestVersionKeepsIt) {
  TakeVersion(7, 1);
  TakeVersion(8, 2);
  copy_->StepBack(8);
  ExpectVersion(8, 2);
  copy_->StepBack(7);
  EXPECT_EQ(copy_->version(), absl::nullopt)
      << "version 7 was undone knowingly and may have been overwritten";
}

TEST_F(ShardCopyTest, StepBackToAnUnknownVersionLeavesNone) {
  TakeVersion(7, 1);
  copy_->StepBack(5);
  EXPECT_EQ(copy_->version(), absl::nullopt);
  TakeVersion(5, 4);
  ExpectVersion(5, 4);
}

TEST_F(ShardCopyTest, BadFramesAreRefusedAndChangeNothing) {
  TakeVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 1, 0, {0, 8}), 2), "more");
  Frame other = FrameOf(8, 2, 0, {8, 4});
  other.group = 0;
  EXPECT_THAT(Take(other, 2), HasSubstr("it is about server 0"));
  EXPECT_THAT(Take(FrameOf(8, 2, 2, {8, 4}), 2), HasSubstr("the job has 1 slots"));
  EXPECT_THAT(Take(FrameOf(8, 3, 0, {8, 4}), 2), HasSubstr("follows frame 1 of version 8"));
  EXPECT_THAT(Take(FrameOf(9, 2, 0, {8, 4}), 2), HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(Take(FrameOf(8, 2, 0, {8, size_}), 2), HasSubstr("OUT_OF_RANGE"));
  Frame far = FrameOf(8, 2, 0, {0, 1});
  far.range_begin = UINT64_MAX;
  far.range_count = 2;
  EXPECT_THAT(Take(far, 2), HasSubstr("OUT_OF_RANGE"));
  Frame shorter = FrameOf(8, 2, 0, {8, 4});
  shorter.payload_bytes = 8;  // Of 16.
  EXPECT_THAT(Take(shorter, 2), HasSubstr("its payload has 8 bytes"));
  Frame damaged = FrameOf(8, 2, 0, {8, 4});
  damaged.payload_checksum = 1;
  EXPECT_THAT(Take(damaged, 2), HasSubstr("DATA_LOSS"));
  Frame push = FrameOf(8, 2, 0, {8, 4});
  push.kind = FrameKind::kPush;
  EXPECT_THAT(Take(push, 2), HasSubstr("INVALID_ARGUMENT"));
  ExpectVersion(7, 1);
  EXPECT_EQ(Take(FrameOf(8, 2, 0, {8, size_ - 8}), 2), "more");
  EXPECT_EQ(Take(FrameOf(8, 3, 1, {0, size_}), 20), "complete");
  ExpectVersion(8, 2);
}

TEST_F(ShardCopyTest, VersionWithARangeTwiceIsRefusedBeforeItLooksComplete) {
  EXPECT_EQ(Take(FrameOf(8, 1, 0, {0, size_}), 2), "more");
  EXPECT_EQ(Take(FrameOf(8, 2, 0, {0, 8}), 2), "more") << "only the number of values is checked";
  EXPECT_THAT(Take(FrameOf(8, 3, 1, {0, size_}), 2), HasSubstr("more values than its elements"));
  EXPECT_EQ(copy_->version(), absl::nullopt);
}

// ----------------------------------------------------------------------------- versions with books

class ShardCopyWithBooksTest : public ShardCopyTest {
 protected:
  void SetUp() override { Make(/*with_book=*/true); }
  std::string TakeBook(int64_t version, uint64_t number, const proto::PushBook& book) {
    Frame frame = FrameOf(version, number, 2, {0, 0});
    frame.dtype = FrameDType::kBytes;
    const std::string bytes = book.SerializeAsString();
    frame.payload_bytes = bytes.size();
    const absl::StatusOr<bool> complete = copy_->Take(frame, {bytes});
    return !complete.ok() ? StatusText(complete.status()) : *complete ? "complete" : "more";
  }
  static proto::PushBook Book(const std::vector<int>& workers, bool whole) {
    proto::PushBook book;
    for (const int worker : workers) book.add_push()->set_worker(worker);
    book.set_version(static_cast<int64_t>(workers.size()));
    book.set_whole(whole);
    return book;
  }
  std::string TakeVersionWith(int64_t version, const proto::PushBook& book) {
    const std::string begun = TakeBook(version, 1, book);
    if (begun != "more") return begun;
    EXPECT_EQ(Take(FrameOf(version, 2, 0, {0, size_}), 1), "more");
    return Take(FrameOf(version, 3, 1, {0, size_}), 10);
  }
};

TEST_F(ShardCopyWithBooksTest, CopyKeepsTheRecordsOfAllVersions) {
  EXPECT_EQ(TakeVersionWith(4, Book({0, 1}, true)), "complete");
  EXPECT_EQ(TakeVersionWith(5, Book({2}, false)), "complete");
  const StoreCopy copy = copy_->Whole();
  EXPECT_EQ(copy.number, 5);
  EXPECT_EQ(copy.book.version(), 1);
  EXPECT_TRUE(copy.book.whole());
  ASSERT_EQ(copy.book.push_size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(copy.book.push(i).worker(), i);
  EXPECT_EQ(TakeVersionWith(6, Book({1}, true)), "complete");
  EXPECT_EQ(copy_->Whole().book.push_size(), 1) << "a whole book replaces the records";
}

TEST_F(ShardCopyWithBooksTest, RecordsOfAVersionThatIsNotCompleteDoNotCount) {
  EXPECT_EQ(TakeVersionWith(4, Book({0}, true)), "complete");
  EXPECT_EQ(TakeBook(5, 1, Book({1}, false)), "more");
  EXPECT_EQ(copy_->Whole().book.push_size(), 1);
  EXPECT_EQ(TakeVersionWith(5, Book({1}, false)), "complete") << "the version is sent again";
  EXPECT_EQ(copy_->Whole().book.push_size(), 2);
}

TEST_F(ShardCopyWithBooksTest, BookMustComeFirstBeReadableAndFollowTheVersionBefore) {
  EXPECT_THAT(Take(FrameOf(4, 1, 0, {0, size_}), 1), HasSubstr("a version begins with its book"));
  EXPECT_THAT(TakeBook(4, 1, Book({0}, false)),
              HasSubstr("the pushes since version 3, which the copy lacks"));
  Frame frame = FrameOf(4, 1, 2, {0, 0});
  frame.dtype = FrameDType::kBytes;
  frame.payload_bytes = 1;
  EXPECT_THAT(StatusText(copy_->Take(frame, {absl::string_view("\xff", 1)}).status()),
              HasSubstr("its payload is no book of pushes"));
  EXPECT_EQ(TakeBook(4, 1, Book({0}, true)), "more");
  EXPECT_THAT(TakeBook(4, 2, Book({0}, true)), HasSubstr("a version begins with its book"));
}

}  // namespace
}  // namespace tethys
