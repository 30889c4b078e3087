// How fast the network is between two machines: a listener on one, a measurement from the other, both of the
// same build. Called by the verb `link`. A stranger without the token is told nothing and costs the listener
// two seconds at most. In the order they are sent:
//
//   listener -> caller   8 bytes         nonce
//   caller -> listener   4 bytes, n, n   a proto::Handshake (runtime/cluster/handshake.h)
//   20 times             1 byte          from the caller, and back
//   caller -> listener   bytes           as many as go through in half a second, and the end of its side
//   listener -> caller   8 bytes         a double: bytes per second that arrived
//   listener -> caller   bytes           again for half a second, and the end
//
// Rates leave out the first tenth of a second, in which TCP gets up to speed.
#ifndef TETHYS_DEPLOY_HOSTS_LINK_METER_H_
#define TETHYS_DEPLOY_HOSTS_LINK_METER_H_

#include <memory>
#include <string>

#include "runtime/base/socket.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

struct LinkSpeed {
  double round_trip = 0;  // Seconds, the least of twenty.
  double there = 0;       // Bytes per second.
  double back = 0;
};

// Serves one caller after the other on a thread of its own, until it is destroyed. Thread-compatible.
class LinkListener {
 public:
  static absl::StatusOr<std::unique_ptr<LinkListener>> Start(const JobSecret& secret,
                                                             const std::string& host);
  virtual ~LinkListener() = default;
  virtual const HostPort& address() const = 0;
};

// Blocks for about a second, at most for ten: DeadlineExceeded. Unavailable: the listener cannot be reached,
// is gone, or does not know the secret.
absl::StatusOr<LinkSpeed> MeasureLink(const JobSecret& secret, const HostPort& listener);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_LINK_METER_H_
