// Collective operations among a fixed list of ranks, and messages between two of them. A communicator is made
// for one group id and generation. Once an operation has failed, the communicator is permanently broken, and
// every later call returns the first error. Discard the communicator then, and create another under a new
// generation.
//
// Collectives are AllReduce, ReduceScatter, AllGather, Barrier, Split and AllocateForReduction. Every rank
// calls the same collectives with the same counts in the same order; otherwise every rank gets an error that
// names the mismatch, from this call or from the next call on that rank. The n-th Send from rank a to rank b
// is received by the n-th Receive on b from a. The two calls must be made between the same two collectives;
// otherwise both ranks get an error, at the latest after the timeout.
//
// All calls block and are made by one thread at a time. A call fails if it makes no progress for the timeout
// given at construction.
#ifndef TETHYS_COLLECTIVES_COMMUNICATOR_H_
#define TETHYS_COLLECTIVES_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct TrafficCount {
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // data[i] becomes the sum over ranks. The order of additions depends only on the world size, the count, i
  // and, if ranks of several hosts share memory, on which ranks share a host. So a rerun with the same kind
  // of communicator on the same hosts is bit-equal, and all ranks hold the same bits.
  virtual absl::Status AllReduce(absl::Span<float> data) = 0;

  // The first half of an all-reduce: the elements of OwnedBlock(rank(), count) become their sums, with the
  // bits that AllReduce gives them. The other elements are undefined afterwards. An AllGather of all owned
  // blocks is the second half.
  virtual absl::Status ReduceScatter(absl::Span<float> data) = 0;
  // The part of a vector of `count` floats that ReduceScatter sums on `rank`; the same answer on every rank.
  // The blocks of all ranks are disjoint and cover the vector. Not a collective.
  virtual Range OwnedBlock(int rank, int64_t count) const = 0;

  // Copies the bytes parts[r] of rank r's `data` to the same bytes of `data` on all ranks. `parts` is indexed
  // by rank and equal on all ranks; the parts lie in `data`, are disjoint and may be empty. Other bytes keep
  // their values.
  virtual absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) = 0;

  // Returns when every rank has called Barrier.
  virtual absl::Status Barrier() = 0;

  // Copies `data` to the `data` of the peer's Receive, which has the same size. Send may block until the peer
  // calls Receive, so of two ranks that send to each other one must begin with Receive. Other ranks take no
  // part. While one of the two ranks waits for a third rank, the timeout of the other rank keeps running.
  // InvalidArgument: `peer` is this rank or no rank of the world, or the sizes differ.
  virtual absl::Status Send(int peer, absl::Span<const char> data) = 0;
  virtual absl::Status Receive(int peer, absl::Span<char> data) = 0;

  // Returns a communicator of the ranks that gave the same colour, in the order of their ranks; null on ranks
  // that gave a negative colour. The new communicator is independent of this one and may outlive it. If it
  // cannot be formed on one rank, Split also fails on the other ranks of the same colour, and this
  // communicator stays usable. During Split, no other communicator may be formed through the same listener.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) = 0;

  // Returns zeroed, page-aligned memory for `count` floats, in which ranks of one host reduce vectors in
  // place without a copy. The memory lives as long as the communicator. Null if ordinary memory is as fast.
  // This is a collective: every rank calls it once, with the same count.
  virtual absl::StatusOr<float*> AllocateForReduction(int64_t count) {
    (void)count;
    return nullptr;
  }

  // Bytes sent and received so far, including frame headers.
  virtual TrafficCount traffic() const = 0;

  // Makes every blocked or later call on this rank return `reason`. That blocked or later call, not Abort
  // itself, sends `reason` to all peers, so the call may take another 2 s if a peer does not receive.
  // Thread-safe.
  virtual void Abort(const absl::Status& reason) = 0;

  // Makes every blocked or later call on this rank return `reason` soon (within 50 ms on an idle machine),
  // even if peers are stopped or unreachable. Calls return the first error if the communicator has already
  // failed; a call that is still sending this error to peers stops sending.
  //
  // `reason` is not sent to the peers, which see only that this rank is gone. A peer that still needs data
  // from this rank gets Unavailable. A peer that has all data completes its collective, with the right sums.
  // So a collective that succeeds on one rank has used the data of all ranks.
  //
  // Abort is for a rank that knows why all ranks must fail; Interrupt is for a group that is replaced.
  // Thread-safe; does not block.
  virtual void Interrupt(const absl::Status& reason) = 0;
};

inline absl::Span<char> BytesOf(absl::Span<float> data) {
  return {reinterpret_cast<char*>(data.data()), data.size() * sizeof(float)};
}

// Returns the `own` of every rank, indexed by rank. A collective.
template <typename T>
absl::StatusOr<std::vector<T>> AllGather(Communicator& all, const T& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  std::vector<T> values(all.world_size());
  values[all.rank()] = own;
  std::vector<Range> parts;
  for (int rank = 0; rank < all.world_size(); ++rank) {
    parts.push_back({.begin = rank * kBytes, .count = kBytes});
  }
  const absl::Span<char> bytes(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T));
  TETHYS_RETURN_IF_ERROR(all.AllGather(bytes, parts));
  return values;
}

// Copies `data` of rank `root` to all ranks. A collective.
inline absl::Status Broadcast(Communicator& all, absl::Span<char> data, int root) {
  if (root < 0 || root >= all.world_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot broadcast from rank ", root, " in a world of ", all.world_size()));
  }
  std::vector<Range> parts(all.world_size());
  parts[root].count = static_cast<int64_t>(data.size());
  return all.AllGather(data, parts);
}

}  // namespace tethys

#endif  // TETHYS_COLLECTIVES_COMMUNICATOR_H_
