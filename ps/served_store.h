// A parameter store with the device and the stream that it uses, created from the job plan. Used by the
// server's loop thread. Answers that are being sent share ownership of the store, so that the store's memory
// outlives the answers.
#ifndef TETHYS_PS_SERVED_STORE_H_
#define TETHYS_PS_SERVED_STORE_H_

#include <memory>

#include "proto/plan.pb.h"
#include "ps/parameter_store.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ServedStore {
  HandshakeExpectation expected;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ParameterStore> store;

  // The rank of the worker with this index; -1: the store does not serve the worker.
  int RankOf(int worker) const;

  // Creates a store with the plan's initial values, at version 0, on a device with `threads` threads.
  // InvalidArgument: the plan contradicts itself (variables that are not consecutive, another signature, a
  // bad placement). ResourceExhausted: this host has too little memory.
  static absl::StatusOr<std::shared_ptr<ServedStore>> Create(const proto::JobPlan& plan, int server,
                                                             uint32_t generation, int threads);
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVED_STORE_H_
