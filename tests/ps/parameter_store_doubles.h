// Test doubles for a parameter store: a stream without work, an optimizer with an easily predicted update,
// and actions that are recorded.
#ifndef TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_
#define TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "ps/store_actions.h"
#include "runtime/optim/optimizer.h"

namespace tethys {

class NoStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// Computes w -= lr * mean gradient over the shards; the slot counts updates.
class FakeOptimizer final : public Optimizer {
 public:
  explicit FakeOptimizer(std::vector<Range> regions) : regions_(std::move(regions)) {}
  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t) override {
    return std::vector<std::unique_ptr<Buffer>>();
  }
  void SetRates(int, const Update& update) override { rates_ = update; }
  absl::Status Enqueue(Stream&, int, const Update& update, float* parameters, const float* sums,
                       absl::Span<float* const> slots) override {
    for (const Range& region : regions_) {
      const Range range = Intersection(region, update.part);
      for (int64_t i = range.begin; i < range.end(); ++i) {
        EXPECT_TRUE(std::isfinite(sums[i])) << i;
        parameters[i] -= static_cast<float>(rates_.learning_rate * rates_.gradient_scale * sums[i]);
        for (float* slot : slots) slot[i] += 1;
      }
    }
    return absl::OkStatus();
  }
  const int32_t* refused() const override { return nullptr; }
  absl::Status Check(int) const override { return absl::OkStatus(); }

 private:
  const std::vector<Range> regions_;
  Update rates_;
};

struct Taken final : public StoreActions {
  void Record(const proto::AppliedPush& push) override { applied.push_back(push); }
  void Reply(const ParameterReply& reply) override { replies.push_back(reply); }
  void ReplyNorm(const NormReply& reply) override { norms.push_back(reply); }
  void Fail(const absl::Status& status) override { fatal = status; }

  std::vector<ParameterReply> replies;
  std::vector<NormReply> norms;
  std::vector<proto::AppliedPush> applied;
  absl::Status fatal;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_
