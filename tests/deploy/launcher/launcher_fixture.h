// The fixture of the launcher's tests: a job of fake processes on this machine.
#ifndef TETHYS_TESTS_DEPLOY_LAUNCHER_LAUNCHER_FIXTURE_H_
#define TETHYS_TESTS_DEPLOY_LAUNCHER_LAUNCHER_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/launcher/launcher.h"
#include "runtime/base/file.h"

namespace tethys {

class Recorder final : public ProgressListener {
 public:
  void OnEvent(const proto::ProgressEvent& event) override {
    if (event.has_note()) notes.push_back(event.note());
    if (event.has_progress()) training_ = true;
    if (event.has_progress() && on_progress) std::exchange(on_progress, nullptr)();
  }
  void OnLogLine(const std::string& line) override { notes.push_back(line); }
  bool Behind() const override {
    if (training_ && on_behind) on_behind();
    return on_behind != nullptr;
  }
  std::vector<std::string> notes;
  std::function<void()> on_progress;  // Called once, when training has started.
  // If this function is set, Behind() returns true (much output waits to be shown), and calls the function
  // once training has started.
  std::function<void()> on_behind;

 private:
  bool training_ = false;
};

// Runs a chief, two workers and a server, each of which is tests/deploy/launcher/fake_role.cc. At the end of
// every test no process may be left: this process adopts the orphans of its children, so a wait for all
// children finds orphans too.
class LauncherTest : public ::testing::Test {
 protected:
  static constexpr double kNotInThisTest = 600;  // Seconds; a timeout that never expires in a test.

  void SetUp() override {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::string path = ::testing::TempDir() + "/launcher_XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    options_.places = PlacesHere(FAKE_ROLE, 2, 1);
    options_.run_dir = path;
    options_.chief_run_dir = path;
    options_.timeouts.set_start(kNotInThisTest);
    options_.timeouts.set_silence(kNotInThisTest);
    options_.timeouts.set_shutdown(kNotInThisTest);
    ASSERT_TRUE(CreateDirectories(path + "/alive").ok());
    Behave("tasks", "3");
  }
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
    ASSERT_TRUE(RemoveRecursively(options_.run_dir).ok());
  }

  void Behave(const std::string& task, const std::string& behaviour) {
    std::ofstream(options_.run_dir + "/behaviour", std::ios::app) << task << " " << behaviour << "\n";
  }
  pid_t PidOf(const std::string& task) {
    return std::atoi(ReadFile(options_.run_dir + "/alive/" + task)->c_str());
  }
  void WhenTraining(std::function<void()> action) { recorder_.on_progress = std::move(action); }
  RunResult Run() { return Launch(options_, recorder_); }
  std::string Failure() {
    const RunResult result = Run();
    EXPECT_FALSE(result.status.ok());
    return std::string(result.status.message()) + "\n" + result.log_tail;
  }

  LaunchOptions options_;
  Recorder recorder_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_DEPLOY_LAUNCHER_LAUNCHER_FIXTURE_H_
