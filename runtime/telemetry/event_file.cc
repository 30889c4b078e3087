#include "runtime/telemetry/event_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/crc32c.h"

namespace tethys {
namespace {

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return text;
}

std::string FreeName(const std::string& directory, double wall_seconds, const std::string& host) {
  const std::string name =
      absl::StrFormat("%s/events.out.tfevents.%010d.%s", directory, static_cast<int64_t>(wall_seconds), host);
  std::string free = name;
  for (int number = 1; FileExists(free); ++number) free = absl::StrCat(name, ".", number);
  return free;
}

}  // namespace

std::string TfRecord(absl::string_view event) {
  const std::string length = LittleEndian(event.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), 4), event,
                      LittleEndian(MaskedCrc32c(event), 4));
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& directory,
                                                             double wall_seconds, const std::string& host) {
  TETHYS_ASSIGN_OR_RETURN(std::unique_ptr<AppendFile> opened,
                          AppendFile::Open(FreeName(directory, wall_seconds, host)));
  std::unique_ptr<EventFile> file(new EventFile(std::move(opened)));
  proto::Event first;
  first.set_wall_time(wall_seconds);
  first.set_file_version("brain.Event:2");
  TETHYS_RETURN_IF_ERROR(file->Append(first));
  return file;
}

absl::Status EventFile::Append(const proto::Event& event) {
  return file_->Append(TfRecord(event.SerializeAsString()));
}

}  // namespace tethys
