#include "runtime/device/cuda_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "runtime/base/own_library.h"
#include "runtime/device/cuda_fingerprint.h"

namespace tethys {
namespace {

struct NvidiaLibrary {
  const char* name;     // The name by which other libraries load this library.
  const char* package;  // The package that installs this library.
};
// Ordered so that each library follows the libraries that it depends on.
constexpr NvidiaLibrary kNvidiaLibraries[] = {
    {"libcuda.so.1", "the NVIDIA driver"},
    {"libnvrtc.so.13", "cuda-nvrtc-13-0, or pip install nvidia-cuda-nvrtc"},
    {"libcublasLt.so.13", "libcublas-13-0, or pip install nvidia-cublas"},
    {"libcublas.so.13", "libcublas-13-0, or pip install nvidia-cublas"},
    {"libcudnn_graph.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libcudnn_ops.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libcudnn_heuristic.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libcudnn_engines_precompiled.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libcudnn_engines_runtime_compiled.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libcudnn_cnn.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
    {"libnccl.so.2", "libnccl2, or pip install nvidia-nccl-cu13"},
    {"libcudnn.so.9", "libcudnn9-cuda-13, or pip install nvidia-cudnn-cu13"},
};

// The given folders and, of the NVIDIA wheels in the given folders, the folders that contain libraries.
absl::StatusOr<std::vector<std::string>> SearchFolders(const std::vector<std::string>& given) {
  std::vector<std::string> folders;
  for (const std::string& folder : given) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cuda_library_path: there is no folder ", folder, " on this host"));
    }
    folders.push_back(folder);
    for (const auto& wheel : std::filesystem::directory_iterator(folder + "/nvidia", error)) {
      const std::filesystem::path libraries = wheel.path() / "lib";
      if (std::filesystem::is_directory(libraries, error)) folders.push_back(libraries);
    }
  }
  return folders;
}

// Opens the libraries found in the folders by full path; later loads by name then resolve to the opened
// files.
absl::Status OpenNvidiaLibraries(const std::vector<std::string>& folders) {
  for (const NvidiaLibrary& library : kNvidiaLibraries) {
    for (const std::string& folder : folders) {
      const std::string path = absl::StrCat(folder, "/", library.name);
      std::error_code error;
      if (!std::filesystem::exists(path, error)) continue;
      if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat("cannot open ", path, " of --cuda_library_path: ", dlerror()));
      }
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status CannotOpen(const std::string& path, const std::string& problem) {
  const auto* missing = std::find_if(
      std::begin(kNvidiaLibraries), std::end(kNvidiaLibraries),
      [&problem](const NvidiaLibrary& library) { return absl::StartsWith(problem, library.name); });
  if (missing == std::end(kNvidiaLibraries)) {
    return absl::FailedPreconditionError(absl::StrCat("cannot open ", path, ": ", problem));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("device.kind is CUDA, but ", missing->name, " is missing on this host: install it (",
                   missing->package, "), or give its folder by --cuda_library_path=FOLDER"));
}

absl::StatusOr<const CudaLibrary*> OpenLibrary(const std::string& folder) {
  TETHYS_ASSIGN_OR_RETURN(
      const void* table,
      OpenOwnLibrary({.path = absl::StrCat(folder, "/", kCudaLibraryName),
                      .entry = kCudaLibraryEntry,
                      .fingerprint = TETHYS_CUDA_FINGERPRINT,
                      .if_missing =
                          ", but device.kind is CUDA: this build computes on CPUs only. Build with the "
                          "CUDA toolkit 13 and cuDNN 9 installed (cmake -DTETHYS_CUDA=ON says what is "
                          "missing), or write device { kind: CPU }",
                      .cannot_open = CannotOpen}));
  return static_cast<const CudaLibrary*>(table);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaLoaderOptions& loader,
                                                         const CudaDeviceOptions& device) {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> folders, SearchFolders(loader.library_path));
  TETHYS_RETURN_IF_ERROR(OpenNvidiaLibraries(folders));
  TETHYS_ASSIGN_OR_RETURN(const CudaLibrary* library, OpenLibrary(loader.folder));
  return library->create_device(device);
}

}  // namespace tethys
