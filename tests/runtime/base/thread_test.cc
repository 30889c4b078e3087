// pthread_create is replaced by a function that fails on demand, as if a limit of threads were reached.
#include "runtime/base/thread.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "runtime/base/append_queue.h"
#include "runtime/base/process.h"

namespace {

std::atomic<int> g_threads_left{-1};  // -1: no limit.

}  // namespace

extern "C" int pthread_create(pthread_t* id, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_threads_left == 0) return EAGAIN;
  if (g_threads_left > 0) --g_threads_left;
  return create(id, attributes, body, argument);
}

namespace tethys {
namespace {

using ::testing::HasSubstr;

// While the object lives, only `count` threads can be started.
class ThreadLimit {
 public:
  explicit ThreadLimit(int count) { g_threads_left = count; }
  ~ThreadLimit() { g_threads_left = -1; }
};

TEST(ThreadTest, ThreadRunsItsBodyAndIsJoinedByTheDestructor) {
  std::atomic<bool> ran{false};
  {
    Thread thread;
    EXPECT_FALSE(thread.running());
    ASSERT_TRUE(thread.Start([&] { ran = true; }).ok());
    Thread moved(std::move(thread));
    EXPECT_TRUE(moved.running());
    EXPECT_FALSE(thread.running());
  }
  EXPECT_TRUE(ran);
}

TEST(ThreadTest, ErrorAtTheThreadLimitNamesTheLimitAndTheRemedy) {
  const ThreadLimit limit(0);
  Thread thread;
  const absl::Status status = thread.Start([] {});
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot start a thread: the limit of processes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("raise the limit"));
  EXPECT_FALSE(thread.running());
  EXPECT_FALSE(KeepSignalsOffThisThread().ok());
}

TEST(ThreadTest, ErrorOtherThanTheThreadLimitKeepsItsErrnoText) {
  EXPECT_EQ(StartError(EPERM, "cannot start x").message(), "cannot start x: Operation not permitted");
}

TEST(CheckThreadsTest, FailsIfOneThreadCannotBeStarted) {
  EXPECT_TRUE(CheckThreads(5).ok());
  const ThreadLimit limit(4);
  EXPECT_TRUE(absl::IsResourceExhausted(CheckThreads(5)));
}

TEST(RunBesideTest, RunBesideRunsTheWorkEvenIfNoThreadCanBeStarted) {
  int done = 0;
  RunBeside(
      kMillisecond, [&] { ++done; }, [] {});
  const ThreadLimit limit(0);
  RunBeside(
      kMillisecond, [&] { ++done; }, [] { FAIL() << "there is no thread to wait for"; });
  EXPECT_EQ(done, 2);
}

TEST(AppendQueueWithoutThreadTest, QueueWhoseThreadCannotStartReturnsAnErrorInsteadOfWaiting) {
  const ThreadLimit limit(0);
  AppendQueue queue({.name = "lines"}, [](absl::string_view) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(queue.TakeError().message()), HasSubstr("lines: cannot start a thread"));
  queue.Append("line\n");
  EXPECT_TRUE(queue.Flush().ok()) << "the error was taken";
}

}  // namespace
}  // namespace tethys
