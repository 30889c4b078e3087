#include "deploy/process/output_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

#include "runtime/base/file.h"

namespace tethys {
namespace {

// A queue that writes to a pipe. Only the test's function Read reads from the pipe.
class OutputQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    queue_ = std::make_unique<OutputQueue>(write_.get());
  }
  std::string Read(size_t bytes) {
    std::string text(bytes, '?');
    EXPECT_TRUE(ReadFully(text));
    return text;
  }
  bool ReadFully(std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t got = read(read_.get(), text.data() + done, text.size() - done);
      if (got <= 0) return false;
      done += got;
    }
    return true;
  }

  FileDescriptor read_, write_;
  std::unique_ptr<OutputQueue> queue_;
};

TEST_F(OutputQueueTest, TextsAreWrittenInOrder) {
  queue_->Write("one\n");
  queue_->Write("two\n");
  queue_.reset();
  EXPECT_EQ(Read(8), "one\ntwo\n");
}

TEST_F(OutputQueueTest, WriterNeverWaitsForAReader) {
  const std::string line = std::string(99'999, 'x') + "\n";
  for (int i = 0; i < 30; ++i) queue_->Write(line);  // 3 MB in all, of which a pipe takes 64 KiB.
  EXPECT_TRUE(queue_->behind());
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Read(line.size()), line);
}

TEST_F(OutputQueueTest, TextBeyondTheLimitIsReplacedByANoteOfItsSize) {
  const std::string text(OutputQueue::kMaxBytes, 'x');
  queue_->Write(text);
  queue_->Write("lost\n");
  queue_->Write("lost\n");
  EXPECT_EQ(Read(text.size()), text);
  while (queue_->behind()) std::this_thread::yield();
  queue_->Write("end\n");
  queue_.reset();
  write_.Close();
  EXPECT_EQ(Read(79), "[10 bytes of output are left out here, because they were not read in time]\nend\n");
}

TEST_F(OutputQueueTest, ClosedReaderIsIgnored) {
  signal(SIGPIPE, SIG_IGN);
  read_.Close();
  for (int i = 0; i < 100; ++i) queue_->Write(std::string(10'000, 'x'));
  queue_.reset();
}

}  // namespace
}  // namespace tethys
