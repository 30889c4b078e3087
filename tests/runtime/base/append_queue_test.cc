#include "runtime/base/append_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <memory>

namespace tethys {
namespace {

using ::testing::HasSubstr;

// A disk whose writes the test can block and make fail.
class Disk {
 public:
  absl::Status Write(absl::string_view record) {
    MutexLock lock(mu_);
    ++begun_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mu_);
    if (!errors_.empty()) {
      const absl::Status error = errors_.front();
      errors_.pop_front();
      return error;
    }
    contents_.append(record.data(), record.size());
    return absl::OkStatus();
  }
  void Hold(bool held) {
    MutexLock lock(mu_);
    held_ = held;
    changed_.NotifyAll();
  }
  void Fail(int times) {
    MutexLock lock(mu_);
    errors_.assign(times, absl::ResourceExhaustedError("disk full"));
  }
  void WaitForWrite(int number) {
    MutexLock lock(mu_);
    while (begun_ < number) changed_.Wait(mu_);
  }
  std::string contents() {
    MutexLock lock(mu_);
    return contents_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int begun_ ABSL_GUARDED_BY(mu_) = 0;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<absl::Status> errors_ ABSL_GUARDED_BY(mu_);
  std::string contents_ ABSL_GUARDED_BY(mu_);
};

class AppendQueueTest : public ::testing::Test {
 protected:
  std::unique_ptr<AppendQueue> Open(bool retry, int64_t most_bytes = 100) {
    return std::make_unique<AppendQueue>(
        AppendQueue::Options{
            .name = "lines", .most_bytes = most_bytes, .retry = retry, .retry_pause = kMillisecond},
        [this](absl::string_view record) { return disk_.Write(record); });
  }
  // Blocks the disk, appends `lines` and returns once the disk is writing them.
  void HangWith(AppendQueue& queue, const std::string& lines) {
    disk_.Hold(true);
    queue.Append(lines);
    disk_.WaitForWrite(1);
  }

