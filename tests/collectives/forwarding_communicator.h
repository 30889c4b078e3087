// Forwards every call to another communicator. A test double overrides the functions that it changes.
#ifndef TETHYS_TESTS_COLLECTIVES_FORWARDING_COMMUNICATOR_H_
#define TETHYS_TESTS_COLLECTIVES_FORWARDING_COMMUNICATOR_H_

#include <memory>

#include "collectives/communicator.h"

namespace tethys {

class ForwardingCommunicator : public Communicator {
 public:
  // `inner` must outlive this object.
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  absl::Status AllReduce(absl::Span<float> data) override { return inner_.AllReduce(data); }
  absl::Status ReduceScatter(absl::Span<float> data) override { return inner_.ReduceScatter(data); }
  Range OwnedBlock(int rank, int64_t count) const override { return inner_.OwnedBlock(rank, count); }
  absl::Status AllGather(absl::Span<char> data, absl::Span<const Range> parts) override {
    return inner_.AllGather(data, parts);
  }
  absl::Status Barrier() override { return inner_.Barrier(); }
  absl::Status Send(int peer, absl::Span<const char> data) override { return inner_.Send(peer, data); }
  absl::Status Receive(int peer, absl::Span<char> data) override { return inner_.Receive(peer, data); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour) override { return inner_.Split(colour); }
  absl::StatusOr<float*> AllocateForReduction(int64_t count) override {
    return inner_.AllocateForReduction(count);
  }
  TrafficCount traffic() const override { return inner_.traffic(); }
  void Abort(const absl::Status& reason) override { inner_.Abort(reason); }
  void Interrupt(const absl::Status& reason) override { inner_.Interrupt(reason); }

 private:
  Communicator& inner_;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_COLLECTIVES_FORWARDING_COMMUNICATOR_H_
