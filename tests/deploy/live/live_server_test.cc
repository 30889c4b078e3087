#include "deploy/live/live_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/no_free_descriptors.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

constexpr int kCallers = 5;

// A server in a separate thread, with a clock that stands still, and with callers that the server has
// accepted.
class LiveServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_.Write("job.textproto", "name: \"job\"\n");
    auto server =
        LiveServer::Create({.run_dir = directory_.path(), .job = "job", .token = "secret", .clock = &clock_});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->Serve(stop_.fd()).ok()); });
    for (int i = 0; i <= kCallers; ++i) {
      callers_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      Connect(callers_.back());
    }
    Ask(callers_.back());  // This caller is accepted after all others.
    ASSERT_TRUE(IsAnswered(callers_.back(), kWait));
  }
  void TearDown() override {
    stop_.Signal();
    if (thread_.joinable()) thread_.join();
  }

  void Connect(const FileDescriptor& caller) const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(caller.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  // Sends a request without the token. The server answers such a request without opening a file.
  void Ask(const FileDescriptor& caller) const {
    const std::string request =
        absl::StrCat("GET / HTTP/1.1\r\nHost: 127.0.0.1:", server_->port(), "\r\n\r\n");
    ASSERT_EQ(send(caller.get(), request.data(), request.size(), MSG_NOSIGNAL), ssize_t(request.size()));
  }
  static constexpr bool kWait = true;
  static bool IsAnswered(const FileDescriptor& caller, bool wait) {
    pollfd answer = {caller.get(), POLLIN, 0};
    if (poll(&answer, 1, wait ? -1 : 0) != 1) return false;
    char bytes[9] = {};
    return recv(caller.get(), bytes, 8, MSG_PEEK) == 8 && absl::StartsWith(bytes, "HTTP/1.1");
  }
  // Callers [begin, end) send requests one after another, so the server polls its descriptors at least once
  // for each of these callers.
  void Turns(int begin, int end) const {
    for (int i = begin; i < end; ++i) {
      Ask(callers_[i]);
      ASSERT_TRUE(IsAnswered(callers_[i], kWait));
    }
  }

  // Makes a caller that the server fails to accept, because the process has no free descriptor. Afterwards
  // the process has free descriptors again.
  FileDescriptor RefusedCaller() {
    FileDescriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const testing::NoFreeDescriptors none;
    Connect(caller);
    Ask(caller);
    // After these turns the server has polled the listener as readable and has failed to accept.
    Turns(0, 2);
    return caller;
  }

  FakeClock clock_;
  const testing::TempDirectory directory_;
  const WakeUp stop_ = WakeUp::Create().value();
  std::unique_ptr<LiveServer> server_;
  std::vector<FileDescriptor> callers_;
  std::thread thread_;
};

TEST_F(LiveServerTest, ServerPausesAfterAFailedAccept) {
  const FileDescriptor refused = RefusedCaller();
  Turns(2, kCallers);  // These turns suffice for the server to accept, read and answer.
  EXPECT_FALSE(IsAnswered(refused, !kWait)) << "it goes on trying in each turn";
  clock_.Advance(kSecond);
  EXPECT_TRUE(IsAnswered(refused, kWait));
}

TEST_F(LiveServerTest, IdleConnectionsKeepNoCallerOut) {
  std::vector<FileDescriptor> idle;
  for (int i = 0; i < 50; ++i) {  // More callers than may be open at a time.
    idle.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Connect(idle.back());
  }
  const FileDescriptor caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connect(caller);
  Ask(caller);
  EXPECT_TRUE(IsAnswered(caller, kWait));
}

TEST_F(LiveServerTest, ConnectionWithoutARequestIsClosedAfterASecond) {
  const FileDescriptor idle(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connect(idle);
  Turns(0, 2);  // The idle caller is accepted in the first turn at the latest.
  clock_.Advance(kSecond);
  const FileDescriptor next(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connect(next);
  Ask(next);
  ASSERT_TRUE(IsAnswered(next, kWait));
  char byte = 0;
  EXPECT_EQ(recv(idle.get(), &byte, 1, 0), 0) << "it is closed";
}

TEST_F(LiveServerTest, ClosedConnectionEndsThePauseOfAccepting) {
  const FileDescriptor refused = RefusedCaller();
  callers_[0].Close();
  EXPECT_TRUE(IsAnswered(refused, kWait));
}

}  // namespace
}  // namespace tethys
