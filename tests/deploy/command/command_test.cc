// Tests what `tethys` refuses, and what it prints without starting a job.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_replace.h"
#include "deploy/launcher/run_directory.h"
#include "deploy/process/subprocess.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJob[] = R"pb(
  model {
    layer { flatten {} }
    layer { dense { units: 10 } }
  }
  data {
    idx { train_images: "DIR/images" train_labels: "DIR/labels" }
    classes: 10
  }
  optimizer {
    sgd {}
    learning_rate: 0.1
  }
  batch_size_per_worker: 8
  epochs: 1
  workers: 2
  strategy { parameter_server { servers: 2 } }
)pb";

std::string BigEndian(uint32_t value) {
  const uint32_t network = htonl(value);
  return std::string(reinterpret_cast<const char*>(&network), sizeof(network));
}

// Writes IDX files with `samples` images of 4 x 4 and their labels.
void WriteData(const std::string& directory, int samples, char label) {
  const std::string images = absl::StrCat(BigEndian(0x803), BigEndian(samples), BigEndian(4), BigEndian(4));
  const std::string labels = absl::StrCat(BigEndian(0x801), BigEndian(samples));
  TETHYS_CHECK(WriteFileAtomically(directory + "/images", images + std::string(samples * 16, '\x7f')).ok());
  TETHYS_CHECK(WriteFileAtomically(directory + "/labels", labels + std::string(samples, label)).ok());
}

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "/command_test_XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    WriteData(directory_, 40, 3);
    WriteJob(kJob);
  }
  void TearDown() override { ASSERT_TRUE(RemoveRecursively(directory_).ok()); }

  void WriteJob(const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(job(), absl::StrReplaceAll(text, {{"DIR", directory_}})).ok());
  }
  std::string job() const { return directory_ + "/tiny.textproto"; }
  std::string run_dir() const { return directory_ + "/run"; }

  struct Outcome {
    int status;
    std::string out;
    std::string error;
  };
  // Runs `tethys` with these arguments. Calls `meanwhile` while the process runs.
  Outcome Tethys(const std::vector<std::string>& arguments,
                 const std::function<void(Subprocess&)>& meanwhile = nullptr) {
    const std::string log = directory_ + "/stderr";
    unlink(log.c_str());
    auto process = Subprocess::Spawn({.program = TETHYS_COMMAND,
                                      .arguments = arguments,
                                      .input = "hello\n",
                                      .log_path = log,
                                      .read_output = true});
    TETHYS_CHECK(process.ok(), process.status().message());
    if (meanwhile) meanwhile(*process);
    Outcome outcome;
    char buffer[4096];
    for (ssize_t got = 1; got != 0;) {
      pollfd poller = {process->output(), POLLIN, 0};
      poll(&poller, 1, -1);
      got = read(process->output(), buffer, sizeof(buffer));
      outcome.out.append(buffer, std::max<ssize_t>(got, 0));
    }
    siginfo_t info;
    waitid(P_PID, process->pid(), &info, WEXITED | WNOWAIT);
    outcome.status = process->Poll()->signal != 0 ? -process->exit()->signal : process->exit()->code;
    outcome.error = *ReadFile(log);
    return outcome;
  }
  // Runs a `tethys train` that must be refused without making a run directory; returns the error.
  std::string Refused(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", job(), "--run_dir=" + run_dir()});
    const Outcome outcome = Tethys(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.error;
    EXPECT_FALSE(FileExists(run_dir()));
    return outcome.error;
  }

  std::string directory_;
};

TEST_F(CommandTest, HelpListsTheVerbs) {
  const Outcome outcome = Tethys({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* verb : {"train", "compare", "evaluate", "plan", "chief", "worker", "ps"}) {
    EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("\n  ", verb, " ")));
    const Outcome help = Tethys({verb, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, StartsWith(absl::StrCat("usage: tethys ", verb)));
    EXPECT_THAT(help.out, HasSubstr(absl::StrCat("  tethys ", verb)));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("\n  agent ")));
  EXPECT_EQ(Tethys({"help", "train"}).out, Tethys({"train", "--help"}).out);
  EXPECT_THAT(Tethys({"help", "trian"}).error, HasSubstr("did you mean train?"));
}

