// The place where a process of a job runs, and the call that starts a program there: directly on this
// machine, or by ssh on another machine. Pure; any thread.
#ifndef TETHYS_DEPLOY_PROCESS_PLACE_H_
#define TETHYS_DEPLOY_PROCESS_PLACE_H_

#include <string>
#include <vector>

#include "deploy/process/subprocess.h"
#include "proto/job.pb.h"

namespace tethys {

struct Place {
  std::string host = {};                   // The machine's name, as in the host file.
  std::string address = "127.0.0.1";       // The numeric address on which the process listens.
  std::vector<std::string> ssh = {};       // The ssh call up to the host, program first; empty: this machine.
  std::string program = "/proc/self/exe";  // The path of tethys at that place.
  // The folder for builds and run directories on the host, by default ~/.cache/tethys; with ssh only.
  std::string folder = {};
  // `user` and `ssh_port` are as in SshTarget. A later run uses them to reach the machine.
  std::string user = {};
  int ssh_port = 0;
};

// The places of all processes of a job: of the chief, and of servers and workers by their indices.
struct Places {
  Place chief;
  std::vector<Place> servers;
  std::vector<Place> workers;
  // The device of each worker; empty: every worker has the device of the job.
  std::vector<proto::Device::Kind> worker_devices = {};
  bool tls = false;  // True if connections use mutual TLS.
};
// Places on this machine for all processes.
Places PlacesHere(const std::string& program, int workers, int servers);

// Options that start `program ARGUMENTS` at the place; the caller must set input, output and log.
SpawnOptions CommandAt(const Place& place, const std::vector<std::string>& arguments);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_PROCESS_PLACE_H_
