#include "deploy/run/secret_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "00112233445566778899aabbccddeeff";

// Flags of `tethys train`, with or without a token file.
Flags TrainFlags(const std::vector<std::string>& words) {
  return *ParseFlags({.verb = "train", .flags = {TokenFileFlag()}}, words);
}

class EnvironmentTokenTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kTokenVariable); }
  absl::StatusOr<JobSecret> Take(const std::string& value) {
    setenv(kTokenVariable, value.c_str(), 1);
    return TakeScheduledSecret(TrainFlags({}));
  }
};

TEST_F(EnvironmentTokenTest, VariableHasTheLineOfATokenFile) {
  for (const char* end : {"", "\n", "\r\n"}) {
    const auto secret = Take(absl::StrCat(kToken, " job-7", end));
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(secret->token.ToHex(), kToken);
    EXPECT_EQ(secret->job_id, "job-7");
  }
}

TEST_F(EnvironmentTokenTest, NoChildProcessInheritsTheVariable) {
  ASSERT_TRUE(Take(absl::StrCat(kToken, " job-7")).ok());
  EXPECT_EQ(std::getenv(kTokenVariable), nullptr);
  EXPECT_FALSE(Take("wrong").ok());
  EXPECT_EQ(std::getenv(kTokenVariable), nullptr);
}

TEST_F(EnvironmentTokenTest, OtherFormsAreRefusedWithoutShowingThem) {
  for (const std::string& value : {std::string(), std::string(kToken), absl::StrCat(kToken, "f job"),
                                   absl::StrCat(kToken, " secret job"), absl::StrCat("job ", kToken)}) {
    const absl::Status status = Take(value).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TETHYS_TOKEN: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("as `tethys token` prints them"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("0011")));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret job")));
  }
}

TEST_F(EnvironmentTokenTest, FileOfTheFlagHasPrecedence) {
  const testing::TempDirectory directory;
  const std::string path = directory.Write("token", absl::StrCat(kToken, " of-file\n"));
  chmod(path.c_str(), 0600);
  setenv(kTokenVariable, "wrong", 1);
  const auto secret = TakeScheduledSecret(TrainFlags({"--token_file", path}));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->job_id, "of-file");
  EXPECT_EQ(std::getenv(kTokenVariable), nullptr);
}

TEST_F(EnvironmentTokenTest, NeitherFileNorVariableIsRefused) {
  EXPECT_THAT(std::string(TakeScheduledSecret(TrainFlags({})).status().message()),
              HasSubstr("--token_file=FILE, or TETHYS_TOKEN in the environment"));
}

TEST(NewSecretLineTest, LinesAreAcceptedAndDiffer) {
  const std::string first = *NewSecretLine("slurm-7"), second = *NewSecretLine("slurm-7");
  const auto a = ParseSecretLine(first), b = ParseSecretLine(second);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->token.ToHex(), b->token.ToHex());
  EXPECT_NE(a->job_id, b->job_id);
  EXPECT_THAT(a->job_id, ::testing::MatchesRegex("slurm-7-[0-9a-f]+"));
}

TEST(NewSecretLineTest, NameMustBeOneWord) {
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\n"), std::string(201, 'a')}) {
    EXPECT_FALSE(NewSecretLine(name).ok()) << name;
  }
}

}  // namespace
}  // namespace tethys
