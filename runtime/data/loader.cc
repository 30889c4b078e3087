#include "runtime/data/loader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {
namespace {

// The loader calls Expect for a sample this many samples before it reads the sample, so that the sample's
// memory is fetched meanwhile.
constexpr int64_t kExpected = 4;

}  // namespace

BatchLoader::BatchLoader(std::shared_ptr<const Dataset> dataset, const Options& options,
                         std::vector<HostBatch> buffers)
    : dataset_(std::move(dataset)), augmentation_(options.augmentation), capacity_(Capacity(options)) {
  TETHYS_CHECK(static_cast<int64_t>(buffers.size()) == Buffers(options) && buffers[0].rows >= 1,
               buffers.size(), " buffers for ", Buffers(options), " batches");
  for (const HostBatch& buffer : buffers) places_.push_back({.batch = buffer});
  if (options.prefetch_batches == 0) return;
  TETHYS_CHECK(options.threads >= 1);
  for (int i = 0; i < options.threads && unstarted_.ok(); ++i) {
    unstarted_ = threads_.emplace_back().Start([this] { BuildAhead(); });
  }
}

BatchLoader::~BatchLoader() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  for (Thread& thread : threads_) thread.Join();
}

int64_t BatchLoader::room() const {
  MutexLock lock(mu_);
  return taken_ + capacity_ - announced_;
}

void BatchLoader::Announce(std::shared_ptr<const EpochOrder> order, Slice slice) {
  const int64_t available = order != nullptr ? order->size() : dataset_->size();
  const int64_t samples = order != nullptr ? order->samples() : available;
  TETHYS_CHECK(samples <= dataset_->size() && slice.begin >= 0 && slice.count() >= 0 &&
                   slice.end <= available && slice.count() <= places_[0].batch.rows,
               "slice [", slice.begin, ", ", slice.end, ") of ", available, " for ", places_[0].batch.rows,
               " rows");
  {
    MutexLock lock(mu_);
    TETHYS_CHECK(announced_ < taken_ + capacity_, "no room for another announcement");
    Place& place = PlaceOf(announced_);
    place.request = {std::move(order), slice};
    place.built = false;
    ++announced_;
  }
  changed_.NotifyAll();
}

bool BatchLoader::ready() const {
  MutexLock lock(mu_);
  return taken_ < announced_ && (threads_.empty() || PlaceOf(taken_).built);
}

absl::StatusOr<HostBatch> BatchLoader::Next() {
  TETHYS_RETURN_IF_ERROR(unstarted_);
  MutexLock lock(mu_);
  TETHYS_CHECK(taken_ < announced_, "no batch was announced");
  Place& place = PlaceOf(taken_);
  if (threads_.empty()) {
    Build(place);
    ++claimed_;
  } else {
    while (!place.built) changed_.Wait(mu_);
  }
  ++taken_;
  TETHYS_RETURN_IF_ERROR(place.outcome);
  return place.batch;
}

void BatchLoader::BuildAhead() {
  while (true) {
    Place* place = nullptr;
    {
      MutexLock lock(mu_);
      while (!stop_ && claimed_ == announced_) changed_.Wait(mu_);
      if (stop_) return;
      place = &PlaceOf(claimed_);
      ++claimed_;
    }
    Build(*place);
    {
      MutexLock lock(mu_);
      place->built = true;
    }
    changed_.NotifyAll();
  }
}

void BatchLoader::Build(Place& place) const {
  const Request request = std::exchange(place.request, {});
  const HostBatch& batch = place.batch;
  place.outcome = ReadSamples(request, batch);
  const int64_t bytes = dataset_->sample_bytes();
  const int64_t labels = dataset_->label_format().elements();
  const int64_t samples = request.slice.count(), padding = batch.rows - samples;
  std::fill_n(batch.weights, samples, 1.0f);
  std::memset(batch.inputs + samples * bytes, 0, padding * bytes);
  std::fill_n(batch.labels + samples * labels, padding * labels, 0);
  std::fill_n(batch.weights + samples, padding, 0.0f);
}

absl::Status BatchLoader::ReadSamples(const Request& request, const HostBatch& batch) const {
  const int64_t bytes = dataset_->sample_bytes();
  const int64_t label_elements = dataset_->label_format().elements();
  const auto sample_at = [&](int64_t position) {
    return request.order != nullptr ? (*request.order)[position] : position;
  };
  for (int64_t row = 0; row < request.slice.count(); ++row) {
    const int64_t position = request.slice.begin + row;
    const int64_t sample = sample_at(position);
    if (row + kExpected < request.slice.count()) dataset_->Expect(sample_at(position + kExpected));
    uint8_t* const values = batch.inputs + row * bytes;
    int32_t* const labels = batch.labels + row * label_elements;
    TETHYS_RETURN_IF_ERROR(dataset_->Read(sample, values, labels));
    if (request.order == nullptr || augmentation_ == nullptr) continue;
    augmentation_->Apply(request.order->JobPositionOf(position), values, labels);
  }
  return absl::OkStatus();
}

}  // namespace tethys
