// Where a process of a job runs, and what starts a program there: on this machine a child of this process, on
// another one an ssh. Pure; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_PLACE_H_
#define TETHYS_DEPLOY_PROCESS_PLACE_H_

#include <string>
#include <vector>

#include "deploy/process/subprocess.h"
#include "proto/job.pb.h"

namespace tethys {

struct Place {
  std::string host = {};                   // As the user calls it.
  std::string address = "127.0.0.1";       // Numeric; what the process binds and is reached at.
  std::vector<std::string> ssh = {};       // The ssh call up to the host, program first; empty: here.
  std::string program = "/proc/self/exe";  // There.
  std::string folder = {};  // Of ours, on another machine: builds, and run directories of chiefs.
  std::string user = {};    // With ssh_port as in SshTarget, to find the machine again in a later run.
  int ssh_port = 0;
};

// Of all processes of a job; tasks by index.
struct Places {
  Place chief;
  std::vector<Place> servers;
  std::vector<Place> workers;
  std::vector<proto::Device::Kind> worker_devices = {};  // Of each worker; empty: as the job says.
  bool tls = false;                                      // Their connections are under mutual TLS.
};
// All on this machine.
Places PlacesHere(const std::string& program, int workers, int servers);

// What starts `program ARGUMENTS` at the place; input, output and log are left to the caller.
SpawnOptions CommandAt(const Place& place, const std::vector<std::string>& arguments);

// `word` as a POSIX shell takes it back unchanged.
std::string ShellQuote(const std::string& word);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_PLACE_H_
