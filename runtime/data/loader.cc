#include "runtime/data/loader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

BatchLoader::BatchLoader(std::shared_ptr<const Dataset> dataset, Options options)
    : dataset_(std::move(dataset)), options_(options), capacity_(std::max(1, options.prefetch_batches)) {
  TETHYS_CHECK(options_.rows >= 1);
  requests_.resize(capacity_ + 1);
  buffers_.reserve(capacity_ + 1);
  for (int64_t i = 0; i <= capacity_; ++i) buffers_.emplace_back(options_.rows, dataset_->sample_elements());
  if (options_.prefetch_batches > 0) thread_ = std::thread([this] { BuildAhead(); });
}

BatchLoader::~BatchLoader() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

int64_t BatchLoader::room() const {
  MutexLock lock(mu_);
  return taken_ + capacity_ - announced_;
}

void BatchLoader::Announce(std::shared_ptr<const EpochOrder> order, Slice slice) {
  const int64_t available = order != nullptr ? order->size() : dataset_->size();
  TETHYS_CHECK(available <= dataset_->size() && slice.begin >= 0 && slice.count() >= 0 &&
                   slice.end <= available && slice.count() <= options_.rows,
               "slice [", slice.begin, ", ", slice.end, ") of ", available, " for ", options_.rows, " rows");
  {
    MutexLock lock(mu_);
    TETHYS_CHECK(announced_ < taken_ + capacity_, "no room for another announcement");
    requests_[Place(announced_)] = {std::move(order), slice};
    ++announced_;
  }
  changed_.NotifyAll();
}

HostBatch BatchLoader::Next() {
  MutexLock lock(mu_);
  TETHYS_CHECK(taken_ < announced_, "no batch was announced");
  const int64_t place = Place(taken_);
  if (thread_.joinable()) {
    while (built_ <= taken_) changed_.Wait(mu_);
  } else {
    Build(requests_[place], buffers_[place].batch());
    ++built_;
  }
  ++taken_;
  return buffers_[place].batch();
}

void BatchLoader::BuildAhead() {
  while (true) {
    int64_t place = 0;
    {
      MutexLock lock(mu_);
      while (!stop_ && built_ == announced_) changed_.Wait(mu_);
      if (stop_) return;
      place = Place(built_);
    }
    Build(requests_[place], buffers_[place].batch());
    {
      MutexLock lock(mu_);
      ++built_;
    }
    changed_.NotifyAll();
  }
}

void BatchLoader::Build(const Request& request, HostBatch batch) const {
  const int64_t elements = dataset_->sample_elements();
  const int64_t samples = request.slice.count();
  for (int64_t row = 0; row < samples; ++row) {
    const int64_t position = request.slice.begin + row;
    const int64_t sample = request.order != nullptr ? (*request.order)[position] : position;
    std::memcpy(batch.inputs + row * elements, dataset_->sample(sample), elements);
    batch.labels[row] = dataset_->label(sample);
    batch.weights[row] = 1.0f;
  }
  const int64_t padding = batch.rows - samples;
  std::memset(batch.inputs + samples * elements, 0, padding * elements);
  std::fill_n(batch.labels + samples, padding, 0);
  std::fill_n(batch.weights + samples, padding, 0.0f);
}

}  // namespace tethys
