#include "deploy/process/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "deploy/process/signal_source.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A script that answers each line of its input with that line.
constexpr char kEcho[] =
    R"(while read -r q; do echo noise; echo "tethys-check $q"; echo "tethys-check end"; done)";

class ConversationTest : public ::testing::Test {
 protected:
  void SetUp() override { signal(SIGPIPE, SIG_IGN); }

  void Talk(const std::string& command, const std::string& input = "",
            const std::vector<std::string>& ssh = {}) {
    const std::string path = directory_.Path(absl::StrCat(conversations_.size()));
    conversations_.push_back(std::make_unique<Conversation>(ssh, command, input, path));
  }
  std::vector<Answer> Ask(const std::vector<std::string>& questions, Nanoseconds deadline = 60 * kSecond) {
    return AskAll(conversations_, questions, deadline);
  }

  const testing::TempDirectory directory_;
  std::vector<std::unique_ptr<Conversation>> conversations_;
};

TEST_F(ConversationTest, EachConversationAnswersItsQuestionsInOrder) {
  Talk(kEcho);
  Talk(kEcho);
  EXPECT_THAT(Ask({"a", "b"})[1].lines, ElementsAre("b"));
  const std::vector<Answer> answers = Ask({"c", ""});
  EXPECT_THAT(answers[0].lines, ElementsAre("c"));
  EXPECT_THAT(answers[1].lines, IsEmpty());
}

TEST_F(ConversationTest, AnswerRecordsWhenItWasAskedAndWhenItEnded) {
  Talk(kEcho);
  const Answer answer = Ask({"a"})[0];
  EXPECT_GT(answer.asked, 0);
  EXPECT_GE(answer.heard, answer.asked);
}

TEST_F(ConversationTest, InputIsSentBeforeQuestions) {
  Talk(absl::StrCat("read -r secret; echo \"tethys-check $secret\"; ", kEcho), "s3cret\n");
  EXPECT_THAT(Ask({"a"})[0].lines, ElementsAre("s3cret", "a"));
}

TEST_F(ConversationTest, NoLineOfALongAnswerIsLost) {
  const std::string file = directory_.Path("answer");
  Talk(absl::StrCat("{ yes '' | head -n 9999; echo tethys-check a; echo tethys-check end; } >", file,
                    "; read -r _; cat ", file, "; read -r _"));
  EXPECT_THAT(Ask({"x"})[0].lines, ElementsAre("a"));
}

TEST_F(ConversationTest, CommandIsPassedToSshAsOneWord) {
  Talk("echo 'it''s' >&2; echo \"tethys-check  a\"; echo tethys-check end; read -r _", "",
       {"sh", "-c", "eval \"$1\"", "ssh"});
  EXPECT_THAT(Ask({"x"})[0].lines, ElementsAre(" a"));
}

TEST_F(ConversationTest, GreetingBeforeAnswersIsSkipped) {
  for (const std::string greeting :
       {"printf hi", "printf 'tethys-check '", "echo tethys-check end", "head -c 3000000 /dev/zero",
        "head -c 30000 /dev/urandom", "yes | head -c 3000000"}) {
    conversations_.clear();
    Talk(kEcho, "", {"sh", "-c", absl::StrCat(greeting, "; eval \"$1\""), "ssh"});
    const Answer answer = Ask(std::vector<std::string>(1, "a"))[0];
    EXPECT_TRUE(answer.status.ok()) << greeting << answer.status;
    EXPECT_THAT(answer.lines, ElementsAre("a")) << greeting;
  }
}

TEST_F(ConversationTest, EndlessGreetingIsDeadlineExceeded) {
  for (const char* greeting : {"yes", "cat /dev/zero"}) {
    conversations_.clear();
    Talk(kEcho, "", {"sh", "-c", absl::StrCat("exec ", greeting), "ssh"});
    EXPECT_EQ(Ask(std::vector<std::string>(1, "a"), 50 * kMillisecond)[0].status.code(),
              absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(ConversationTest, EndedProgramReportsReasonEveryTime) {
  Talk("echo 'Permission denied' >&2; exit 255");
  Talk("exit 0");
  Talk("echo 'no such thing' >&2; exit 3");
  Talk(kEcho);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Answer> answers = Ask({"a", "a", "a", "a"});
    EXPECT_EQ(answers[0].status, absl::UnavailableError("ssh: Permission denied"));
    EXPECT_EQ(answers[1].status, absl::UnavailableError("the shell on the host ended without an answer"));
    EXPECT_EQ(answers[2].status, absl::AbortedError("no such thing"));
    EXPECT_TRUE(answers[3].status.ok());
  }
}

TEST_F(ConversationTest, AnswerBeforeExitIsRead) {
  for (int i = 0; i < 50; ++i) {
    Talk("read -r q; echo \"tethys-check $q\"; echo tethys-check end");
    EXPECT_THAT(Ask(std::vector<std::string>(1, "a"))[0].lines, ElementsAre("a"));
    conversations_.clear();
  }
}

TEST_F(ConversationTest, MissingAnswerIsDeadlineExceeded) {
  Talk("exec sleep 1000");
  EXPECT_EQ(Ask({"a"}, 50 * kMillisecond)[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Ask({"a"})[0].status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ConversationTest, InterruptCancelsTheQuestionWhileInterruptsAreHeld) {
  Talk("exec sleep 1000");
  {
    const InterruptsHeld held;
    raise(SIGINT);
    EXPECT_TRUE(absl::IsCancelled(Ask({"a"})[0].status));
    signal(SIGINT, SIG_IGN);  // Discards the pending interrupt.
    raise(SIGINT);
    EXPECT_FALSE(InterruptPending());  // An interrupt that is ignored is not pending.
  }
  signal(SIGINT, SIG_DFL);
}

TEST_F(ConversationTest, EndlessAnswerIsRefused) {
  Talk("while echo tethys-check more; do :; done");
  EXPECT_EQ(Ask({"a"})[0].status.code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tethys
