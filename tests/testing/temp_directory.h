// A directory for one test, removed with everything in it.
#ifndef TETHYS_TESTS_TESTING_TEMP_DIRECTORY_H_
#define TETHYS_TESTS_TESTING_TEMP_DIRECTORY_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace tethys::testing {

class TempDirectory {
 public:
  TempDirectory() : path_(absl::StrCat(::testing::TempDir(), "tethys_XXXXXX")) {
    TETHYS_CHECK(mkdtemp(path_.data()) != nullptr, path_);
  }
  ~TempDirectory() { static_cast<void>(RemoveRecursively(path_)); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

  // Writes a file and returns its path. An existing file is removed first: truncating and rewriting it makes
  // some file systems flush it to the disk, which is slow over thousands of rewrites.
  std::string Write(absl::string_view name, absl::string_view contents) const {
    const std::string path = Path(name);
    std::remove(path.c_str());
    std::ofstream(path, std::ios::binary)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_TEMP_DIRECTORY_H_
