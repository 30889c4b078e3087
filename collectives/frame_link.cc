#include "collectives/frame_link.h"

#include <algorithm>
#include <cstring>

#include "collectives/vector_sum.h"
#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

iovec PartOf(const void* data, int64_t bytes) {
  return {.iov_base = const_cast<void*>(data), .iov_len = static_cast<size_t>(bytes)};
}

}  // namespace

absl::Status ErrorOf(const Frame& frame, absl::string_view message) {
  const bool known = frame.status_code >= static_cast<uint32_t>(absl::StatusCode::kCancelled) &&
                     frame.status_code <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(frame.status_code) : absl::StatusCode::kUnknown,
                      message);
}

void FrameSender::Start(const Frame& header, absl::Span<const Piece> pieces, int64_t available) {
  header_ = header;
  pieces_.assign(pieces.begin(), pieces.end());
  std::erase_if(pieces_, [](const Piece& piece) { return piece.bytes == 0; });
  next_piece_ = 0;
  offset_ = 0;
  available_ = available;
  opened_ = false;
  say_waiting_ = false;
}

void FrameSender::StartError(const Frame& header, const absl::Status& error) {
  error_ = std::string(error.message().substr(0, kMaxErrorBytes));
  header_ = header;
  header_.kind = FrameKind::kError;
  header_.dtype = FrameDType::kNone;
  header_.status_code = static_cast<uint32_t>(error.code());
  pieces_.clear();
  next_piece_ = 0;
  opened_ = false;
}

absl::StatusOr<int64_t> FrameSender::Pump(SecureSocket& socket) {
  int64_t total = 0;
  while (blocked() || NextFrame()) {
    TETHYS_ASSIGN_OR_RETURN(const int64_t sent, socket.Send(absl::MakeSpan(parts_)));
    total += sent;
    auto left = static_cast<size_t>(sent);
    for (iovec& part : parts_) {
      const size_t step = std::min(left, part.iov_len);
      part = PartOf(static_cast<char*>(part.iov_base) + step, static_cast<int64_t>(part.iov_len - step));
      left -= step;
    }
    if (blocked()) break;
  }
  return total;
}

bool FrameSender::NextFrame() {
  if (header_.kind == FrameKind::kError) {
    if (opened_) return false;
    SetFrame(header_, error_);
    return true;
  }
  if (next_piece_ < pieces_.size()) {
    const Piece& piece = pieces_[next_piece_];
    const int64_t chunk = std::min(kChunkBytes, piece.bytes - offset_);
    if (chunk <= available_) {
      SetFrame(header_, {piece.data + offset_, static_cast<size_t>(chunk)});
      available_ -= chunk;
      offset_ += chunk;
      if (offset_ == piece.bytes) {
        ++next_piece_;
        offset_ = 0;
      }
      return true;
    }
  }
  if (opened_ && !say_waiting_) return false;
  say_waiting_ = false;
  SetFrame(header_, {});
  return true;
}

void FrameSender::SetFrame(Frame header, absl::string_view payload) {
  header.payload_bytes = payload.size();
  if (checksums_) header.payload_checksum = Crc32c(payload);
  header.EncodeTo(encoded_.data());
  parts_ = {PartOf(encoded_.data(), kFrameBytes),
            PartOf(payload.data(), static_cast<int64_t>(payload.size()))};
  ++header_.sequence;
  opened_ = true;
}

void FrameReceiver::Start(const Frame& own, int peer_rank, uint32_t peer_incarnation,
                          absl::Span<const Piece> pieces) {
  own_ = own;
  expected_ = own;
  expected_.rank = static_cast<uint32_t>(peer_rank);
  expected_.incarnation = peer_incarnation;
  pieces_.assign(pieces.begin(), pieces.end());
  std::erase_if(pieces_, [](const Piece& piece) { return piece.bytes == 0; });
  next_piece_ = 0;
  offset_ = 0;
  opened_ = false;
  peer_waits_ = false;
}

