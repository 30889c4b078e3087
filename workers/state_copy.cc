// The source sends each chunk in separate messages to the ranks that are behind, to one rank after another.
// Ranks that are not behind receive no chunks. Each chunk ends with a barrier of all ranks:
//
//   for each part, for each chunk of the part:   source -- chunk --> each rank behind;   all: Barrier
//   at the end:                                  source -- Trailer --> each rank behind
//
// The barriers keep ranks without a part in the copy from waiting longer than a chunk takes.
//
// Invariant: the checksum in the trailer covers all floats of all parts in the order in which they are sent.
#include "workers/state_copy.h"

#include <algorithm>

#include "runtime/base/crc32c.h"
#include "runtime/data/sharding.h"

namespace tethys {
namespace {

constexpr int64_t kChunk = 4 * 1024 * 1024;  // In floats: 16 MiB, 0.13 s at 1 Gbit/s.

struct Trailer {
  int64_t step = 0;
  int64_t parts = 0;
  int64_t elements = 0;
  uint64_t checksum = 0;
};

// The bytes of a value that is sent to a process of the same build.
template <typename T>
absl::Span<char> RawBytes(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<char*>(&value), sizeof(T)};
}

absl::string_view Text(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Calls `move` for each chunk of a part. After each chunk, waits for all ranks.
absl::Status ForEachChunk(Communicator& group, int64_t elements,
                          absl::FunctionRef<absl::Status(Slice chunk)> move) {
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    TETHYS_RETURN_IF_ERROR(move({begin, std::min(begin + kChunk, elements)}));
    TETHYS_RETURN_IF_ERROR(group.Barrier());
  }
  return absl::OkStatus();
}

absl::Status SendToAll(Communicator& group, const std::vector<int>& ranks, absl::Span<const char> bytes) {
  for (const int rank : ranks) TETHYS_RETURN_IF_ERROR(group.Send(rank, bytes));
  return absl::OkStatus();
}

absl::Status SendState(Communicator& group, const StateCopy& copy, ReadPart read) {
  uint32_t checksum = 0;
  for (int64_t part = 0; part < copy.parts; ++part) {
    TETHYS_RETURN_IF_ERROR(read(part, [&](absl::Span<const float> values) {
      TETHYS_CHECK(static_cast<int64_t>(values.size()) == copy.elements);
      return ForEachChunk(group, copy.elements, [&](Slice chunk) {
        const absl::string_view bytes = Text(values.subspan(chunk.begin, chunk.count()));
        checksum = Crc32c(bytes, checksum);
        return SendToAll(group, copy.behind, bytes);
      });
    }));
  }
  Trailer trailer{.step = copy.step, .parts = copy.parts, .elements = copy.elements, .checksum = checksum};
  return SendToAll(group, copy.behind, RawBytes(trailer));
}

absl::Status ReceiveState(Communicator& group, const StateCopy& copy, StagedState& staged) {
  uint32_t checksum = 0;
  staged.parts.clear();
  for (int64_t part = 0; part < copy.parts; ++part) {
    TETHYS_ASSIGN_OR_RETURN(staged.parts.emplace_back(), Arena::Allocate(copy.elements));
    const absl::Span<float> values = staged.parts.back().span();
    TETHYS_RETURN_IF_ERROR(ForEachChunk(group, copy.elements, [&](Slice chunk) -> absl::Status {
      const absl::Span<float> floats = values.subspan(chunk.begin, chunk.count());
      TETHYS_RETURN_IF_ERROR(group.Receive(copy.source, BytesOf(floats)));
      checksum = Crc32c(Text(floats), checksum);
      return absl::OkStatus();
    }));
  }
  Trailer trailer;
  TETHYS_RETURN_IF_ERROR(group.Receive(copy.source, RawBytes(trailer)));
  if (trailer.step == copy.step && trailer.parts == copy.parts && trailer.elements == copy.elements &&
      trailer.checksum == checksum) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "the copy of the parameters of step ", copy.step, " from rank ", copy.source, " arrived with checksum ",
      checksum, ", but was sent as step ", trailer.step, " with checksum ", trailer.checksum));
}

absl::Status WaitForOthers(Communicator& group, const StateCopy& copy) {
  for (int64_t part = 0; part < copy.parts; ++part) {
    TETHYS_RETURN_IF_ERROR(ForEachChunk(group, copy.elements, [](Slice) { return absl::OkStatus(); }));
  }
  return absl::OkStatus();
}

// Returns the mean over the ranks that have statistics. Every rank must call this function.
absl::StatusOr<std::vector<float>> MeanStatistics(Communicator& group, int64_t size,
                                                  const std::vector<float>* own) {
  std::vector<float> sums(size + 1);  // The last element counts the ranks.
  if (own != nullptr) {
    std::copy(own->begin(), own->end(), sums.begin());
    sums.back() = 1;
  }
  TETHYS_RETURN_IF_ERROR(group.AllReduce(absl::MakeSpan(sums)));
  const float ranks = sums.back();
  sums.pop_back();
  if (ranks == 0) return std::vector<float>();
  for (float& sum : sums) sum /= ranks;
  return sums;
}

}  // namespace

bool StateCopy::is_behind(int rank) const {
  return std::find(behind.begin(), behind.end(), rank) != behind.end();
}

bool StateCopy::takes_part(int rank) const { return !behind.empty() && (rank == source || is_behind(rank)); }

absl::Status CopyState(Communicator& group, const StateCopy& copy, ReadPart read,
                       const std::vector<float>* own_statistics, StagedState& staged) {
  if (copy.behind.empty()) return absl::OkStatus();
  const auto exists = [&group](int rank) { return rank >= 0 && rank < group.world_size(); };
  if (!exists(copy.source) || copy.is_behind(copy.source) ||
      !std::all_of(copy.behind.begin(), copy.behind.end(), exists)) {
    return absl::InternalError(absl::StrCat("the chief ordered a copy from rank ", copy.source,
                                            " to ranks that do not exist, or to itself, in a group of ",
                                            group.world_size()));
  }
  if (copy.statistics > 0) {
    TETHYS_ASSIGN_OR_RETURN(staged.mean_statistics, MeanStatistics(group, copy.statistics, own_statistics));
  }
  if (group.rank() == copy.source) return SendState(group, copy, read);
  return copy.is_behind(group.rank()) ? ReceiveState(group, copy, staged) : WaitForOthers(group, copy);
}

}  // namespace tethys
