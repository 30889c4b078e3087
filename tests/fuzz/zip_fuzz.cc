#include <string>
#include <vector>

#include "runtime/data/zip_archive.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

// Opens every member, and reads its last byte.
void FuzzZip(absl::string_view input) {
  // A member may be 1,032 times as large as its packed bytes, and targets have little memory.
  constexpr size_t kMost = 32'000;
  if (input.size() > kMost) return;
  const InputFile input_file(input);
  auto file = OpenLocalFile(input_file.path());
  if (!file.ok()) return RequireRefusal(file.status(), input_file.path());
  const absl::StatusOr<ZipArchive> archive = ZipArchive::Open(*std::move(file));
  if (!archive.ok()) return RequireRefusal(archive.status(), input_file.path());
  Require(archive->members().size() <= input.size() / 46, "an entry of the directory has 46 bytes or more");
  for (const ZipMember& member : archive->members()) {
    const auto content = archive->Open(member);
    if (!content.ok()) {
      RequireRefusal(content.status(), input_file.path());
      continue;
    }
    Require((*content)->size() == member.bytes, "a member has the size that the directory says");
    const auto head = archive->OpenHead(member, 1);
    Require(head.ok() && (*head)->size() == member.bytes, "a member that can be read has a head");
    uint8_t first = 0, last = 0, first_of_head = 0;
    if (member.bytes == 0) continue;
    Require((*content)->ReadAt(0, {&first, 1}).ok(), "the first byte can be read");
    Require((*content)->ReadAt(member.bytes - 1, {&last, 1}).ok(), "the last byte can be read");
    Require((*head)->ReadAt(0, {&first_of_head, 1}).ok() && first == first_of_head, "heads are beginnings");
  }
}

}  // namespace tethys::fuzz
