#include "deploy/process/place.h"

#include "absl/strings/str_cat.h"
#include "deploy/process/remote_shell.h"
#include "runtime/base/process.h"

namespace tethys {
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
  // "exit $?" makes sh wait for the program and report the signal that killed it (as 128 + number), which ssh
  // does not report.
  options.arguments.push_back(ShellCall(command + "; exit $?"));
  return options;
}

}  // namespace tethys