  Disk disk_;
};

TEST_F(AppendQueueTest, Append_WhileTheDiskHangs_ReturnsAndKeepsOrder) {
  for (const bool retry : {false, true}) {
    Disk disk;
    AppendQueue queue({.name = "lines", .retry = retry},
                      [&disk](absl::string_view record) { return disk.Write(record); });
    disk.Hold(true);
    queue.Append("a\n");
    disk.WaitForWrite(1);
    queue.Append("b\n");
    queue.Append("c\n");
    EXPECT_EQ(disk.contents(), "");
    disk.Hold(false);
    EXPECT_TRUE(queue.Flush().ok());
    EXPECT_EQ(disk.contents(), "a\nb\nc\n");
  }
}

TEST_F(AppendQueueTest, Flush_WaitsForTheDisk) {
  const auto queue = Open(true);
  HangWith(*queue, "a\n");
  auto flushed = std::async(std::launch::async, [&queue] { return queue->Flush(); });
  EXPECT_EQ(flushed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  disk_.Hold(false);
  EXPECT_TRUE(flushed.get().ok());
  EXPECT_EQ(disk_.contents(), "a\n");
}

TEST_F(AppendQueueTest, FailedWrite_WithRetry_IsRepeatedUntilItSucceeds) {
  const auto queue = Open(true);
  disk_.Fail(2);
  queue->Append("a\n");
  disk_.WaitForWrite(3);
  queue->Append("b\n");
  EXPECT_TRUE(queue->Flush().ok()) << "a retried write that succeeded is no error of a flush";
  EXPECT_EQ(disk_.contents(), "a\nb\n");
  EXPECT_TRUE(absl::IsResourceExhausted(queue->TakeError()));
  EXPECT_TRUE(queue->TakeError().ok());
}

TEST_F(AppendQueueTest, Flush_OnAPermanentlyFailingDisk_ReturnsTheError) {
  const auto queue = Open(true);
  disk_.Fail(1 << 20);
  queue->Append("a\n");
  EXPECT_THAT(std::string(queue->Flush().message()), HasSubstr("disk full"));
  EXPECT_EQ(disk_.contents(), "");
}

TEST_F(AppendQueueTest, FailedWrite_WithoutRetry_LosesOnlyItsOwnLines) {
  const auto queue = Open(false);
  disk_.Fail(1);
  queue->Append("a\n");
  EXPECT_TRUE(absl::IsResourceExhausted(queue->Flush()));
  queue->Append("b\n");
  EXPECT_TRUE(queue->Flush().ok());
  EXPECT_EQ(disk_.contents(), "b\n");
}

TEST_F(AppendQueueTest, FullQueue_WithoutRetry_LosesNewLines) {
  const auto queue = Open(false, 4);
  HangWith(*queue, "a\n");
  for (const char* line : {"b\n", "c\n", "d\n"}) queue->Append(line);
  EXPECT_THAT(std::string(queue->TakeError().message()), HasSubstr("more than 4 bytes of lines wait"));
  disk_.Hold(false);
  EXPECT_TRUE(queue->Flush().ok());
  EXPECT_EQ(disk_.contents(), "a\nb\nc\n");
}

TEST_F(AppendQueueTest, FullQueue_WithRetry_FailsEveryLaterFlush) {
  const auto queue = Open(true, 4);
  HangWith(*queue, "a\n");
  for (const char* line : {"b\n", "c\n", "d\n"}) queue->Append(line);
  disk_.Hold(false);
  EXPECT_THAT(std::string(queue->Flush().message()), HasSubstr("a part of lines is lost"));
  queue->Append("e\n");
  EXPECT_FALSE(queue->Flush().ok());
}

TEST_F(AppendQueueTest, Destructor_WritesQueuedLines) {
  auto queue = Open(true);
  HangWith(*queue, "a\n");
  queue->Append("b\n");
  disk_.Hold(false);
  queue.reset();
  EXPECT_EQ(disk_.contents(), "a\nb\n");
}

TEST_F(AppendQueueTest, Progress_WhileTheDiskHangs_HasAllUnwrittenBytes) {
  for (const bool retry : {false, true}) {
    const auto queue = Open(retry);
    queue->Append("a\n");
    ASSERT_TRUE(queue->Flush().ok());
    disk_.Hold(true);
    queue->Append("bc\n");
    disk_.WaitForWrite(retry ? 5 : 2);
    queue->Append("d\n");
    const auto progress = queue->GetProgress(100);
    disk_.Hold(false);
    ASSERT_TRUE(progress.ok()) << progress.status();
    EXPECT_EQ(progress->written, 2);
    EXPECT_EQ(progress->unwritten, "bc\nd\n");
    ASSERT_TRUE(queue->Flush().ok());
    EXPECT_EQ(queue->GetProgress(100)->written, 7);
    EXPECT_EQ(queue->GetProgress(100)->unwritten, "");
  }
}

TEST_F(AppendQueueTest, Progress_AfterAFailedWrite_LeavesOutLostLines) {
  const auto queue = Open(false);
  disk_.Fail(1);
  queue->Append("lost\n");
  EXPECT_FALSE(queue->Flush().ok());
  queue->Append("a\n");
  EXPECT_TRUE(queue->Flush().ok());
  EXPECT_EQ(queue->GetProgress(100)->written, 2);
}

TEST_F(AppendQueueTest, Progress_WithRetryAfterAFailedWrite_HasItsLines) {
  const auto queue = Open(true);
  disk_.Fail(1 << 20);
  queue->Append("a\n");
  EXPECT_FALSE(queue->Flush().ok());
  EXPECT_EQ(queue->GetProgress(100)->written, 0);
  EXPECT_EQ(queue->GetProgress(100)->unwritten, "a\n");
}

TEST_F(AppendQueueTest, Progress_WithTooManyUnwrittenBytes_IsUnavailable) {
  const auto queue = Open(true);
  HangWith(*queue, "a\n");
  EXPECT_TRUE(absl::IsUnavailable(queue->GetProgress(1).status()));
  EXPECT_TRUE(queue->GetProgress(2).ok());
  disk_.Hold(false);
}

TEST_F(AppendQueueTest, Progress_OfAFileThatWasGivenUp_IsAnError) {
  const auto queue = Open(true, 4);
  HangWith(*queue, "a\n");
  for (const char* line : {"b\n", "c\n", "d\n"}) queue->Append(line);
  EXPECT_TRUE(absl::IsDataLoss(queue->GetProgress(100).status()));
  disk_.Hold(false);
}

}  // namespace
}  // namespace tethys
