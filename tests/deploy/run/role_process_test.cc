#include "deploy/run/role_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/flags/command.h"
#include "deploy/run/secret_source.h"
#include "runtime/base/file.h"
#include "runtime/cluster/task_options.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "00112233445566778899aabbccddeeff";

// Runs a role in a separate process, to whose standard input the test writes.
class RoleProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
  }
  void Start(absl::Status (*role)(const JobSecret&)) {
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(read_.get(), STDIN_FILENO);
    read_.Close();
    write_.Close();
    _exit(RunRole(Flags(), "worker", "worker-0", role));
  }
  void Write(const std::string& text) {
    ASSERT_TRUE(WriteFully(write_.get(), text.data(), text.size(), "pipe").ok());
  }
  int ExitStatus() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  absl::StatusOr<JobSecret> Read(const std::string& text) {
    Write(text);
    write_.Close();
    return ReadSecret(read_.get());
  }

  FileDescriptor read_, write_;
  pid_t pid_ = -1;
};

absl::Status WaitForever(const JobSecret&) {
  while (true) pause();
}

TEST_F(RoleProcessTest, TokenAndJobIdAreReadFromTheFirstLine) {
  const auto secret = Read(absl::StrCat(kToken, " job-7\nrest"));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->token.ToHex(), kToken);
  EXPECT_EQ(secret->job_id, "job-7");
}

TEST_F(RoleProcessTest, RefusesAMissingJobId) {
  const auto secret = Read(absl::StrCat(kToken, "\n"));
  EXPECT_THAT(std::string(secret.status().message()), HasSubstr("TOKEN JOB_ID"));
  EXPECT_THAT(std::string(secret.status().message()), Not(HasSubstr(kToken)));
}

TEST_F(RoleProcessTest, RefusesAnUnfinishedLine) { EXPECT_FALSE(Read(absl::StrCat(kToken, " job-7")).ok()); }

TEST_F(RoleProcessTest, RefusesMalformedToken) { EXPECT_FALSE(Read("token job-7\n").ok()); }

TEST_F(RoleProcessTest, CertificateThatIsNotYetValid_ErrorBlamesOnlyTheClock) {
  const auto authority = testing::MakeAuthority(-60);  // Certificates of this authority are not valid yet.
  const std::string line = SecretLine({.token = JobToken::Random(),
                                       .job_id = "job-7",
                                       .tls = testing::IdentityOf(*authority, proto::WORKER, 0)});
  const absl::Status status = Read(line + "\n").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              EndsWith("behind the clock of the launcher's machine; set the clock of this machine"));
}

TEST_F(RoleProcessTest, DamagedCertificateIsTheOnlyReasonReported) {
  const auto authority = testing::MakeAuthority();
  TlsIdentity identity = testing::IdentityOf(*authority, proto::WORKER, 0);
  identity.certificate.resize(identity.certificate.size() / 2);
  const absl::Status status =
      Read(SecretLine({.token = JobToken::Random(), .job_id = "job-7", .tls = identity}) + "\n").status();
  EXPECT_THAT(std::string(status.message()), EndsWith("it must come from the job's launcher unchanged"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("standard input")));
}

class TokenFileTest : public ::testing::Test {
 protected:
  // Makes a token file with permissions `mode` and reads it.
  absl::StatusOr<JobSecret> Read(const std::string& text, mode_t mode) {
    path_ = directory_.Write("token", text);
    chmod(path_.c_str(), mode);
    return ReadSecretFile(path_);
  }
  testing::TempDirectory directory_;
  std::string path_;
};

TEST_F(TokenFileTest, FileHasTheSameLineAsStandardInput) {
  const auto secret = Read(absl::StrCat(kToken, " job-7\n"), 0600);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->token.ToHex(), kToken);
  EXPECT_EQ(secret->job_id, "job-7");
  EXPECT_TRUE(Read(absl::StrCat(kToken, " job-7\n"), 0400).ok());
}

TEST_F(TokenFileTest, FileReadableByOthersIsRefused) {
  for (const mode_t mode : {0640, 0604, 0660, 0644}) {
    const absl::Status status = Read(absl::StrCat(kToken, " job-7\n"), mode).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600 " + path_));
  }
}

TEST_F(TokenFileTest, ErrorExplainsTheFormatOfTheFileWithoutRevealingTheToken) {
  const absl::Status status = Read(absl::StrCat(kToken, "\n"), 0600).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the first line of this file must be TOKEN JOB_ID"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kToken)));
  EXPECT_FALSE(Read("", 0600).ok());
  EXPECT_EQ(ReadSecretFile("/nowhere/token").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TokenFileTest, MalformedChiefAddressIsRefused) {
  ASSERT_TRUE(Read(absl::StrCat(kToken, " job-7\n"), 0600).ok());
  for (const char* chief : {"127.0.0.1", "127.0.0.1:99999", ":4000"}) {
    const auto flags = ParseFlags(TaskCommandSpec("worker", "", ""),
                                  {absl::StrCat("--chief=", chief), "--index=0", "--token_file=" + path_});
    ASSERT_TRUE(flags.ok()) << flags.status();
    const auto succeed = [](const TaskOptions&) { return absl::OkStatus(); };
    EXPECT_EQ(RunTask(*flags, "worker", proto::WORKER, succeed), kExitBadRequest) << chief;
  }
}

TEST_F(RoleProcessTest, EndsWhenItsStandardInputEnds) {
  Start(WaitForever);
  Write(absl::StrCat(kToken, " job-7\n"));
  write_.Close();
  EXPECT_EQ(ExitStatus(), 1);
}

TEST_F(RoleProcessTest, MissingSecretIsBadRequest) {
  Start(WaitForever);
  write_.Close();
  EXPECT_EQ(ExitStatus(), 2);
}

TEST_F(RoleProcessTest, ProcessExitsWithZeroIfItsRoleReturnsOkAndWithOneIfNot) {
  Start([](const JobSecret& secret) {
    return secret.job_id == "good" ? absl::OkStatus() : absl::AbortedError("bad");
  });
  Write(absl::StrCat(kToken, " good\n"));
  EXPECT_EQ(ExitStatus(), 0);
  Start([](const JobSecret&) { return absl::AbortedError("bad"); });
  Write(absl::StrCat(kToken, " good\n"));
  EXPECT_EQ(ExitStatus(), 1);
}

}  // namespace
}  // namespace tethys
