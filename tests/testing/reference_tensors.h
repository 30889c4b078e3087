// Reads results of other libraries, with which tests compare the results of Tethys: safetensors files of at
// most 1 MiB.
#ifndef TETHYS_TESTS_TESTING_REFERENCE_TENSORS_H_
#define TETHYS_TESTS_TESTING_REFERENCE_TENSORS_H_

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/checkpoint/safetensors.h"

namespace tethys {

// All tensors of the file, by name. Aborts on a file that is missing or damaged.
inline std::map<std::string, std::vector<float>> ReadReferenceTensors(const std::string& path) {
  const std::string file = ReadFile(path, 1 << 20).value();
  const auto size = static_cast<int64_t>(file.size());
  const int64_t header = DecodeSafetensorsHeaderBytes(file.data(), size).value();
  const int64_t begin = kSafetensorsLengthBytes + header;
  const auto entries =
      DecodeSafetensorsHeader(absl::string_view(file).substr(kSafetensorsLengthBytes, header), size - begin);
  std::map<std::string, std::vector<float>> tensors;
  for (const SafetensorsEntry& entry : entries.value()) {
    std::vector<float>& values = tensors[entry.name];
    values.resize(static_cast<size_t>((entry.end - entry.begin) / sizeof(float)));
    std::memcpy(values.data(), file.data() + begin + entry.begin, values.size() * sizeof(float));
  }
  return tensors;
}

}  // namespace tethys

#endif  // TETHYS_TESTS_TESTING_REFERENCE_TENSORS_H_
