# Most of what the compiler reads for a source are headers of the standard library, Abseil, Protobuf and GoogleTest.
# They are precompiled once and shared, which halves the time of a clean build. Sources must still include what they
# use: precompiled_names_test checks this. A source with an optimisation level of its own must not use precompiled
# headers (SKIP_PRECOMPILE_HEADERS), because GCC 12 may crash on such a source.
set(precompiled_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <optional> <set> <sstream> <string> <string_view> <thread> <utility> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h>
  <absl/strings/str_split.h> <absl/synchronization/mutex.h> <absl/time/clock.h> <absl/types/span.h>
  <google/protobuf/message.h>)
set(precompiled_libraries absl::status absl::statusor absl::strings absl::span absl::synchronization absl::time
  protobuf::libprotobuf)

set(precompiled_source ${CMAKE_BINARY_DIR}/precompiled.cc)
file(CONFIGURE OUTPUT ${precompiled_source} CONTENT "// Headers are precompiled for some source.\n")

add_library(tethys_precompiled OBJECT ${precompiled_source})
target_link_libraries(tethys_precompiled PRIVATE ${precompiled_libraries})
target_precompile_headers(tethys_precompiled PRIVATE ${precompiled_headers})

if(TETHYS_BUILD_TESTS)
  add_library(tethys_precompiled_test OBJECT ${precompiled_source})
  target_link_libraries(tethys_precompiled_test PRIVATE ${precompiled_libraries} tethys_unoptimized GTest::gmock)
  target_precompile_headers(tethys_precompiled_test PRIVATE ${precompiled_headers} <gmock/gmock.h> <gtest/gtest.h>)
endif()
