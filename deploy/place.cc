#include "deploy/place.h"

#include <csignal>

#include "absl/strings/str_replace.h"
#include "runtime/base/process.h"

namespace tethys {
namespace {

// ssh's own status when it has no word from the other side.
constexpr int kSshFailed = 255;
// A shell reports a child that was killed by a signal as this plus the signal's number.
constexpr int kShellSignalBase = 128;

}  // namespace

Places PlacesHere(const std::string& program, int workers, int servers) {
  const Place here{.host = HostName(), .program = program};
  return {.chief = here,
          .servers = std::vector<Place>(servers, here),
          .workers = std::vector<Place>(workers, here)};
}

SpawnOptions CommandAt(const Place& place, const std::vector<std::string>& arguments) {
  if (place.ssh.empty()) return {.program = place.program, .arguments = arguments};
  std::string command = ShellQuote(place.program);
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", ShellQuote(argument));
  SpawnOptions options{
      .program = place.ssh[0], .arguments = {place.ssh.begin() + 1, place.ssh.end()}, .name = "ssh"};
  // The shell stays to tell by which signal its child ended, which ssh does not. The login shell may be of
  // any kind, so it only starts one that is known.
  options.arguments.push_back(absl::StrCat("exec sh -c ", ShellQuote(command + "; exit $?")));
  return options;
}

ProcessExit ExitAt(const Place& place, const ProcessExit& child) {
  if (place.ssh.empty()) return child;
  if (child.signal != 0 || child.code == kSshFailed) return {.connection_lost = true};
  const int signal = child.code - kShellSignalBase;
  return signal > 0 && signal <= SIGRTMAX ? ProcessExit{.signal = signal} : child;
}

std::string ShellQuote(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace tethys
