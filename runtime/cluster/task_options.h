// How a task (a worker or a parameter server) is told where it belongs: by flags and, for the token, by
// standard input. Everything else it learns from the chief.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct TaskOptions {
  std::string chief_address;  // host:port
  proto::Role role = proto::WORKER;
  int index = 0;
  uint32_t incarnation = 1;
  std::string host = {};                // What the user calls this machine; empty: as it calls itself.
  std::string bind_host = "127.0.0.1";  // Where it takes gradients.
  JobToken token;
  std::string job_id;
  absl::optional<TlsIdentity> tls = {};  // Of this process; absent: connections are bare.
  Nanoseconds connect_timeout = 30 * kSecond;
  // Folders in which a worker on a GPU looks for NVIDIA's libraries before the system's.
  std::vector<std::string> cuda_library_path = {};
  bool own_gpus = false;      // It is shown GPUs that no other worker of its host is: it takes the first.
  Nanoseconds slow_down = 0;  // For trials: a worker waits so long before each of its steps.
  // Nothing heard from the chief for so long, once connected: it is lost.
  Nanoseconds chief_silence = 20 * kSecond;
  Nanoseconds chief_grace = 5 * kSecond;  // After which a process that has lost its chief is ended.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_
