// Reads the machines that a job may use from a text file. The file may have the lines that Open MPI, Horovod
// and DeepSpeed use:
//
//   # a comment
//   master
//   alice@slave1 slots=4 max_slots=4
//   slave10:4                        # as slots=4
//   slave[2-6,9] slots=2             # six lines in one; [01-12] keeps the zeros
//   [fd00::7]:4                      # an IPv6 address; also fd00::7
//
// These words are Tethys' own:
//
//   role=chief,worker                roles that may run on the host: chief, worker, ps; default: any
//   port=2222                        the port of the host's sshd
//   address=10.0.0.[2-6,9]           address at which processes listen; default: the name's address
//   folder=/scratch/me/tethys        folder for builds and run directories; default: ~/.cache/tethys
//   price=0.25                       price of the host per hour, in any currency
//   kind=small                       hosts of one kind have one price, given in the line of one of them
//   device=cuda                      device of the workers, cpu or cuda; default: the job's
//
// Pure except for ReadHostFile; thread-safe.
#ifndef TETHYS_RUNTIME_CLUSTER_HOST_FILE_H_
#define TETHYS_RUNTIME_CLUSTER_HOST_FILE_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "runtime/base/status.h"

namespace tethys {

struct HostRoles {
  bool chief = false;
  bool worker = false;
  bool ps = false;
  bool any_named() const { return chief || worker || ps; }
};

struct HostEntry {
  std::string user;     // Empty: ssh chooses the user.
  std::string host;     // The name given to ssh; an IPv6 address has no brackets.
  std::string address;  // Empty: the file gives no address.
  int slots = 1;        // The largest number of workers plus servers on this host.
  HostRoles roles;
  int ssh_port = 0;  // 0: ssh chooses the port.
  std::string kind;
  absl::optional<double> price_per_hour;
  absl::optional<proto::Device::Kind> device;
  int line = 0;        // The line of the file that names the host, counted from 1.
  std::string folder;  // An absolute path; empty: the file gives no folder.
};

constexpr int kMaxHosts = 4096;
constexpr int kMaxSlots = 1024;        // The largest number of slots of a host.
constexpr size_t kMaxNameBytes = 255;  // The limit for names of hosts, addresses, users and kinds.

// Returns the hosts in the file's order. InvalidArgument "PATH:LINE:COLUMN: what is wrong, and what to write
// instead": a word that is not understood, a value out of bounds, a host that is named twice, two prices of
// one kind, or a file without hosts. `path` is used in errors only.
absl::StatusOr<std::vector<HostEntry>> ParseHostFile(absl::string_view text, const std::string& path);

// These functions convert a device kind from and to "cpu" or "cuda". InvalidArgument: any other text.
absl::StatusOr<proto::Device::Kind> ParseDeviceKind(absl::string_view text);
std::string DeviceKindText(proto::Device::Kind kind);

// Reads and parses the file at `path`. Errors of reading, such as NotFound, name the path.
absl::StatusOr<std::vector<HostEntry>> ReadHostFile(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_HOST_FILE_H_
