// Updates parameters. An arena is the array that holds all parameters of a task; under the local and mirrored
// strategies each worker updates its whole arena, and a parameter server updates its own shards. All kinds of
// optimizers (optimizer_kind.h) run in one class; they differ in the rule that they give to the device. Used
// only by the thread that uses the device.
#ifndef TETHYS_RUNTIME_OPTIM_OPTIMIZER_H_
#define TETHYS_RUNTIME_OPTIM_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "runtime/device/device.h"
#include "runtime/optim/optimizer_kind.h"

namespace tethys {

// The slots that the optimizer keeps, in order: "momentum" for SGD with momentum; none for SGD without.
std::vector<OptimizerSlot> SlotsOf(const proto::Optimizer& config);

// A range of the arena, and the variable that it belongs to.
struct NamedRange {
  std::string variable;
  Range range;
};
// Makes one region of each range. The region has weight decay, and `adapted` is true, unless the config
// excludes the variable of the range from weight decay.
std::vector<UpdateRegion> MakeUpdateRegions(const proto::Optimizer& config,
                                            const std::vector<NamedRange>& ranges);

// One update of the whole arena or of a part of the arena.
struct Update {
  double learning_rate = 0;
  double gradient_scale = 1;
  int64_t number = 1;  // Number of the update; the first update of these parameters has number 1.
  // The range to be updated. It must be the whole arena if gradients are clipped, or if the rule has a trust
  // ratio and `squares` is empty.
  Range part = kWholeArena;
  // True: the caller has checked that the gradients are finite, so the update does not check them again.
  bool gradients_are_finite = false;
  // If not empty: for each region, the sums of squares over the whole variable that the region is a part of
  // (Optimizer::Measure).
  absl::Span<const RegionSquares> squares = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Device memory for the slots of an arena of `elements` elements, one buffer for each slot of SlotsOf, with
  // initial values in the optimizer's regions and zeros elsewhere.
  virtual absl::StatusOr<std::vector<std::unique_ptr<Buffer>>> AllocateSlots(int64_t elements) = 0;

  // Updates parameters and slots from gradient_sums * gradient_scale. Pointers are to arenas in device
  // memory; `slots` has one arena for each slot of SlotsOf. FailedPrecondition: a gradient in the range of
  // `update` is not finite; then neither this update nor any later one changes anything. Blocks until the
  // outcome is known.
  absl::Status Apply(Stream& stream, const Update& update, float* parameters, const float* gradient_sums,
                     absl::Span<float* const> slots);

  // The first half of an update by a rule with a trust ratio. Used by parameter servers, whose regions are
  // parts of variables. Writes the sums of squares of each region, in the order of the arena, and changes
  // slots. The caller then enqueues updates with the same rates, and with the sums over whole variables in
  // Update::squares (UpdatePrimitive::Measure). Requires finite gradients.
  virtual absl::Status Measure(Stream&, const Update&, const float* /*parameters*/,
                               const float* /*gradient_sums*/, absl::Span<float* const> /*slots*/,
                               absl::Span<RegionSquares> /*squares*/) {
    return absl::UnimplementedError("this optimizer measures nothing");
  }

  // SetRates, Enqueue and Check are the parts of Apply, for callers that enqueue an update before the last
  // one has run, or that capture an update in a graph. Two updates may be in flight; they differ in `parity`,
  // 0 or 1.
  //
  // SetRates writes the update's rates to the host memory of parity `parity`. Requires that Refuse was not
  // called.
  virtual void SetRates(int parity, const Update& update) = 0;
  // Enqueues the update, which is stream work only. When the work runs, it uses the rates that SetRates has
  // set, not the rates of `update`.
  virtual absl::Status Enqueue(Stream& stream, int parity, const Update& update, float* parameters,
                               const float* gradient_sums, absl::Span<float* const> slots) = 0;
  // Device memory: not 0 once an update was refused because a gradient was not finite.
  virtual const int32_t* refused() const = 0;
  // The error that Apply would return; valid once the update has run.
  virtual absl::Status Check(int parity) const = 0;

  // Refuses all later updates and, of the updates in flight, those that have not begun on the device. An
  // update that has begun is made as a whole. Called by the thread that calls SetRates; does not block. Only
  // optimizers of whole replicas refuse updates.
  virtual void Refuse() {}
  // How the last update whose rates SetRates has set for this parity has ended on the device so far. A
  // refused update is one with a gradient that was not finite, or one that Refuse has refused.
  enum class Outcome { kOpen, kMade, kRefused };
  virtual Outcome outcome(int /*parity*/) const { return Outcome::kOpen; }
};

// `config` must be part of a checked job (runtime/job/), with all defaults filled in; `device` must outlive
// the optimizer. InvalidArgument: the message says what is wrong.
absl::StatusOr<std::unique_ptr<Optimizer>> CreateOptimizer(const proto::Optimizer& config, Device& device,
                                                           std::vector<UpdateRegion> regions);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_OPTIM_OPTIMIZER_H_
