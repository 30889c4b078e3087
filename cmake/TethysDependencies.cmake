# Looks for libraries and programs, all of which the Linux distribution provides. If a required library or program is
# missing, the configuration stops. Optional libraries and programs that are missing are listed at the end, with the
# features that are lost without them.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(absl CONFIG REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_program(TETHYS_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

# Debian's CMake package of oneDNN requires OpenCL, which a CPU build does not need. So this file looks for oneDNN's
# library directly.
find_path(TETHYS_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(TETHYS_DNNL_LIBRARY dnnl)
if(NOT TETHYS_DNNL_INCLUDE OR NOT TETHYS_DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN was not found: install libdnnl-dev (Debian) or libdnnl-dev/onednn-devel")
endif()
add_library(tethys_dnnl INTERFACE)
target_include_directories(tethys_dnnl SYSTEM INTERFACE ${TETHYS_DNNL_INCLUDE})
target_link_libraries(tethys_dnnl INTERFACE ${TETHYS_DNNL_LIBRARY})

# Image decoders.
find_package(PNG REQUIRED)
find_path(TETHYS_TURBOJPEG_INCLUDE turbojpeg.h)
find_library(TETHYS_TURBOJPEG_LIBRARY turbojpeg)
if(NOT TETHYS_TURBOJPEG_INCLUDE OR NOT TETHYS_TURBOJPEG_LIBRARY)
  message(FATAL_ERROR "libjpeg-turbo was not found: install libturbojpeg0-dev (Debian, Ubuntu)")
endif()
add_library(tethys_pictures INTERFACE)
target_include_directories(tethys_pictures SYSTEM INTERFACE ${TETHYS_TURBOJPEG_INCLUDE})
target_link_libraries(tethys_pictures INTERFACE PNG::PNG ${TETHYS_TURBOJPEG_LIBRARY})

# libcurl transfers data from other machines, for libtethys_remote.so (runtime/remote/curl).
find_package(CURL 7.85 QUIET)

# Chart.js draws the charts of reports; every report contains a copy of Chart.js.
find_file(TETHYS_CHART_LIBRARY chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT TETHYS_CHART_LIBRARY)
  message(FATAL_ERROR "Chart.js was not found: install libjs-chart.js (Debian, Ubuntu)")
endif()

if(TETHYS_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TETHYS_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
  find_library(TETHYS_GLOO_LIBRARY gloo)
endif()

# Called only if everything that is required was found.
function(tethys_print_summary)
  message(STATUS "Tethys ${PROJECT_VERSION}: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  message(STATUS "  gRPC ${gRPC_VERSION}, Protobuf ${Protobuf_VERSION}, oneDNN ${TETHYS_DNNL_LIBRARY}")
  tethys_print_cuda_summary()
  if(NOT CURL_FOUND)
    message(STATUS "  libcurl 7.85: not found; no libtethys_remote.so, jobs read local files only (libcurl4-openssl-dev)")
  endif()
  if(TETHYS_CCACHE)
    message(STATUS "  ccache: ${TETHYS_CCACHE}")
  else()
    message(STATUS "  ccache: not found; a clean build costs its full time every time")
  endif()
  if(TETHYS_BUILD_BENCHMARKS)
    if(NOT benchmark_FOUND)
      message(STATUS "  Google Benchmark: not found; no benchmarks (libbenchmark-dev)")
    endif()
    if(NOT TETHYS_GLOO_LIBRARY)
      message(STATUS "  Gloo: not found; the all-reduce benchmark has no peer (libgloo-dev)")
    endif()
  endif()
  message(STATUS "  All that deploy/quickstart.sh needs is there; nothing that is said to be missing above is needed to train on CPUs.")
endfunction()
