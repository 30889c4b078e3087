// The options of a task (a worker or a parameter server), from its flags and, for the secret, from standard
// input. All other settings come from the chief.
#ifndef TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_
#define TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "runtime/base/clock.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct TaskOptions {
  std::string chief_address;  // host:port
  proto::Role role = proto::WORKER;
  int index = 0;
  uint32_t incarnation = 1;
  std::string host = {};                // The user's name for this machine; empty: its own name.
  std::string bind_host = "127.0.0.1";  // The address at which this process listens for gradients.
  JobToken token;
  std::string job_id;
  // The TLS identity of this process; absent: connections are not encrypted.
  absl::optional<TlsIdentity> tls = {};
  Nanoseconds connect_timeout = 30 * kSecond;
  // Folders in which a worker on a GPU looks for NVIDIA's libraries before it looks in the system's folders.
  std::vector<std::string> cuda_library_path = {};
  bool own_gpus = false;  // True: no other worker sees the same GPUs, so this worker uses the first of them.
  Nanoseconds slow_down = 0;  // For experiments: a worker's delay before each of its steps.
  // A connected chief counts as lost after this time without a message from it.
  Nanoseconds chief_silence = 20 * kSecond;
  // A process that still runs this long after the loss of the chief is ended at once.
  Nanoseconds chief_grace = 5 * kSecond;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_TASK_OPTIONS_H_
