# The language, the warnings (errors all), the sanitizers and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
# -g1 keeps line numbers for stack traces at a fifth of the build's size.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
if(TETHYS_SANITIZER)  # Code that a sanitizer adds takes long to optimise.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()

find_program(TETHYS_CCACHE ccache)
if(TETHYS_CCACHE)
  # Precompiled headers are found in the cache by what is in them, not by when they were made.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${TETHYS_CCACHE})
endif()

# The same for all, so that all can share what is precompiled.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-pthread>)

# Options of tests that do not compute.
add_library(tethys_unoptimized INTERFACE)
target_compile_options(tethys_unoptimized INTERFACE -O0)

# Linked by every target of ours, never by generated code.
add_library(tethys_warnings INTERFACE)
target_compile_options(tethys_warnings INTERFACE -Wall -Wextra -Werror -Wno-sign-compare
  -Wnon-virtual-dtor -Woverloaded-virtual)
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

# Every process of a job is of one build: runtime/base/build_id.h reads this note.
add_link_options(-Wl,--build-id=sha1)
