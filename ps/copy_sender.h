// Sends the parameters and optimizer slots of shards to another server: while the job trains, each version of
// a server's shards to the server that keeps their copy; after a loss, the copy to the server that has
// replaced the lost server. Thread-safe. No call but the destructor blocks.
//
// A version begins either with all of its values (Offer, Send) or range by range, as the ranges are updated
// (Add). If the stream breaks, the version is sent again from its first value.
#ifndef TETHYS_PS_COPY_SENDER_H_
#define TETHYS_PS_COPY_SENDER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/client_options.h"
#include "runtime/base/status.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct CopySenderOptions {
  ParameterClientOptions client;  // The handshake is the sending server's.
  int receiver = 0;               // Index of the receiving server.
  int primary = 0;                // Index of the server that the shards belong to.
  int64_t size = 0;               // Elements of each arena: ShardLayout::local_size().
  // The parameters and each slot. `memory` keeps them alive while they are being sent. They must not change
  // from when a range is added until its version is copied.
  std::vector<const float*> arenas;
  std::shared_ptr<const void> memory;
  // Called on the sender's thread: the receiver has the version; the receiver refuses the copy. Must not
  // block, nor call the sender.
  std::function<void(int64_t version)> on_copied;
  std::function<void(const absl::Status&)> on_refused;
};

class CopySender {
 public:
  // ResourceExhausted: no thread can be started.
  static absl::StatusOr<std::unique_ptr<CopySender>> Start(CopySenderOptions options);
  // Ends the stream; on_copied and on_refused are not called afterwards.
  virtual ~CopySender() = default;

  // Begins with `version` of all elements. `book`: the serialized proto::PushBook of the version; empty: it
  // has none. If the receiver has this version already, nothing is sent.
  virtual void Offer(int64_t version, std::string book) = 0;
  // The same for a version that the receiver cannot have.
  virtual void Send(int64_t version, std::string book) = 0;
  // The elements of `range` have their values of `version`. A version begins with its first range, when the
  // version before is copied.
  virtual void Add(int64_t version, Range range) = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_COPY_SENDER_H_
