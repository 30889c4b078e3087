// Samples without labels, which predictions are made of, in the formats that people have them in. Blocks on
// the disk.
#ifndef TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_
#define TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace tethys {

struct UnlabelledSamples {
  std::shared_ptr<const Dataset> dataset;  // Its labels are 0.
  std::vector<std::string> files;  // The file of each sample, if each has one of its own; otherwise empty.
  int64_t left_out = 0;            // Files of a folder that are no pictures by their names.
};

// What the samples are wanted for.
struct UnlabelledUse {
  Shape shape = {};         // Pictures are decoded into it: [height, width] or [height, width, channels].
  LabelFormat labels = {};  // Of the model.
  bool resize = false;      // Whether pictures of another size are brought to that of `shape`.
};

// Opens what `path` names: a picture (PNG or JPEG), a folder with pictures (those of its folders are read,
// too; in the order of their paths), an array of NumPy (FILE.npy or FILE.npz#MEMBER), or else an IDX file of
// images, plain or gzipped. The samples of arrays and IDX files keep their shape and type. NotFound: no such
// file, or no picture in the folder. InvalidArgument: pictures for a model that takes none. Has the errors of
// ReadIdx and OpenNpyArray. Pictures are decoded when they are read; a picture of another size is then
// InvalidArgument without `resize`.
absl::StatusOr<UnlabelledSamples> OpenUnlabelled(const std::string& path, const UnlabelledUse& use);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_DATA_UNLABELLED_SAMPLES_H_