absl::StatusOr<FrameReceiver::Received> FrameReceiver::Pump(SecureSocket& socket) {
  Received received;
  TETHYS_ASSIGN_OR_RETURN(received.ready, ReadInbox());
  while (!finished() && received.ready == 0) {
    // The inbox now holds at most the beginning of a header. While a payload is incomplete, only the next
    // header is read ahead, because any more bytes would have to be copied out of the inbox.
    inbox_end_ -= inbox_begin_;
    std::memmove(inbox_.data(), inbox_.data() + inbox_begin_, inbox_end_);
    inbox_begin_ = 0;
    const int64_t space = (missing_bytes_ > 0 ? kFrameBytes : kInboxBytes) - inbox_end_;
    iovec parts[] = {PartOf(payload_, missing_bytes_), PartOf(inbox_.data() + inbox_end_, space)};
    TETHYS_ASSIGN_OR_RETURN(const int64_t bytes, socket.Receive(absl::MakeSpan(parts)));
    if (bytes == 0) break;
    received.bytes += bytes;
    const bool drained = bytes < missing_bytes_ + space;
    const int64_t direct = std::min(bytes, missing_bytes_);
    payload_ += direct;
    missing_bytes_ -= direct;
    inbox_end_ += bytes - direct;
    if (direct > 0 && missing_bytes_ == 0) {
      TETHYS_ASSIGN_OR_RETURN(received.ready, FinishPayload());
    }
    if (received.ready == 0) {
      TETHYS_ASSIGN_OR_RETURN(received.ready, ReadInbox());
    }
    if (drained) break;
  }
  return received;
}

absl::StatusOr<int64_t> FrameReceiver::ReadInbox() {
  while (!finished()) {
    if (missing_bytes_ > 0) {
      const int64_t bytes = std::min(missing_bytes_, inbox_end_ - inbox_begin_);
      std::memcpy(payload_, inbox_.data() + inbox_begin_, bytes);
      inbox_begin_ += bytes;
      payload_ += bytes;
      missing_bytes_ -= bytes;
      if (missing_bytes_ > 0) return 0;
      TETHYS_ASSIGN_OR_RETURN(const int64_t ready, FinishPayload());
      if (ready > 0) return ready;
    } else {
      if (inbox_end_ - inbox_begin_ < kFrameBytes) return 0;
      TETHYS_RETURN_IF_ERROR(ReadHeader());
    }
  }
  return 0;
}

absl::Status FrameReceiver::ReadHeader() {
  TETHYS_ASSIGN_OR_RETURN(frame_, Frame::Decode(inbox_.data() + inbox_begin_, inbox_end_ - inbox_begin_));
  inbox_begin_ += kFrameBytes;
  const auto bytes = static_cast<int64_t>(frame_.payload_bytes);
  if (frame_.kind == FrameKind::kError) {
    error_.resize(std::min<uint64_t>(frame_.payload_bytes, kMaxErrorBytes));
    if (error_.empty()) return ErrorOf(frame_, "another rank failed without an error message");
    payload_ = error_.data();
    missing_bytes_ = static_cast<int64_t>(error_.size());
    return absl::OkStatus();
  }
  Frame shape = frame_;
  shape.payload_bytes = 0;
  shape.payload_checksum = 0;
  if (shape != expected_) {
    return absl::InvalidArgumentError(
        absl::StrCat("[", FrameText(frame_), "] does not match [", FrameText(own_),
                     "]: every rank must call the same collectives with the same counts in the same order"));
  }
  ++expected_.sequence;
  peer_waits_ = opened_ && bytes == 0;
  opened_ = true;
  if (bytes == 0) return absl::OkStatus();
  const int64_t left = next_piece_ < pieces_.size() ? pieces_[next_piece_].bytes - offset_ : 0;
  const bool add = left > 0 && pieces_[next_piece_].add;
  if (bytes > std::min(left, kChunkBytes) || (add && bytes % kFloatBytes != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[", FrameText(frame_), "] has ", bytes, " bytes, but the receiver expects at most ", left,
        " bytes more, in frames of at most 256 KiB (of whole floats, if they are summed)"));
  }
  if (add) {
    addend_.resize(kChunkElements);
    payload_ = reinterpret_cast<char*>(addend_.data());
  } else {
    payload_ = pieces_[next_piece_].data + offset_;
  }
  missing_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FrameReceiver::FinishPayload() {
  if (frame_.kind == FrameKind::kError) return ErrorOf(frame_, error_);
  const auto bytes = static_cast<int64_t>(frame_.payload_bytes);
  const Piece& piece = pieces_[next_piece_];
  char* const place = piece.data + offset_;
  const char* const arrived = piece.add ? reinterpret_cast<const char*>(addend_.data()) : place;
  const absl::string_view payload(arrived, frame_.payload_bytes);
  if (frame_.payload_checksum != 0 && Crc32c(payload) != frame_.payload_checksum) {
    return DamagedPayload(frame_);
  }
  if (piece.add) AddTo(reinterpret_cast<float*>(place), addend_.data(), bytes / kFloatBytes);
  offset_ += bytes;
  if (offset_ == piece.bytes) {
    ++next_piece_;
    offset_ = 0;
  }
  return bytes;
}

}  // namespace tethys
