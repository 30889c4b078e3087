// The gradients that a server has received and not applied yet, and their sums. In lock step a worker's
// gradients are added to one sum as they come or, with ordered summation, kept until the gradients of all
// workers can be added in rank order. Otherwise each worker's push is kept whole. Used by the store's thread.
#ifndef TETHYS_PS_PUSHED_GRADIENTS_H_
#define TETHYS_PS_PUSHED_GRADIENTS_H_

#include <vector>

#include "ps/payload.h"
#include "runtime/tensor/arena.h"

namespace tethys {

// Invariants:
// 1. With ordered summation, element i of a sum is ((g0 + g1) + g2) + ... in rank order, for every order of
// arrival.
// 2. Pushes without samples have no values and add nothing.
class PushedGradients {
 public:
  // How pushes become sums.
  enum class Summation {
    kWhole,      // Each push is kept whole.
    kByArrival,  // In lock step: added to the sum on arrival.
    kByRank,     // In lock step: kept and added in rank order; rank 0's push goes directly into the sum.
  };
  PushedGradients(int workers, Summation summation);

  // The arenas of this object. The owner must allocate them, with equal sizes, before any other call.
  std::vector<Arena*> arenas();

  // Takes the values of elements `local` of the worker's push. False if a value, or its sum with the values
  // of other workers, is not finite. A part of a push must be taken only once.
  bool Take(int worker, bool has_samples, Range local, PayloadPieces payload);

  // In lock step: the sums of the gradients. A sum is complete only after AddUp.
  const float* sums() const { return sum_.data(); }
  // Completes the sums of elements that all workers have pushed. False if a sum is not finite.
  bool AddUp(Range local);
  // Resets the sums of elements `local` for the next step.
  void Clear(Range local);
  // Forgets all pushes and sums.
  void ForgetAll();

  // Not in lock step: adds up the pushes of `workers` that have samples, in this order, over all elements.
  // The sums replace the first of these pushes. Null if a sum is not finite; `failed` is then the worker
  // whose push was added last. Requires that at least one of the pushes has samples.
  const float* AddTogether(absl::Span<const int> workers, int& failed);

 private:
  struct Push {
    bool has_samples = false;
    Arena values;  // Empty if the worker's gradients are added to the sum on arrival.
  };

  const Summation summation_;
  Arena sum_;  // The sums of the gradients; used in lock step only.
  std::vector<Push> pushes_;
};

}  // namespace tethys

#endif  // TETHYS_PS_PUSHED_GRADIENTS_H_
