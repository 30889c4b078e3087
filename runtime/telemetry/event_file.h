// An event file for TensorBoard: TFRecords that hold events (proto/event.proto). The launcher writes one per
// run while the run lasts. Thread-compatible; blocks on the disk.
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

// `event` as a record in the format above.
std::string TfRecord(absl::string_view event);

class EventFile {
 public:
  // Creates DIRECTORY/events.out.tfevents.SECONDS.HOST. TensorBoard finds event files by this name, and
  // orders the files of a resumed run by their names. If the file exists, ".1" and so on are appended to the
  // name. `wall_seconds`: seconds since 1970. Requires that no other process creates event files in
  // `directory`.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& directory, double wall_seconds,
                                                           const std::string& host);

  absl::Status Append(const proto::Event& event);

 private:
  explicit EventFile(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AppendFile> file_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_TELEMETRY_EVENT_FILE_H_
