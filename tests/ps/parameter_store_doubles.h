// Test doubles for a parameter store: a stream without work, an optimizer with an easily predicted update,
// and actions that are recorded.
#ifndef TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_
#define TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "ps/store_actions.h"
#include "runtime/optim/optimizer.h"

namespace tethys {

class NoStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// Subtracts learning rate * mean gradient from the parameters of all shards, and adds 1 to each slot. If the
// update has sums of squares, the subtracted value is multiplied by the root of the region's measured sum.
// Measure computes the sum of squared gradients, and adds 100 to each slot.
class FakeOptimizer final : public Optimizer {
 public:
  explicit FakeOptimizer(std::vector<Range> regions) : regions_(std::move(regions)) {}
  absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t) override {
    return std::vector<std::unique_ptr<Buffer>>();
  }
  void SetRates(int, const Update& update) override { rates_ = update; }
  absl::Status Measure(Stream&, const Update& update, const float* parameters, const float* sums,
                       absl::Span<float* const> slots, absl::Span<RegionSquares> squares) override {
    for (size_t region = 0; region < regions_.size(); ++region) {
      squares[region] = {};
      for (int64_t i = regions_[region].begin; i < regions_[region].end(); ++i) {
        squares[region].parameters += parameters[i] * parameters[i];
        squares[region].measured += std::pow(update.gradient_scale * sums[i], 2);
        for (float* slot : slots) slot[i] += 100;
      }
    }
    return absl::OkStatus();
  }
  absl::Status Enqueue(Stream&, int, const Update& update, float* parameters, const float* sums,
                       absl::Span<float* const> slots) override {
    for (size_t region = 0; region < regions_.size(); ++region) {
      const Range range = Intersection(regions_[region], update.part);
      const double factor = update.squares.empty() ? 1 : std::sqrt(update.squares[region].measured);
      for (int64_t i = range.begin; i < range.end(); ++i) {
        EXPECT_TRUE(std::isfinite(sums[i])) << i;
        parameters[i] -= static_cast<float>(rates_.learning_rate * rates_.gradient_scale * sums[i] * factor);
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
  // Adds the reply to `norms` as text: "w0 norm 44", "w0 measured 1 2 3 4", "w0 committed".
  void ReplyNorm(const NormReply& reply) override {
    const char* const kind = reply.kind == FrameKind::kNorm      ? "norm "
                             : reply.kind == FrameKind::kMeasure ? "measured "
                                                                 : "committed";
    norms.push_back(absl::StrCat("w", reply.worker, " ", kind, absl::StrJoin(reply.values, " ")));
    EXPECT_EQ(reply.values.size(), reply.kind == FrameKind::kCommit ? 0 : reply.count);
  }
  // Adds to `copied` as text: "[0,8) v1".
  void Copy(Range local, int64_t version) override {
    copied.push_back(absl::StrCat("[", local.begin, ",", local.end(), ") v", version));
  }
  // Adds to `copied` as text: "copy 2: version 3, w1 push 1, w2 push 1".
  void CopyAll(int64_t number, const proto::PushBook& book) override {
    copied.push_back(absl::StrCat("copy ", number, ": version ", book.version()));
    for (const proto::AppliedPush& push : book.push()) {
      absl::StrAppend(&copied.back(), ", w", push.worker(), " push ", push.sequence());
    }
  }
  void Fail(const absl::Status& status) override { fatal = status; }

  std::vector<ParameterReply> replies;
  std::vector<std::string> norms;
  std::vector<std::string> copied;
  std::vector<proto::AppliedPush> applied;
  absl::Status fatal;
};

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_PARAMETER_STORE_DOUBLES_H_
