// Tests the files that a live view reads beside the events: the prediction for the run, and the token for
// metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "deploy/live/expectation_file.h"
#include "deploy/live/metrics_token.h"
#include "deploy/process/scratch_directory.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;

class RunFilesTest : public ::testing::Test {
 protected:
  const std::string& directory() const { return scratch_.path(); }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string path = absl::StrCat(directory(), "/", name);
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::string TokenError(const std::string& path) {
    return std::string(ReadMetricsToken(path).status().message());
  }

 private:
  const ScratchDirectory scratch_ = *ScratchDirectory::Create();
};

TEST_F(RunFilesTest, ExpectationIsReadBackAndRemoved) {
  proto::Expectation expectation;
  proto::Estimate& rate = *expectation.mutable_prediction()->mutable_samples_per_second();
  rate.set_value(100);
  rate.set_low(90);
  rate.set_high(110);
  expectation.set_batch_per_worker(21.5);
  ASSERT_TRUE(WriteExpectation(directory(), expectation).ok());
  const auto read = ReadExpectation(directory());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), expectation.SerializeAsString());
  ASSERT_TRUE(WriteExpectation(directory(), absl::nullopt).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadExpectation(directory()).status()));
}

TEST_F(RunFilesTest, ExpectationThatMakesNoSenseIsRefused) {
  const std::string whole =
      "{\"prediction\":{\"samples_per_second\":{\"value\":100,\"low\":90,\"high\":110}},"
      "\"batch_per_worker\":2}";
  EXPECT_TRUE(ParseExpectation(whole).ok());
  for (const char* text :
       {"", "{", "{}", "{\"batch_per_worker\":2}",
        "{\"prediction\":{\"samples_per_second\":{\"value\":100,\"low\":90,\"high\":110}}}",
        "{\"prediction\":{\"samples_per_second\":{\"value\":\"NaN\",\"low\":90,\"high\":110}},"
        "\"batch_per_worker\":2}",
        "{\"prediction\":{\"samples_per_second\":{\"value\":100,\"low\":90,\"high\":110}},"
        "\"batch_per_worker\":2,\"link\":[{\"host\":\"a\"}]}"}) {
    EXPECT_FALSE(ParseExpectation(text).ok()) << text;
  }
  Write("prediction.json", whole.substr(0, 40));
  const absl::Status status = ReadExpectation(directory()).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr(directory() + "/prediction.json"));
}

TEST_F(RunFilesTest, TokenIsTheFirstLineOfAPrivateFile) {
  const auto token = ReadMetricsToken(Write("token", "0123456789abcdef\nmore\n"));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, "0123456789abcdef");
  EXPECT_TRUE(ReadMetricsToken(Write("long", std::string(256, 'x'))).ok());
}

TEST_F(RunFilesTest, TokenFileThatOthersCanReadIsRefused) {
  EXPECT_THAT(TokenError(Write("token", "0123456789abcdef\n", 0640)), HasSubstr("chmod 600"));
  EXPECT_THAT(TokenError(Write("token", "0123456789abcdef\n", 0602)), HasSubstr("mode 0602"));
}

TEST_F(RunFilesTest, FileWithoutATokenIsRefusedWithARemedy) {
  for (const std::string& text : {std::string(), std::string("short\n"), std::string("0123456789abcde\n"),
                                  std::string("0123456789 abcdef\n"), std::string(257, 'x')}) {
    EXPECT_THAT(TokenError(Write("token", text)), HasSubstr("openssl rand -hex 16")) << text;
  }
  EXPECT_THAT(TokenError(directory()), HasSubstr("is not a file"));
  EXPECT_THAT(TokenError(directory() + "/none"), HasSubstr("/none"));
}

}  // namespace
}  // namespace tethys
