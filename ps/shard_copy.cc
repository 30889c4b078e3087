#include "ps/shard_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ps/store_memory.h"

namespace tethys {

absl::StatusOr<std::unique_ptr<ShardCopy>> ShardCopy::Create(ShardLayout layout, int primary, int backup,
                                                             int slots, bool with_book) {
  std::unique_ptr<ShardCopy> copy(new ShardCopy(std::move(layout), primary, with_book));
  std::vector<Arena*> arenas;
  for (Image& image : copy->images_) {
    image.arenas.resize(1 + slots);
    for (Arena& arena : image.arenas) arenas.push_back(&arena);
  }
  TETHYS_RETURN_IF_ERROR(AllocateForStore(
      backup, copy->layout_.local_size(), arenas,
      absl::StrCat("two copies of the parameters and slots of server ", primary, ", for replicas: 2")));
  return copy;
}

absl::Status ShardCopy::Refusal(const Frame& frame, const std::string& why) const {
  return absl::InvalidArgumentError(
      absl::StrCat("the copy of server ", primary_, " refuses ", FrameText(frame), ": ", why));
}

absl::Status ShardCopy::Check(const Frame& frame, PayloadPieces payload) const {
  if (frame.kind != FrameKind::kCopy) return Refusal(frame, "expected values");
  if (frame.group != static_cast<uint32_t>(primary_)) {
    return Refusal(frame, absl::StrCat("it is about server ", frame.group));
  }
  if (frame.base_version > INT64_MAX) {
    return Refusal(frame, absl::StrCat("there is no version ", frame.base_version));
  }
  const bool begins = frame.sequence == 1;
  const bool follows = last_ > 0 && frame.sequence == last_ + 1;
  if (!begins && !(follows && frame.base_version == static_cast<uint64_t>(arriving_))) {
    return absl::UnavailableError(
        absl::StrCat("the copy of server ", primary_, " misses frames: ", FrameText(frame), " of version ",
                     frame.base_version, " follows frame ", last_, " of version ", arriving_));
  }
  if (with_book_ && begins != IsBook(frame)) return Refusal(frame, "a version begins with its book");
  if (!IsBook(frame)) TETHYS_RETURN_IF_ERROR(CheckValues(frame, payload));
  return CheckPayload(frame, payload);
}

absl::Status ShardCopy::CheckValues(const Frame& frame, PayloadPieces payload) const {
  if (frame.dtype != FrameDType::kFloat32) return Refusal(frame, "expected values");
  if (frame.step >= static_cast<uint64_t>(arenas())) {
    return Refusal(frame, absl::StrCat("the job has ", arenas() - 1, " slots"));
  }
  const auto size = static_cast<uint64_t>(layout_.local_size());
  if (frame.range_count == 0 || frame.range_begin > size || frame.range_count > size - frame.range_begin) {
    return absl::OutOfRangeError(
        absl::StrCat("the copy of server ", primary_, " has ", size, " elements: ", FrameText(frame)));
  }
  if (PayloadBytes(payload) != static_cast<int64_t>(frame.range_count * sizeof(float))) {
    return Refusal(frame, absl::StrCat("its payload has ", PayloadBytes(payload), " bytes"));
  }
  const Range local = {static_cast<int64_t>(frame.range_begin), static_cast<int64_t>(frame.range_count)};
  const int64_t taken = frame.sequence == 1 ? 0 : taken_;
  if (taken + layout_.ElementsIn(local) > arenas() * layout_.element_count()) {
    return Refusal(frame, "the version has more values than its elements");
  }
  return absl::OkStatus();
}

absl::Status ShardCopy::TakeBook(const Frame& frame, PayloadPieces payload) {
  std::string bytes;
  for (const absl::string_view piece : payload) bytes.append(piece.data(), piece.size());
  proto::PushBook book;
  if (frame.dtype != FrameDType::kBytes || !book.ParseFromString(bytes)) {
    return Refusal(frame, "its payload is no book of pushes");
  }
  // The records of another version would be missing.
  if (!book.whole() && version() != static_cast<int64_t>(frame.base_version) - 1) {
    return Refusal(frame, absl::StrCat("its book is about the pushes since version ", frame.base_version - 1,
                                       ", which the copy lacks"));
  }
  images_[1 - newest_].book = std::move(book);
  return absl::OkStatus();
}

absl::StatusOr<bool> ShardCopy::Take(const Frame& frame, PayloadPieces payload) {
  const absl::optional<int64_t> newest = version();
  if (newest.has_value() && frame.base_version <= static_cast<uint64_t>(*newest)) return true;
  TETHYS_RETURN_IF_ERROR(Check(frame, payload));
  if (IsBook(frame)) TETHYS_RETURN_IF_ERROR(TakeBook(frame, payload));
  Image& image = images_[1 - newest_];
  if (frame.sequence == 1) {
    image.version.reset();
    arriving_ = static_cast<int64_t>(frame.base_version);
    taken_ = 0;
  }
  last_ = frame.sequence;
  if (IsBook(frame)) return false;
  const Range local = {static_cast<int64_t>(frame.range_begin), static_cast<int64_t>(frame.range_count)};
  char* to = reinterpret_cast<char*>(image.arenas[frame.step].data() + local.begin);
  for (const absl::string_view piece : payload) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  taken_ += layout_.ElementsIn(local);
  if (taken_ < arenas() * layout_.element_count()) return false;
  image.version = arriving_;
  newest_ = 1 - newest_;
  last_ = 0;
  if (image.book.whole()) log_.Clear();
  for (const proto::AppliedPush& push : image.book.push()) log_.Add(push);
  image.book.clear_push();
  return true;
}

StoreCopy ShardCopy::Whole() const {
  StoreCopy copy{.number = *version(), .book = images_[newest_].book};
  copy.book.set_whole(true);
  for (const proto::AppliedPush& push : log_.pushes()) *copy.book.add_push() = push;
  return copy;
}

absl::optional<int64_t> ShardCopy::version() const { return images_[newest_].version; }

void ShardCopy::StepBack(int64_t version) {
  last_ = 0;
  if (images_[1 - newest_].version == version && images_[newest_].version != version) newest_ = 1 - newest_;
  images_[1 - newest_].version.reset();
  if (images_[newest_].version != version) images_[newest_].version.reset();
}

}  // namespace tethys
