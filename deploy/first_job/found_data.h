// What a folder holds that may be samples, as a value: the names, sizes and headers of its files, which
// guesses are made from (source_guess.h).
#ifndef TETHYS_DEPLOY_FIRST_JOB_FOUND_DATA_H_
#define TETHYS_DEPLOY_FIRST_JOB_FOUND_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/first_job/found_table.h"
#include "runtime/base/status.h"
#include "runtime/data/tfrecord_features.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// An IDX file, or an array of NumPy.
struct FoundArray {
  std::string name;  // The path in the folder; "mnist.npz#x_train" for an array of an archive.
  Shape shape;
};

struct FoundCifar {
  std::string name;
  bool hundred = false;  // CIFAR-100, whose records have two labels; otherwise CIFAR-10.
};

struct FoundRecords {
  std::string name;
  std::vector<RecordFeature> features;  // The features of the first record, of the first file of a part.
};

// A folder within the folder.
struct FoundFolder {
  std::string name;
  int64_t pictures = 0;
  std::vector<FoundFolder> folders = {};  // The folders within, which may be classes.
};

struct FoundData {
  std::string folder;  // As the user named it.
  std::vector<FoundArray> idx = {}, npy = {};
  std::vector<FoundCifar> cifar = {};
  std::vector<FoundRecords> records = {};
  std::vector<FoundTable> tables = {};
  std::vector<FoundFolder> folders = {};
  std::vector<std::string> pictures = {};  // Pictures beside the folders.
  std::vector<std::string> others =
      {};  // Other files, with their format if it is known: "a.parquet; it is ...".
  std::vector<std::string> files = {};  // The names of all files.
};

// Looks at a folder of this machine; reads the headers of its files and some lines of tables. NotFound: the
// folder cannot be read. Fails if a file with the name or the first bytes of a known format cannot be read.
absl::StatusOr<FoundData> LookAtFolder(const std::string& folder);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_FOUND_DATA_H_
