# The language, the warnings, the sanitizers and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# -g1 keeps line numbers for stack traces; the build is a fifth as large as with all debug information.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
if(TETHYS_SANITIZER)  # Code that a sanitizer adds takes long to optimise.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()

find_program(TETHYS_CCACHE ccache)
if(TETHYS_CCACHE)
  # With this setting ccache identifies precompiled headers by their contents, not by their time stamps.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TETHYS_CCACHE})
  # For nvcc, ccache compares the files that nvcc read, because the preprocessed host code would not show a
  # change of the GPU's code.
  set(CMAKE_CUDA_COMPILER_LAUNCHER env CCACHE_DEPEND=1 ${TETHYS_CCACHE})
endif()

# A build with this option serves only to find warnings that another compiler gives. Programs of tests are
# compiled but not linked, and nvcc is not called, because every other build calls nvcc for the same files.
option(TETHYS_CHECK_ONLY "Neither link tests nor compile the GPU's code" OFF)

# Every target gets this option, because only targets with the same options can share the precompiled headers.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-pthread>)
# ccache may find headers that Clang precompiled in an earlier build. They must not name the times of the files that they
# were made from, because that build generated some of these files at another time.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# Tests that compute little link this library, so that they are compiled without optimisation.
add_library(tethys_unoptimized INTERFACE)
target_compile_options(tethys_unoptimized INTERFACE -O0)

# Targets whose size matters more than their speed link this library (tethys_small in TethysTargets.cmake).
add_library(tethys_small_options INTERFACE)
if(NOT TETHYS_SANITIZER AND NOT TETHYS_CHECK_ONLY)
  target_compile_options(tethys_small_options INTERFACE -Os -ffunction-sections -fdata-sections)
endif()

# Only .ci/run sets this option: another version of a compiler or library may give new warnings, and these
# must not keep users from building.
option(TETHYS_WARNINGS_AS_ERRORS "Stop the build at a warning" OFF)

# Every target with hand-written code links this library. Targets with only generated code do not.
add_library(tethys_warnings INTERFACE)
target_compile_options(tethys_warnings INTERFACE -Wall -Wextra $<$<BOOL:${TETHYS_WARNINGS_AS_ERRORS}>:-Werror>
  -Wno-sign-compare -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(tethys_warnings INTERFACE -Wthread-safety)
endif()

if(TETHYS_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TETHYS_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(TETHYS_SANITIZER STREQUAL "fuzzer")
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT TETHYS_SANITIZER STREQUAL "")
  message(FATAL_ERROR "TETHYS_SANITIZER is '${TETHYS_SANITIZER}': use address, thread, fuzzer or nothing")
endif()

# All processes of a job must be of the same build: runtime/base/build_id.h reads the note that this option writes.
add_link_options(-Wl,--build-id=sha1)
