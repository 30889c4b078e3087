// A Communicator over TCP, for ranks on any hosts. Every pair of ranks holds one connection, authenticated
// both ways (authenticator.h). Short vectors are exchanged directly, in one hop. Long vectors are reduced
// around the ring, by reduce-scatter and all-gather. This transfers 2 (n-1)/n of the vector into and out of
// every rank, which is the minimum.
//
//   RingListener::Listen("10.0.0.3")  ->  send address() to all ranks
//       ->  CreateRingCommunicator(listener, options)
//
// CreateRingCommunicator blocks until all ranks are connected or `connect_timeout` has passed. Meanwhile
// connections from outside the group are refused without delaying any rank.
#ifndef TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/ring_options.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// The listening socket of a rank, bound before the ranks exchange their addresses. It may serve several
// communicators, one after the other (one for each generation of the membership).
class RingListener {
 public:
  // `host` or `host:port`; without a port the system chooses one.
  static absl::StatusOr<std::unique_ptr<RingListener>> Listen(const std::string& bind_address);

  // The bound address as host:port, with a numeric host.
  const std::string& address() const { return address_; }
  int fd() const { return fd_.get(); }

 private:
  RingListener(FileDescriptor fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  const FileDescriptor fd_;
  const std::string address_;
};

// `listener` must outlive the communicator, because Split uses it again. InvalidArgument: bad options.
// DeadlineExceeded names the missing ranks and the last refusal. Unauthenticated or FailedPrecondition: a
// rank refused this rank, or the authenticator refused a rank. If RingOptions::interruption is raised, its
// status is returned.
absl::StatusOr<std::unique_ptr<Communicator>> CreateRingCommunicator(RingListener& listener,
                                                                     RingOptions options);

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_RING_COMMUNICATOR_H_
