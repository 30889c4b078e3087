#include "runtime/data/sample_queues.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

#include "runtime/base/status.h"

namespace tethys {

std::vector<std::vector<int64_t>> AssignFiles(const std::vector<int64_t>& file_samples, int64_t ranks) {
  std::vector<int64_t> longest_first(file_samples.size());
  std::iota(longest_first.begin(), longest_first.end(), 0);
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](int64_t a, int64_t b) { return file_samples[a] > file_samples[b]; });
  using Load = std::pair<int64_t, int64_t>;  // The number of samples of a rank, and the rank.
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int64_t rank = 0; rank < ranks; ++rank) loads.emplace(0, rank);
  std::vector<std::vector<int64_t>> files(ranks);
  for (const int64_t file : longest_first) {
    if (file_samples[file] == 0) break;
    const auto [samples, rank] = loads.top();
    loads.pop();
    loads.emplace(samples + file_samples[file], rank);
    files[rank].push_back(file);
  }
  for (std::vector<int64_t>& own : files) std::sort(own.begin(), own.end());
  return files;
}

SampleQueues::SampleQueues(Sharding sharding, int64_t samples, const std::vector<int64_t>& file_samples,
                           const RankSplit& split)
    : sharding_(sharding), samples_(samples), split_(split) {
  const int64_t ranks = split.world();
  switch (sharding) {
    case Sharding::kGlobal:
      sizes_ = {samples};
      break;
    case Sharding::kFile:
      AddFiles(file_samples);
      break;
    case Sharding::kData:
      for (int64_t rank = 0; rank < ranks; ++rank) sizes_.push_back((samples + ranks - 1 - rank) / ranks);
      break;
    case Sharding::kOff:
      sizes_.assign(ranks, samples);
      break;
  }
  TETHYS_CHECK(std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}) == split.positions(), samples,
               " samples, ", split.positions(), " positions");
  if (sharding == Sharding::kGlobal) return;
  surplus_begin_ = lack_begin_ = {0};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t surplus = sizes_[rank] - split.CountOf(rank);
    surplus_begin_.push_back(surplus_begin_.back() + std::max<int64_t>(0, surplus));
    lack_begin_.push_back(lack_begin_.back() + std::max<int64_t>(0, -surplus));
  }
}

void SampleQueues::AddFiles(const std::vector<int64_t>& file_samples) {
  std::vector<int64_t> first(file_samples.size());
  std::exclusive_scan(file_samples.begin(), file_samples.end(), first.begin(), int64_t{0});
  for (const std::vector<int64_t>& files : AssignFiles(file_samples, split_.world())) {
    int64_t size = 0;
    std::vector<Part>& parts = parts_.emplace_back();
    for (const int64_t file : files) {
      parts.push_back({.begin = size, .first = first[file]});
      size += file_samples[file];
    }
    sizes_.push_back(size);
  }
}

SampleQueues::Entry SampleQueues::EntryAt(int64_t position) const {
  if (sharding_ == Sharding::kGlobal) return {0, position};
  const RankSplit::Place place = split_.PlaceOf(position);
  if (place.index < sizes_[place.rank]) return {place.rank, place.index};
  const int64_t left_over = lack_begin_[place.rank] + place.index - sizes_[place.rank];
  const auto next = std::upper_bound(surplus_begin_.begin(), surplus_begin_.end(), left_over);
  const int64_t queue = next - surplus_begin_.begin() - 1;
  return {queue, split_.CountOf(queue) + left_over - surplus_begin_[queue]};
}

int64_t SampleQueues::SampleAt(Entry entry) const {
  switch (sharding_) {
    case Sharding::kGlobal:
    case Sharding::kOff:
      break;
    case Sharding::kData:
      return entry.index * split_.world() + entry.queue;
    case Sharding::kFile: {
      const std::vector<Part>& parts = parts_[entry.queue];
      const auto next = std::upper_bound(parts.begin(), parts.end(), entry.index,
                                         [](int64_t index, const Part& part) { return index < part.begin; });
      const Part& part = *std::prev(next);
      return part.first + entry.index - part.begin;
    }
  }
  return entry.index;
}

}  // namespace tethys
