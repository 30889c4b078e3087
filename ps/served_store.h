// A parameter store with all it stands on, made from the chief's plan. Made and used on the server's loop
// thread; answers on their way to the network share its ownership, so that memory outlives what is being sent
// from it.
#ifndef TETHYS_PS_SERVED_STORE_H_
#define TETHYS_PS_SERVED_STORE_H_

#include <memory>

#include "proto/chief.pb.h"
#include "ps/parameter_store.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

struct ServedStore {
  HandshakeExpectation expected;
  int workers = 0;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<ParameterStore> store;

  // With the plan's initial values, at version 0. `threads` is the device's. InvalidArgument when the plan
  // contradicts itself: variables that do not follow one another, another signature, a bad placement.
  static absl::StatusOr<std::shared_ptr<ServedStore>> Create(const proto::JobPlan& plan, int server,
                                                             uint32_t generation, int threads);
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVED_STORE_H_
