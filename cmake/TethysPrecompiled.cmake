# Most of what the compiler reads for a source are headers of the standard library, Abseil, Protobuf, GoogleTest and
# the generated messages. They are precompiled once for each set of options and shared: deploy/report/verdict.cc, which
# includes many messages, compiles in 1.3 s instead of 3.9. Sources must still include what they use:
# precompiled_names_test checks this. A source with an optimisation level of its own must not use precompiled headers
# (SKIP_PRECOMPILE_HEADERS), because GCC 12 may crash on such a source.
set(precompiled_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <functional> <map> <memory>
  <optional> <set> <sstream> <string> <string_view> <thread> <utility> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/synchronization/mutex.h> <absl/time/clock.h>
  <absl/types/optional.h> <absl/types/span.h> <absl/types/variant.h> <google/protobuf/message.h>)
set(precompiled_messages chief checkpoint job member parameter_server plan prediction summary telemetry)
foreach(name ${precompiled_messages})
  # Without the path of the build folder, so that ccache finds the precompiled headers of another clone.
  list(APPEND precompiled_headers <proto/${name}.pb.h>)
endforeach()

set(precompiled_source ${CMAKE_BINARY_DIR}/precompiled.cc)
file(CONFIGURE OUTPUT ${precompiled_source} CONTENT "// Headers are precompiled for some source.\n")

# tethys_precompile(NAME [DEPENDS ...] [HEADERS ...]): precompiles the headers above, and HEADERS, with the options of
# DEPENDS.
function(tethys_precompile name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;HEADERS" ${ARGN})
  add_library(${name} OBJECT ${precompiled_source})
  target_link_libraries(${name} PRIVATE absl::status absl::statusor absl::strings absl::span absl::synchronization
    absl::time tethys_proto ${ARG_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${precompiled_headers} ${ARG_HEADERS})
endfunction()

tethys_precompile(tethys_precompiled)
tethys_precompile(tethys_precompiled_small DEPENDS tethys_small_options)
if(TETHYS_BUILD_TESTS)
  tethys_precompile(tethys_precompiled_test DEPENDS tethys_unoptimized GTest::gmock HEADERS <gmock/gmock.h> <gtest/gtest.h>)
endif()