TEST_F(CommandTest, VersionNamesCommitAndBuild) {
  const Outcome outcome = Tethys({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex(
                               "Tethys [0-9]+\\.[0-9]+\\.[0-9]+, (commit [0-9a-f]+, )?build [0-9a-f]+\n"));
  for (const char* word : {"version", "-v", "-V"}) EXPECT_EQ(Tethys({word}).out, outcome.out) << word;
}

TEST_F(CommandTest, FieldOfAnotherStrategyIsRefused) {
  EXPECT_THAT(Refused({"--set=strategy.mirrored.gradients=BF16"}),
              HasSubstr("write --set=strategy=mirrored first"));
}

TEST_F(CommandTest, VariationThatAppliesToNoJobIsRefused) {
  const Outcome outcome =
      Tethys({"compare", job(), "--vary=tuning.bucket_bytes=4096", "--run_dir=" + run_dir()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("--vary=tuning.bucket_bytes: none of these jobs has this field"));
  EXPECT_FALSE(FileExists(run_dir()));
}

TEST_F(CommandTest, MisspelledVerbGetsSuggestion) {
  const Outcome outcome = Tethys({"trian"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.error,
            "tethys: there is no verb 'trian'; did you mean train? (tethys --help lists them)\n");
}

TEST_F(CommandTest, MisspelledFlagGetsSuggestion) {
  EXPECT_THAT(Refused({"--resum"}), HasSubstr("there is no flag --resum; did you mean --resume?"));
}

TEST_F(CommandTest, RefusesAJobWithAnUnknownField) {
  WriteJob(absl::StrCat(kJob, "wrokers: 3"));
  EXPECT_THAT(Refused({}), HasSubstr("tiny.textproto:"));
}

TEST_F(CommandTest, RefusesOverrideOfUnknownField) {
  EXPECT_THAT(Refused({"--set=wrokers=3"}), HasSubstr("wrokers"));
}

TEST_F(CommandTest, RefusesMissingJobFile) {
  const Outcome outcome = Tethys({"train", directory_ + "/none.textproto"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("none.textproto"));
}

TEST_F(CommandTest, LabelOutsideTheClassesIsRefusedBeforeTheJobStarts) {
  WriteData(directory_, 40, 12);
  EXPECT_THAT(Refused({}), HasSubstr("label"));
}

TEST_F(CommandTest, MissingGpuLibraryIsReportedOnce) {
  const std::string error = Refused({"--set=device.kind=CUDA", "--cuda_library_path=/no/such/folder"});
  const std::string reason = "there is no folder /no/such/folder on this host";
  EXPECT_THAT(error, AllOf(StartsWith("tethys train: host "), HasSubstr(reason)));
  EXPECT_EQ(error.find(reason), error.rfind(reason)) << error;
}

TEST_F(CommandTest, RefusesAChiefPortInUse) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  EXPECT_THAT(Refused({"--chief_port=" + port}),
              HasSubstr(absl::StrCat("port ", port, ": Address already in use")));
}

TEST_F(CommandTest, RefusesARunDirectoryInUse) {
  const auto used = RunDirectory::Create(run_dir());
  const Outcome outcome = Tethys({"train", job(), "--run_dir=" + run_dir()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("in use by another run"));
}

TEST_F(CommandTest, RefusesToOverwriteARun) {
  ASSERT_TRUE(RunDirectory::Create(run_dir())->WriteJob(proto::Job()).ok());
  const Outcome outcome = Tethys({"train", job(), "--run_dir=" + run_dir()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("already contains a run: this run saved no checkpoint"));
}

TEST_F(CommandTest, RefusesToResumeMissingRun) {
  EXPECT_THAT(Refused({"--resume"}), HasSubstr("contains no run to resume"));
}

TEST_F(CommandTest, PlanPrintsJobAndProcesses) {
  const Outcome outcome = Tethys({"plan", job()});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_THAT(outcome.out, StartsWith("tiny: ps_sync, 2 workers, 2 servers\n"));
  EXPECT_THAT(outcome.out, HasSubstr("worker 1 (rank 1)"));
}

TEST_F(CommandTest, EvaluateRefusesADirectoryWithoutACheckpoint) {
  const Outcome outcome = Tethys({"evaluate", job(), "--checkpoint=" + directory_});
  EXPECT_EQ(outcome.status, 2);
}

TEST_F(CommandTest, CompareRefusesAJobGivenTwice) {
  const Outcome outcome = Tethys({"compare", job(), job(), "--run_dir=" + run_dir()});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("another of the given jobs has the name tiny, too"));
  EXPECT_FALSE(FileExists(run_dir()));
}

// The directories of both runs are already in use, so each run fails at once. After the first run, the
// command reads the run's epochs.csv. In this test that file is a FIFO, so the command blocks until the test
// opens the FIFO.
TEST_F(CommandTest, InterruptAtTheEndOfARunStopsTheComparison) {
  const std::string first = run_dir() + "/tiny-r0";
  for (const std::string& taken : {first, run_dir() + "/tiny-r1"}) {
    ASSERT_TRUE(CreateDirectories(taken).ok());
    ASSERT_TRUE(WriteFileAtomically(taken + "/job.textproto", "").ok());
  }
  const std::string epochs = first + "/epochs.csv";
  ASSERT_EQ(mkfifo(epochs.c_str(), 0600), 0);
  const Outcome outcome =
      Tethys({"compare", job(), "--repeats=2", "--run_dir=" + run_dir()}, [&](Subprocess& process) {
        const FileDescriptor fifo(open(epochs.c_str(), O_WRONLY | O_CLOEXEC));
        unlink(epochs.c_str());
        process.Signal(SIGINT);
      });
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(outcome.error, HasSubstr("1 of 2 runs did not succeed, 1 were not started\ngo on with: "));
}

TEST_F(CommandTest, RoleWithoutSecretSaysWhatItsInputMustBe) {
  const Outcome outcome = Tethys({"worker", "--chief=127.0.0.1:1", "--index=0"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.error, HasSubstr("the first line on standard input must be TOKEN JOB_ID"));
}

TEST_F(CommandTest, DescriptorLimitIsRaisedToHardLimit) {
  rlimit before, low;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  // This worker stays alive: it waits for its secret on standard input.
  auto worker = Subprocess::Spawn({.program = TETHYS_COMMAND,
                                   .arguments = {"worker", "--chief=127.0.0.1:1", "--index=0"},
                                   .log_path = directory_ + "/stderr"});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(worker.ok()) << worker.status();
  rlimit own = low;
  while (own.rlim_cur == 64 && !worker->Poll().has_value()) {
    ASSERT_EQ(prlimit(worker->pid(), RLIMIT_NOFILE, nullptr, &own), 0);
  }
  EXPECT_EQ(own.rlim_cur, before.rlim_max);
}

}  // namespace
}  // namespace tethys
