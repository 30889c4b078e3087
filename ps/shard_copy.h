// A server's copy of the shards of another server, their primary: parameters and optimizer slots. Pure; used
// by the loop thread of the server that keeps the copy.
//
// The primary sends kCopy frames. The frames of one version have consecutive numbers (Frame::sequence, from
// 1), and together contain every element once for the parameters and once for each slot. If the stream
// breaks, the primary sends the version again on a new stream, while frames of the old stream may still
// arrive. While a version arrives, the copy keeps the newest complete version. So whenever the primary is
// lost, its shards are known as they were at the last version that it has confirmed to workers, or one update
// later:
//
//   versions complete:   7       7       7 8     7 8       8 9
//   arriving:                8 ..    -       9 ..      -
//
// If the primary applies whole pushes (workers on leases), a version is the number of a copy, and its first
// frame is the book of the pushes that its values contain (proto/shard_copy.proto); the payload of this frame
// is the message, and its arena the one behind the last slot.
#ifndef TETHYS_PS_SHARD_COPY_H_
#define TETHYS_PS_SHARD_COPY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "ps/copied_pushes.h"
#include "ps/payload.h"
#include "ps/shard_layout.h"
#include "runtime/base/status.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/frame.h"

namespace tethys {

class ShardCopy {
 public:
  // `layout`: of the primary's shards. `with_book`: versions have books. ResourceExhausted: the host of
  // `backup`, the server that keeps the copy, has too little memory for two versions of the parameters and
  // `slots` slots.
  static absl::StatusOr<std::unique_ptr<ShardCopy>> Create(ShardLayout layout, int primary, int backup,
                                                           int slots, bool with_book);

  // Takes a frame; true if the version of the frame is complete. A frame of a version that was complete
  // before, or of an earlier version, changes nothing. An error changes nothing. InvalidArgument: the frame
  // is malformed. Unavailable: the frame is not the next frame of its version, so the version must be sent
  // again. OutOfRange: the primary has no such elements. DataLoss: the payload has another checksum.
  absl::StatusOr<bool> Take(const Frame& frame, PayloadPieces payload);

  // The newest complete version; nullopt: there is none.
  absl::optional<int64_t> version() const;
  // The values of the newest complete version, in the layout of the primary's memory. Arena 0 has the
  // parameters, arenas 1, 2, ... the slots. Requires a version.
  const float* values(int arena) const { return images_[newest_].arenas[arena].data(); }
  int arenas() const { return static_cast<int>(images_[0].arenas.size()); }
  const ShardLayout& layout() const { return layout_; }
  // The number of the newest complete version and its book, with all records that are left. Requires a
  // version with a book.
  StoreCopy Whole() const;

  // The primary has stepped back to `version` (ParameterStore::StepBack). Keeps the values of this version as
  // the newest version if the copy has them; otherwise the copy has no version from then on.
  void StepBack(int64_t version);

 private:
  struct Image {
    std::vector<Arena> arenas;
    absl::optional<int64_t> version;  // Absent: incomplete.
    proto::PushBook book;             // Without records once the version is complete.
  };

  ShardCopy(ShardLayout layout, int primary, bool with_book)
      : layout_(std::move(layout)), primary_(primary), with_book_(with_book) {}
  absl::Status Check(const Frame& frame, PayloadPieces payload) const;
  bool IsBook(const Frame& frame) const {
    return with_book_ && frame.step == static_cast<uint64_t>(arenas());
  }
  absl::Status CheckValues(const Frame& frame, PayloadPieces payload) const;
  absl::Status TakeBook(const Frame& frame, PayloadPieces payload);
  absl::Status Refusal(const Frame& frame, const std::string& why) const;

  const ShardLayout layout_;
  const int primary_;
  const bool with_book_;
  std::array<Image, 2> images_;
  int newest_ = 0;        // The image with the newest complete version, if any version is complete.
  int64_t arriving_ = 0;  // The version that arrives in the other image.
  uint64_t last_ = 0;     // Number of the last frame of the arriving version; 0: none arrives.
  int64_t taken_ = 0;     // Elements of the arriving version so far.
  PushLog log_;           // The newest records of the newest complete version.
};

}  // namespace tethys

#endif  // TETHYS_PS_SHARD_COPY_H_
