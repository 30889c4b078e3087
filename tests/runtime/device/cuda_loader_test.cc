// Tests the errors of the loader when CUDA cannot be loaded.
#include "runtime/device/cuda_loader.h"

#include <dlfcn.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Refusal(CudaLoaderOptions options) { return CreateCudaDevice(options, {}).status(); }

TEST(CudaLoader, MissingLibraryErrorSaysHowToBuildIt) {
  const testing::TempDirectory empty;
  const absl::Status refused = Refusal({.folder = empty.path()});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr(empty.path()), HasSubstr("computes on CPUs only"),
                                         HasSubstr("-DTETHYS_CUDA=ON")));
}

TEST(CudaLoader, LibraryPathToAMissingFolderIsRefused) {
  const absl::Status refused = Refusal({.folder = "/", .library_path = {"/no/such/folder"}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr("--cuda_library_path"), HasSubstr("/no/such/folder")));
}

TEST(CudaLoader, FileThatIsNoLibraryIsRefused) {
  const testing::TempDirectory folder;
  folder.Write(kCudaLibraryName, "no ELF file");
  EXPECT_THAT(StatusText(Refusal({.folder = folder.path()})),
              AllOf(HasSubstr("cannot open"), HasSubstr(kCudaLibraryName)));
}

TEST(CudaLoader, FoldersOfNvidiaWheelsAreSearched) {
  const testing::TempDirectory folder;
  std::filesystem::create_directories(folder.Path("nvidia/cudnn/lib"));
  const std::string damaged = folder.Write("nvidia/cudnn/lib/libcudnn.so.9", "no ELF file");
  EXPECT_THAT(StatusText(Refusal({.folder = folder.path(), .library_path = {folder.path()}})),
              AllOf(HasSubstr("cannot open " + damaged), HasSubstr("--cuda_library_path")));
}

TEST(CudaLoader, LibraryOfAnotherBuildIsRefused) {
  const absl::Status refused = Refusal({.folder = TETHYS_STALE_FOLDER});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr("of another build (stale)"), HasSubstr("copy both")));
}

TEST(CudaLoader, ErrorNamesTheMissingDependencyAndItsPackage) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has an NVIDIA driver";
  const absl::Status refused = Refusal({.folder = TETHYS_LACKING_FOLDER});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(refused), AllOf(HasSubstr("libcuda.so.1 is missing"), HasSubstr("the NVIDIA driver"),
                                         HasSubstr("--cuda_library_path")));
}

}  // namespace
}  // namespace tethys
