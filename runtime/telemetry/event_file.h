// An event file for TensorBoard: TFRecords that hold events (proto/event.proto). The launcher writes one per
// run while the run goes on. Thread-compatible; blocks as writing to a file does.
//
//   length  uint64  of the event       little-endian
//   sum     uint32  of the length      masked CRC-32C (runtime/base/crc32c.h)
//   event   length bytes
//   sum     uint32  of the event
#ifndef TETHYS_RUNTIME_TELEMETRY_EVENT_FILE_H_
#define TETHYS_RUNTIME_TELEMETRY_EVENT_FILE_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/event.pb.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys {

// The frame above around `event`.
std::string TfRecord(absl::string_view event);

class EventFile {
 public:
  // DIRECTORY/events.out.tfevents.SECONDS.HOST, the name by which TensorBoard finds it and puts the files of
  // a run that went on in order; with ".1" and so on behind it where the same second has one. `wall_seconds`:
  // since 1970. Requires that nobody else creates one there.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& directory, double wall_seconds,
                                                           const std::string& host);

  absl::Status Append(const proto::Event& event);

 private:
  explicit EventFile(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AppendFile> file_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_EVENT_FILE_H_
