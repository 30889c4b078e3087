// Connects a list of ranks as a mesh of authenticated connections. Rank r connects to every lower rank and
// accepts connections from every higher rank. Then, on each connection:
//
//   acceptor                             connector
//      | <== TLS handshake, if TLS is used ==> |
//      | -- challenge (nonce a) ------------> |
//      | <-- handshake (proof over a), nonce b |
//      | -- handshake (proof over b) --------> |
//
// RingOptions::authenticator makes and checks the proofs. An acceptor that refuses the connector sends an
// error frame with the reason instead of its handshake.
//
// The acceptor serves all callers concurrently, each within limits of time and bytes, so that a foreign
// caller cannot delay the ranks by silence or a flood of data. Uses one thread, which blocks until the mesh
// is complete, the deadline has passed or RingOptions::interruption is raised.
#ifndef TETHYS_COLLECTIVES_RING_FORMATION_H_
#define TETHYS_COLLECTIVES_RING_FORMATION_H_

#include <cstdint>
#include <vector>

#include "collectives/ring_options.h"

namespace tethys {

struct RingConnection {
  SecureSocket socket;  // Not valid in this rank's own entry.
  uint32_t incarnation = 0;
};

// Returns one connection for each rank. Requires valid options with a clock. Has the errors of
// CreateRingCommunicator.
absl::StatusOr<std::vector<RingConnection>> FormRing(int listener, const RingOptions& options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_RING_FORMATION_H_
