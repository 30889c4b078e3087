// Builds batches: copies the samples of a slice of an epoch's order into the rows of a batch. The training
// thread announces the slices that it will need, in order, and takes the batches one after the other:
//
//   BatchLoader loader(dataset, {.prefetch_batches = 2}, memory for BatchLoader::Buffers(options) batches);
//   while (loader.room() > 0 && more) loader.Announce(order, next_slice);
//   HostBatch batch = *loader.Next();  // of the oldest announcement
//
// Without prefetching, Next builds the batch on the calling thread. With prefetching, threads of the loader
// build announced batches ahead, and each thread builds one batch at a time. The number of threads does not
// change the batches. Announce and Next allocate nothing themselves. Next waits for the reads of the source,
// which are mere copies if the source holds its samples in memory. Calls must not overlap.
#ifndef TETHYS_RUNTIME_DATA_LOADER_H_
#define TETHYS_RUNTIME_DATA_LOADER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/thread.h"
#include "runtime/data/augmentation.h"
#include "runtime/data/dataset.h"
#include "runtime/data/epoch_order.h"
#include "runtime/data/sharding.h"
#include "runtime/tensor/batch.h"

namespace tethys {

// Invariants, with capacity = max(1, prefetch_batches) + taken_ahead:
//  1. taken <= claimed <= announced <= taken + capacity; batches before `claimed` are built or being built.
//  2. Batch k lies in buffer k mod (capacity + 1). So the batch that Next returned last is never overwritten
//     by the `capacity` batches that may be built after it.
class BatchLoader {
 public:
  struct Options {
    int prefetch_batches = 0;  // Batches that are built ahead. 0: the loader has no threads.
    int threads = 1;           // The number of threads that build batches; at least 1.
    int taken_ahead = 0;       // Batches that the caller takes before it needs them; adds to the capacity.
    // Applied to the samples of batches that are announced with an order. Null: no sample is changed.
    std::shared_ptr<const Augmentation> augmentation = nullptr;
  };
  static int64_t Buffers(const Options& options) { return Capacity(options) + 1; }

  // Builds batches in `buffers`: Buffers(options) buffers with the same number of rows. The buffers must
  // outlive the loader.
  BatchLoader(std::shared_ptr<const Dataset> dataset, const Options& options, std::vector<HostBatch> buffers);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The number of further batches that may be announced before the next batch is taken.
  int64_t room() const;

  // Announces the next batch: positions `slice` of `order`, or of the data's natural order if `order` is
  // null. `order` is kept until the batch is built. Requires room() > 0. The slice, which may be empty, must
  // lie within the order and have at most as many samples as a buffer has rows.
  void Announce(std::shared_ptr<const EpochOrder> order, Slice slice);

  // True if Next would not wait: the oldest batch that was announced and not taken is built, or Next will
  // build it.
  bool ready() const;

  // Returns the oldest batch that was announced and not taken, which must exist. Rows beyond the slice are
  // zero, with label and weight 0. The batch is valid until the next call of Next. Has the errors of reading
  // a sample; the batch then counts as taken. ResourceExhausted: a thread of the loader could not be started.
  absl::StatusOr<HostBatch> Next();

 private:
  struct Request {
    std::shared_ptr<const EpochOrder> order;
    Slice slice;
  };
  // A batch of the loader, the request for which it is built, and the result.
  struct Place {
    HostBatch batch;
    Request request = {};
    absl::Status outcome = absl::OkStatus();
    bool built = false;  // Guarded by mu_.
  };

  static int64_t Capacity(const Options& options) {
    return std::max(1, options.prefetch_batches) + options.taken_ahead;
  }
  void BuildAhead();
  void Build(Place& place) const;
  absl::Status ReadSamples(const Request& request, const HostBatch& batch) const;
  Place& PlaceOf(int64_t batch) { return places_[batch % static_cast<int64_t>(places_.size())]; }
  const Place& PlaceOf(int64_t batch) const { return places_[batch % static_cast<int64_t>(places_.size())]; }

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Augmentation> augmentation_;
  const int64_t capacity_;
  absl::Status unstarted_;  // The reason why a thread could not be started; constant after construction.

  std::vector<Place> places_;  // capacity + 1 places; by invariant 2 only one thread at a time uses a place.

  mutable Mutex mu_;
  CondVar changed_;
  int64_t announced_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t claimed_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;

  // Joined in the destructor. Declared last, because the threads start when all other members are
  // initialised.
  std::vector<Thread> threads_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_LOADER_H_
