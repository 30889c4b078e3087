// The ranks of a ring and the settings of their connections.
#ifndef TETHYS_COLLECTIVES_RING_OPTIONS_H_
#define TETHYS_COLLECTIVES_RING_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/authenticator.h"
#include "runtime/base/clock.h"
#include "runtime/base/interruption.h"
#include "runtime/cluster/secure_socket.h"

namespace tethys {

struct RingMember {
  std::string address;           // host:port of the rank's listener.
  std::string name = {};         // "worker 2 on 10.0.0.3", for errors; empty: the address.
  std::string certificate = {};  // The name in the rank's certificate; with TLS only.

  const std::string& text() const { return name.empty() ? address : name; }
};

struct RingOptions {
  int rank = 0;
  std::vector<RingMember> members;  // Indexed by rank, including this rank; sets the world size.
  uint32_t group = 0;        // Distinguishes communicators of the same ranks that exist at the same time.
  uint32_t generation = 1;   // Membership generation; frames of another generation are refused.
  uint32_t incarnation = 1;  // 1 for a rank's first process; each replacement adds 1.
  std::shared_ptr<const Authenticator> authenticator;  // Required.
  // If set, connections use TLS, and each peer must show a certificate with the name in
  // RingMember::certificate. Null: no TLS.
  std::shared_ptr<const TlsContext> tls;
  // Payloads on connections without TLS have checksums, except on loopback. True: payloads have checksums on
  // loopback, too (for tests).
  bool checksums_on_loopback = false;
  Nanoseconds connect_timeout = 30 * kSecond;  // Limit for connecting all ranks.
  // A collective fails after this long without progress. Time in which other ranks compute does not count.
  Nanoseconds step_timeout = 30 * kSecond;
  PeersCompute peers_compute = nullptr;
  // Limit on the unacknowledged data that the system buffers for a connection; 0: the system's limit, several
  // MiB. A small limit keeps the data in the processor's cache (30 % less processor time for 4 MiB on
  // loopback). But a connection carries at most this much per round trip, so raise the limit if round trips
  // take more than a millisecond.
  int64_t send_buffer_bytes = 256 * 1024;
  const Clock* clock = nullptr;  // Required; not owned by the ring.
  // If set, raising the interruption ends the forming of the ring; later, it interrupts the communicator and
  // all communicators made from it. The interruption must outlive these communicators.
  Interruption* interruption = nullptr;

  int world() const { return static_cast<int>(members.size()); }
  std::vector<std::string> MemberNames() const {
    std::vector<std::string> names;
    for (const RingMember& member : members) names.push_back(member.text());
    return names;
  }
  // "rank 2 (worker 2 on 10.0.0.3)".
  std::string MemberText(int member) const {
    return absl::StrCat("rank ", member, " (", members[member].text(), ")");
  }
};

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_RING_OPTIONS_H_
