// A fake chief, worker or ps for tests of the launcher. It keeps the roles' contract with the launcher
// (standard input, progress lines, exit statuses) and otherwise behaves as the lines in RUN_DIR/behaviour
// say, such as "worker-1 crash". The processes of a run communicate through files in the run directory, whose
// path the chief reports as its address. With the verb `agent` this program runs the real agent, which then
// starts fake roles.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deploy/launcher/agent_process.h"
#include "runtime/base/file.h"

namespace tethys {
namespace {

struct Role {
  std::string name;  // The task's name: "chief", "worker-1".
  std::string run_dir;
  std::string behaviour = "work";
  int tasks = 0;  // The number of workers and servers.
  int incarnation = 1;

  bool Sees(const std::string& file) const { return FileExists(absl::StrCat(run_dir, "/", file)); }
  void Leave(const std::string& file, const std::string& contents = "") const {
    TETHYS_CHECK(WriteFileAtomically(absl::StrCat(run_dir, "/", file), contents).ok());
  }
  template <typename Condition>
  void Until(Condition condition) const {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

void Say(const std::string& json) {
  std::printf("%s\n", json.c_str());
  std::fflush(stdout);
}

[[noreturn]] void WaitForever() {
  while (true) pause();
}

// Ends this process when its standard input ends, as the real roles do.
void EndWithLauncher() {
  std::thread([] {
    char c;
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
    _exit(1);
  }).detach();
}

int FinishWith(const std::string& error, const std::string& culprit) {
  Say(absl::StrCat("{\"finished\":{\"error\":\"", error, "\",\"statusCode\":14,\"culprit\":\"", culprit,
                   "\"}}"));
  return 1;
}

// The names of the tasks that have started.
std::vector<std::string> Alive(const Role& role) {
  std::vector<std::string> names = *ListDirectory(role.run_dir + "/alive");
  std::erase_if(names, [](const std::string& name) { return absl::EndsWith(name, ".tmp"); });
  return names;
}

// Waits until the launcher has reaped a task; returns the name of that task.
std::string WaitForLoss(const Role& role) {
  std::string lost;
  role.Until([&] {
    for (const std::string& name : Alive(role)) {
      const pid_t pid = std::atoi(ReadFile(absl::StrCat(role.run_dir, "/alive/", name))->c_str());
      if (kill(pid, 0) != 0) lost = name;
    }
    return !lost.empty();
  });
  return lost.replace(lost.find('-'), 1, " ");
}

sigset_t InterruptSet() {
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  return interrupt;
}

int RunChief(const Role& role) {
  if (role.behaviour == "die-at-once") {
    std::fprintf(stderr, "cannot listen\n");
    return 3;
  }
  Say(absl::StrCat("{\"listening\":{\"address\":\"", role.run_dir, "\"}}"));
  role.Until([&] { return Alive(role).size() == role.tasks; });
  // Both events are written at once, so that a silent chief writes nothing after them.
  Say("{\"started\":{\"workers\":2,\"epochs\":\"1\"}}\n{\"progress\":{\"step\":\"7\"}}");
  role.Leave("started");
  if (role.behaviour == "silent") WaitForever();
  if (role.behaviour == "crash") abort();
  if (role.behaviour == "quit") return 0;
  if (role.behaviour == "fail") return FinishWith("worker 0 at step 7: the loss is not finite", "worker 0");
  if (role.behaviour == "watch") {
    const std::string lost = WaitForLoss(role);
    role.Leave("stop");
    return FinishWith(absl::StrCat(lost, ": its session broke"), lost);
  }
  if (role.behaviour == "saves") {
    const sigset_t interrupt = InterruptSet();
    int number = 0;
    sigwait(&interrupt, &number);
    role.Leave("saved");
    role.Leave("stop");
    return FinishWith("interrupted", "");
  }
  if (role.behaviour == "go-on") WaitForLoss(role);
  if (role.behaviour == "pause") role.Until([&] { return role.Sees("go"); });
  if (role.behaviour == "give-up-later") role.Until([&] { return role.Sees("lost"); });
  if (absl::StartsWith(role.behaviour, "give-up"))
    Say("{\"task_lost\":{\"role\":\"worker\",\"index\":1,\"incarnation\":1}}");
  if (absl::StartsWith(role.behaviour, "give-up") || role.behaviour == "replace") {
    role.Until([&] {
      Say("{\"progress\":{\"step\":\"8\"}}");
      return role.Sees("second-worker-1");
    });
  }
  if (role.behaviour == "train") {
    while (true) {
      Say("{\"progress\":{\"step\":\"8\"}}");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  Say("no progress event");
  role.Leave("stop");
  Say("{\"finished\":{\"ok\":true}}");
  return 0;
}

int RunTask(const Role& role) {
  std::fprintf(stderr, "%s says %s\n", role.name.c_str(), role.behaviour.c_str());
  role.Leave("alive/" + role.name, std::to_string(getpid()));
  if (role.incarnation == 2) role.Leave("second-" + role.name);
  role.Until([&] { return role.Sees("started"); });
  if (role.behaviour == "crash" && role.incarnation == 1) abort();
  if (role.behaviour == "exit") return 3;
  if (role.behaviour == "mishap" && role.incarnation == 1) return 75;
  if (role.behaviour == "hang" || role.behaviour == "stubborn") WaitForever();
  role.Until([&] { return role.Sees("stop"); });
  return 0;
}

int Main(int argc, char** argv) {
  if (std::string(argv[1]) == "agent") return RunAgent("/proc/self/exe").ok() ? 0 : 1;
  Role role;
  std::map<std::string, std::string> flags;
  for (int i = 2; i < argc; ++i) {
    const std::pair<std::string, std::string> flag = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    flags[flag.first] = flag.second;
  }
  const bool chief = std::string(argv[1]) == "chief";
  role.name = chief ? "chief" : absl::StrCat(argv[1], "-", flags["--index"]);
  if (flags.count("--incarnation") > 0) role.incarnation = std::atoi(flags["--incarnation"].c_str());
  role.run_dir = chief ? flags["--run_dir"] : flags["--chief"];

  std::ifstream behaviours(role.run_dir + "/behaviour");
  std::string name, behaviour;
  while (behaviours >> name >> behaviour) {
    if (name == role.name) role.behaviour = behaviour;
    if (name == "tasks") role.tasks = std::atoi(behaviour.c_str());
  }
  char secret[64] = "";
  if (scanf("%63[0-9a-f] %*16[0-9a-f]", secret) != 1 || std::string(secret).size() != 32) return 4;
  if (role.behaviour == "saves") {  // SIGINT is blocked before there are threads that SIGINT could interrupt.
    const sigset_t interrupt = InterruptSet();
    sigprocmask(SIG_BLOCK, &interrupt, nullptr);
  }
  if (role.behaviour == "stubborn") {
    signal(SIGTERM, SIG_IGN);
  } else {
    EndWithLauncher();
  }
  return chief ? RunChief(role) : RunTask(role);
}

}  // namespace
}  // namespace tethys

// Uses _exit, so no sanitizer checks for leaks. The check would run in a process of its own. If this process
// were killed during the check, that process would be left behind.
int main(int argc, char** argv) { _exit(tethys::Main(argc, argv)); }
