#include "deploy/launcher/agent_frames.h"

#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "proto/agent.pb.h"

namespace tethys {
namespace {

proto::AgentOrder OrderOfSize(size_t bytes) {
  proto::AgentOrder order;
  order.mutable_start()->set_input(std::string(bytes, 'x'));
  return order;
}

// Parses the next message as an order to start a process, and returns the size of the process's input;
// nullopt if there is no message.
std::optional<size_t> NextSize(FrameReader& reader) {
  const auto message = reader.Next();
  EXPECT_TRUE(message.ok()) << message.status();
  if (!message.ok() || !message->has_value()) return std::nullopt;
  proto::AgentOrder order;
  EXPECT_TRUE(order.ParseFromString(**message));
  return order.start().input().size();
}

TEST(AgentFramesTest, MessagesOfAnySizeAreReassembled) {
  for (const size_t size : {size_t{1}, kMaxFramePiece - 1, kMaxFramePiece, 3 * kMaxFramePiece}) {
    FrameReader reader;
    const std::vector<std::string> frames = *FramesOf(OrderOfSize(size));
    for (const std::string& frame : frames) {
      EXPECT_LE(frame.size(), 4096);
      for (const char byte : frame) reader.Append({&byte, 1});
    }
    EXPECT_EQ(NextSize(reader), size);
    EXPECT_EQ(NextSize(reader), std::nullopt);
  }
}

TEST(AgentFramesTest, HeartbeatsBetweenFramesChangeNothing) {
  FrameReader reader;
  reader.Append(HeartbeatFrame() + absl::StrJoin(*FramesOf(OrderOfSize(9000)), HeartbeatFrame()));
  EXPECT_EQ(NextSize(reader), 9000);
}

TEST(AgentFramesTest, TooLargeMessageIsRefusedByItsSender) {
  EXPECT_EQ(FramesOf(OrderOfSize(kMaxAgentMessage)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AgentFramesTest, TooLongFrameIsRefusedAfterItsHeader) {
  FrameReader reader;
  reader.Append({"\xfd\x0f\0\0", 4});  // The size is 4093 bytes.
  EXPECT_EQ(reader.Next().status().message(), "a frame of 4093 bytes, which is more than 4092");
}

TEST(AgentFramesTest, TooLongMessageIsRefusedBeforeItsEnd) {
  FrameReader reader;
  const std::string frame = absl::StrCat(std::string("\xfc\x0f\0\x80", 4), std::string(kMaxFramePiece, 'x'));
  for (size_t bytes = 0; bytes <= kMaxAgentMessage; bytes += kMaxFramePiece) reader.Append(frame);
  EXPECT_EQ(reader.Next().status().message(), "a message of more than 262144 bytes");
}

TEST(AgentFramesTest, BytesBeforeHelloAreSkipped) {
  FrameReader reader(kAgentHello);
  for (const char byte : std::string("Welcome\n\xff\xff\xff\xff\ntethys-agent 1")) reader.Append({&byte, 1});
  EXPECT_FALSE(reader.greeted());
  EXPECT_EQ(NextSize(reader), std::nullopt);
  reader.Append("\n" + (*FramesOf(OrderOfSize(5)))[0]);
  EXPECT_TRUE(reader.greeted());
  EXPECT_EQ(NextSize(reader), 5);
}

}  // namespace
}  // namespace tethys
