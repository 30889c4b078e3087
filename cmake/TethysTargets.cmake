# The functions that the CMakeLists.txt of every folder uses.

# tethys_library(NAME SOURCES ... DEPENDS ...): a static library of one folder.
function(tethys_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE tethys_warnings)
  target_precompile_headers(${name} REUSE_FROM tethys_precompiled)
endfunction()

# tethys_small(NAME): compiles a target for size, because the bundle (the program and its libraries in one file) is
# copied to every machine of a job. Use it for code whose speed does not matter: texts, tables, generated messages.
function(tethys_small name)
  target_link_libraries(${name} PRIVATE tethys_small_options)
  set_target_properties(${name} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM tethys_precompiled_small)
endfunction()

# tethys_embed(NAME FUNCTION FILE): embeds FILE in the library NAME. absl::string_view tethys::FUNCTION()
# returns the contents; a source that calls this function must declare it.
function(tethys_embed name function file)
  get_filename_component(path ${file} ABSOLUTE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${function}.cc)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/embedded.cc.in ${source} @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${path})
  target_sources(${name} PRIVATE ${source})
endfunction()

# tethys_test(NAME SOURCES ... DEPENDS ... [LABELS ...] [TIMEOUT seconds] [OPTIMIZED]): one GoogleTest binary, one
# CTest entry. The time limit is a guard against hangs, not a measurement. OPTIMIZED is for tests that compute much;
# optimising the other tests takes longer than it saves.
function(tethys_test name)
  cmake_parse_arguments(ARG "OPTIMIZED" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main tethys_warnings)
  if(ARG_OPTIMIZED)
    target_precompile_headers(${name} REUSE_FROM tethys_precompiled)
  else()
    target_link_libraries(${name} PRIVATE tethys_unoptimized)
    target_precompile_headers(${name} REUSE_FROM tethys_precompiled_test)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)  # In seconds: far more than a test needs, even on a slow machine with a sanitizer.
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# tethys_benchmark(NAME SOURCES ... DEPENDS ...): a program under tests/bench, never run by CTest.
function(tethys_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} tethys_warnings)
  target_precompile_headers(${name} REUSE_FROM tethys_precompiled)
endfunction()

# tethys_fingerprint(NAME FILE...): the target tethys_NAME_fingerprint makes NAME_fingerprint.h in the
# caller's build folder. The header defines TETHYS_NAME_FINGERPRINT, a hash of the files and the compiler. A
# library that is opened at run time and its loader both contain this hash (runtime/base/own_library.h).
function(tethys_fingerprint name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}_fingerprint)
  string(TOUPPER TETHYS_${name}_FINGERPRINT macro)
  string(JOIN "," files ${ARGN})
  add_custom_command(OUTPUT ${out}.stamp
    BYPRODUCTS ${out}.h
    COMMAND ${CMAKE_COMMAND} -DFILES=${files} -DMACRO=${macro} -DOUT=${out}.h
      "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${TETHYS_SANITIZER}"
      -P ${CMAKE_SOURCE_DIR}/cmake/fingerprint.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${out}.stamp
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/cmake/fingerprint.cmake
    COMMENT "Fingerprint of the library ${name}" VERBATIM)
  add_custom_target(tethys_${name}_fingerprint DEPENDS ${out}.stamp)
endfunction()
