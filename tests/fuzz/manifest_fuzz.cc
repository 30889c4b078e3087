#include "absl/strings/str_format.h"
#include "runtime/checkpoint/checkpoint_format.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzManifest(absl::string_view input) {
  const std::string body(input);
  const auto damaged = DecodeManifest(body, "manifest");
  if (!damaged.ok()) RequireRefusal(damaged.status(), "manifest");

  const auto manifest = DecodeManifest(body + absl::StrFormat("# crc32: %08x\n", Crc32(body)), "manifest");
  if (!manifest.ok()) return RequireRefusal(manifest.status(), "manifest");
  const std::string text = EncodeManifest(*manifest);
  const auto again = DecodeManifest(text, "again");
  Require(again.ok() && EncodeManifest(*again) == text,
          "what was accepted means the same when written again");
}

}  // namespace tethys::fuzz
