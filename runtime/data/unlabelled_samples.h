// Opens samples without labels, for predictions, in the usual file formats. Blocks on the disk.
#ifndef TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_
#define TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace tethys {

struct UnlabelledSamples {
  std::shared_ptr<const Dataset> dataset;  // All labels are 0.
  // The file of each sample, if each sample has its own file; otherwise empty.
  std::vector<std::string> files;
  int64_t left_out = 0;  // Files of a folder that are no pictures, judged by their names.
};

// The requirements of the model that uses the samples.
struct UnlabelledUse {
  Shape shape = {};  // Pictures are decoded into this shape: [height, width] or [height, width, channels].
  LabelFormat labels = {};  // The label format of the model.
  bool resize = false;      // True if pictures of another size are resized to `shape`.
};

// Opens `path`: a picture (PNG or JPEG), a folder with pictures (in it and in the folders below it, in the
// order of their paths), an array of NumPy (FILE.npy or FILE.npz#MEMBER), or an IDX file of images, plain or
// gzipped. The samples of arrays and IDX files keep their shape and type, but with `resize` pictures get the
// size of `shape`. NotFound: there is no such file, or no picture in the folder. InvalidArgument: the model
// takes no pictures. Has the errors of ReadIdx and OpenNpyArray. Pictures are decoded when they are read. If
// `resize` is not set, reading a picture of another size is InvalidArgument.
absl::StatusOr<UnlabelledSamples> OpenUnlabelled(const std::string& path, const UnlabelledUse& use);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_
