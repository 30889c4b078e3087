// The base class of consistencies that limit how many steps one worker may be ahead of another. The clock of
// a worker is the number of steps that it has made. Step c may begin once every other worker that takes part
// has made at least c - Lead(c) steps (Ho et al., NIPS 2013, where Lead is a constant). Until then the push
// of step c - 1 is neither applied nor answered. So, counting only applied pushes, no worker is ever ahead of
// another by more than the bound, whatever the order in which the pushes arrive. Pushes that become due are
// applied in the order of their steps. The pushes of one step, which all have the same position in the
// learning-rate schedule, make one update together or, with PUSH_MEAN, one update each.
#ifndef TETHYS_RUNTIME_CONSISTENCY_BOUNDED_RULE_H_
#define TETHYS_RUNTIME_CONSISTENCY_BOUNDED_RULE_H_

#include <vector>

#include "runtime/consistency/rule.h"

namespace tethys {

class BoundedRule : public ConsistencyRule {
 public:
  BoundedRule(int workers, bool push_mean, int64_t global_batch);

  // A worker may skip steps, because a replacement begins with the first step in which it takes part.
  absl::Status Check(const PushedStep& push, uint64_t version) const override;
  bool MayBegin(int worker, uint64_t step) const override;
  int64_t Divisor(absl::Span<const int> workers) const override;
  const std::vector<DueUpdate>& Arrived(int worker) override;
  const std::vector<DueUpdate>& TakesPart(int worker, bool takes_part, uint64_t clock) override;

 protected:
  // The bound: the number of steps by which a worker that begins `step` may be ahead of the slowest worker.
  virtual uint64_t Lead(uint64_t step) const = 0;

 private:
  // True if the slowest worker has made enough steps for another worker to begin `step`.
  bool Allows(uint64_t step) const;
  const std::vector<DueUpdate>& Due();

  const bool push_mean_;
  const int64_t global_batch_;
  std::vector<uint64_t> clocks_;
  std::vector<char> takes_part_;
  uint64_t slowest_ = 0;    // The lowest clock of a worker that takes part; UINT64_MAX if there is none.
  std::vector<int> going_;  // Workers whose pushes are due. A class member only so that its memory is reused.
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CONSISTENCY_BOUNDED_RULE_H_
