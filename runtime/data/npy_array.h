// Arrays of NumPy in their files: .npy, or members of .npz archives, which numpy.savez and
// numpy.savez_compressed write. The values of an array are read in place; values of a compressed member are
// held in memory. Functions block on reads.
#ifndef TETHYS_RUNTIME_DATA_NPY_ARRAY_H_
#define TETHYS_RUNTIME_DATA_NPY_ARRAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/data/byte_source.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// An array, whose values begin at byte `begin` of its file.
struct NpyArray {
  std::shared_ptr<const ByteSource> file;
  std::string type;  // NumPy's name of the type, such as "<i8".
  Shape shape;       // At least one axis.
  int64_t begin = 0;

  int64_t value_bytes() const { return type.back() - '0'; }
};

enum class NpyExtent {
  kHeader,  // Reads type and shape, but not the values.
  kValues,
};

// `path` is the path of a .npy file, or FILE.npz#MEMBER. InvalidArgument: the file is neither a .npy file nor
// an archive, or the array is not supported: pickled objects, types other than integers and float32, Fortran
// order, no axis, or an axis of size 0. NotFound: there is no such file or member; the error lists the
// archive's members. DataLoss: the file is truncated or damaged.
absl::StatusOr<NpyArray> OpenNpyArray(const std::string& path, NpyExtent extent);

// A type of NumPy with its name, for errors: "<f8 (float64)".
std::string NpyTypeText(absl::string_view type);

// The path of the file that contains an array: FILE.npz for FILE.npz#MEMBER; other paths unchanged.
std::string NpyFileOf(const std::string& path);

// True if OpenNpyArray would hold the array's values in memory, because they are compressed. False if the
// file or the member cannot be opened.
bool IsHeldInMemory(const std::string& path);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_NPY_ARRAY_H_
