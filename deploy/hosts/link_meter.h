// Measures the network between two machines of the same build: one listens, the other calls and measures.
// Called by `tethys link`. A caller without the secret token gets no answer and occupies the listener for two
// seconds at most. The messages, in order:
//
//   listener -> caller   8 bytes         nonce
//   caller -> listener   4 + n bytes     n, then a proto::Handshake (runtime/cluster/handshake.h)
//   20 times             1 byte          from the caller and back
//   1 to 5 times         1 + 256 KiB     after a pause, a byte 1 and a block from the caller; 1 byte back
//   caller -> listener   1 byte          0: no further block
//   caller -> listener   bytes           as many as possible in half a second, then end of stream
//   listener -> caller   8 bytes         a double: bytes per second received
//   listener -> caller   bytes           as many as possible in half a second, then end of stream
//
// Rates leave out the first tenth of a second, because of TCP's slow start.
#ifndef TETHYS_DEPLOY_HOSTS_LINK_METER_H_
#define TETHYS_DEPLOY_HOSTS_LINK_METER_H_

#include <memory>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/socket.h"
#include "runtime/cluster/job_secret.h"

namespace tethys {

inline constexpr int64_t kBlockBytes = 256 << 10;

struct LinkSpeed {
  double round_trip = 0;  // In seconds; the least of twenty measurements.
  double there = 0;       // The rate from the caller to the listener, in bytes per second.
  double back = 0;        // The rate from the listener to the caller, in bytes per second.
  double block = 0;  // The median time in seconds from sending a block after a pause until it is received.
};

// The burst of a link: the number of bytes that the link accepts at once before its rate limits a transfer.
// It is computed from the time of a block, which is delay + (kBlockBytes - burst) / rate. At most half a
// block, because a larger burst would hide the rate.
double BurstBytes(const LinkSpeed& speed);

// Serves one caller at a time on a thread of its own, until destroyed. Thread-compatible.
class LinkListener {
 public:
  // `clock` (default: the machine's clock) is used only to time pauses after a failed accept.
  static absl::StatusOr<std::unique_ptr<LinkListener>> Start(const JobSecret& secret, const std::string& host,
                                                             const Clock* clock = nullptr);
  virtual ~LinkListener() = default;
  virtual const HostPort& address() const = 0;
};

// Measures the link to `listener`. Blocks for about a second. DeadlineExceeded: the measurement took
// more than ten seconds. Unavailable: the listener cannot be reached, is gone, or has another secret.
absl::StatusOr<LinkSpeed> MeasureLink(const JobSecret& secret, const HostPort& listener);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_HOSTS_LINK_METER_H_
