#include "deploy/hosts/bundle_script.h"

// CMakeLists.txt defines the path of the script.
__asm__(R"(
  .section .rodata
  .global tethys_bundle_script, tethys_bundle_script_end
tethys_bundle_script:
  .incbin ")" TETHYS_BUNDLE_SCRIPT R"("
tethys_bundle_script_end:
  .byte 0
  .text
)");

extern "C" {
extern const char tethys_bundle_script[];
extern const char tethys_bundle_script_end[];
}

namespace tethys {

absl::string_view BundleScript() {
  return {tethys_bundle_script, static_cast<size_t>(tethys_bundle_script_end - tethys_bundle_script)};
}

}  // namespace tethys
