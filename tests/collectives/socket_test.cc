#include "runtime/base/socket.h"

#include <poll.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

TEST(HostPort, HostNamesAndAddressesAreRead) {
  EXPECT_EQ(*ParseHostPort("10.0.0.3:4711"), (HostPort{"10.0.0.3", 4711}));
  EXPECT_EQ(*ParseHostPort("node3:0"), (HostPort{"node3", 0}));
  EXPECT_EQ(*ParseHostPort("[::1]:80"), (HostPort{"::1", 80}));
}

TEST(HostPort, InvalidTextIsRefused) {
  for (const char* text :
       {"", "host", ":80", "host:", "host:x", "host:65536", "host:-1", "::1:80", "[::1:80", "[]:80"}) {
    const absl::Status status = ParseHostPort(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST(HostPort, ParsedTextIsWrittenBackUnchanged) {
  for (const char* text : {"10.0.0.3:4711", "[::1]:80"}) EXPECT_EQ(HostPortText(*ParseHostPort(text)), text);
}

TEST(HostPort, ListenAddressWithoutAPortHasPortZero) {
  EXPECT_EQ(*ParseListenAddress("10.0.0.3"), (HostPort{"10.0.0.3", 0}));
  EXPECT_EQ(*ParseListenAddress("node3:4711"), (HostPort{"node3", 4711}));
  for (const char* text : {"fd00::3", "[fd00::3]", "[fd00::3]:0"})
    EXPECT_EQ(*ParseListenAddress(text), (HostPort{"fd00::3", 0})) << text;
  EXPECT_EQ(*ParseListenAddress("[::1]:80"), (HostPort{"::1", 80}));
  for (const char* text : {"", "[]", "fd00::3::4", "[x:y]", "a:b:c", "10.0.0.3:x"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseListenAddress(text).status())) << text;
}

// Two ends of a connection over loopback.
class Connection : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = *ListenTcp({"127.0.0.1", 0});
    caller_ = *StartConnectTcp(*LocalAddress(listener_.get()));
    Await(listener_.get(), POLLIN);
    called_ = *AcceptTcp(listener_.get());
    Await(caller_.get(), POLLOUT);
    ASSERT_TRUE(ConnectResult(caller_.get()).ok());
  }

  static void Await(int fd, short events) {
    pollfd polled = {.fd = fd, .events = events, .revents = 0};
    ASSERT_EQ(1, poll(&polled, 1, -1));
  }

  static absl::StatusOr<std::string> Receive(int fd) {
    std::string bytes(100, '\0');
    iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
    TETHYS_ASSIGN_OR_RETURN(const int64_t received, ReceiveSome(fd, {&part, 1}));
    return bytes.substr(0, received);
  }

  FileDescriptor listener_, caller_, called_;
};

TEST_F(Connection, SendTransfersAllParts) {
  char head[] = "head", body[] = "body";
  iovec parts[] = {{head, 4}, {body, 4}};
  EXPECT_EQ(8, *SendSome(caller_.get(), absl::MakeSpan(parts)));
  Await(called_.get(), POLLIN);
  EXPECT_EQ("headbody", *Receive(called_.get()));
}

TEST_F(Connection, ReceiveAndAcceptReturnNothingInsteadOfBlocking) {
  EXPECT_EQ("", *Receive(called_.get()));
  EXPECT_FALSE(AcceptTcp(listener_.get())->valid());
}

TEST_F(Connection, ReceiveReportsThatThePeerHasClosed) {
  caller_.Close();
  Await(called_.get(), POLLIN);
  EXPECT_EQ(Receive(called_.get()).status().code(), absl::StatusCode::kUnavailable);
}

TEST(Socket, ListenOnAnotherMachinesAddressFailsNamingIt) {
  const absl::Status status = CheckListen({"192.0.2.200", 0});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot listen on 192.0.2.200:0: this is no address of this machine"));
  EXPECT_TRUE(CheckListen({"127.0.0.1", 0}).ok());
}

TEST(Socket, PortInUseIsRefused) {
  const FileDescriptor first = *ListenTcp({"127.0.0.1", 0});
  EXPECT_EQ(ListenTcp(*LocalAddress(first.get())).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(WakeUp, SignalMakesItsDescriptorReadable) {
  const WakeUp wake_up = *WakeUp::Create();
  pollfd polled = {.fd = wake_up.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(0, poll(&polled, 1, 0));
  wake_up.Signal();
  EXPECT_EQ(1, poll(&polled, 1, 0));
}

}  // namespace
}  // namespace tethys
