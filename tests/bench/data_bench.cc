// Measures reading samples on one thread against the limit, alternating, each the best of five rounds:
//
//   data_bench tfrecord              50,000 records of 3 KiB, in a random order, checksums included, against
//   reading the
//                                    same bytes by pread alone; the file is made in the temporary directory
//   data_bench image_folder FOLDER CLASSES   JPEG files of one size, against libjpeg-turbo alone on the same
//   bytes in
//                                    memory; FOLDER holds a folder for each of the CLASSES
//
// All files are in the system's cache after the first round.
#include <fcntl.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/random.h"
#include "runtime/data/dataset.h"

namespace tethys {
namespace {

constexpr int kRounds = 5;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The least times of the two, which take turns.
std::pair<double, double> Alternate(const std::function<void()>& first, const std::function<void()>& second) {
  double least_first = 1e9, least_second = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    least_first = std::min(least_first, Seconds(first));
    least_second = std::min(least_second, Seconds(second));
  }
  return {least_first, least_second};
}

std::shared_ptr<const Dataset> Open(const proto::Job& job) {
  absl::StatusOr<Datasets> data = LoadDatasets(job);
  TETHYS_CHECK(data.ok(), data.status().ToString());
  return data->train;
}

void ReadAll(const Dataset& data, const std::vector<uint32_t>& order) {
  std::vector<uint8_t> values(data.sample_elements());
  int32_t label = 0;
  for (const uint32_t index : order) {
    const absl::Status status = data.Read(index, values.data(), &label);
    TETHYS_CHECK(status.ok(), status.ToString());
  }
}

std::vector<uint32_t> OrderOf(int64_t samples) {
  return RandomPermutation(RandomStream(1, RandomPurpose::kTest, 0), samples);
}

// ------------------------------------------------------------------------------------------ TFRecord

constexpr int64_t kRecords = 50'000, kValues = 32 * 32 * 3;

// Returns the bytes of a record, which all have the same.
int64_t WriteRecords(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  std::string image(kValues, '\0');
  const auto put = [&](const auto& number) {
    file.write(reinterpret_cast<const char*>(&number), sizeof(number));
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  int64_t bytes = 0;
  for (int64_t i = 0; i < kRecords; ++i) {
    for (int64_t k = 0; k < kValues; ++k) image[k] = static_cast<char>(i + k * 7);
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["image"].mutable_bytes_list()->add_value(image);
    features["label"].mutable_int64_list()->add_value(i % 10);
    const std::string payload = example.SerializeAsString();
    const std::string length = put(static_cast<uint64_t>(payload.size()));
    put(MaskedCrc32c(length));
    file << payload;
    put(MaskedCrc32c(payload));
    bytes = static_cast<int64_t>(payload.size()) + 16;
  }
  return bytes;
}

int BenchTfrecord() {
  const char* folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/data_bench.tfrecord";
  const int64_t record = WriteRecords(path);
  proto::Job job;
  job.mutable_data()->set_classes(10);
  job.mutable_data()->mutable_tfrecord()->add_train(path);
  for (const int64_t side : {32, 32, 3}) job.mutable_data()->mutable_tfrecord()->add_shape(side);
  const auto data = Open(job);
  const std::vector<uint32_t> order = OrderOf(kRecords);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> copy(record);
  const auto [ours, limit] =
      Alternate([&] { ReadAll(*data, order); },
                [&] {
                  for (const uint32_t index : order) {
                    TETHYS_CHECK(pread(fd, copy.data(), record, index * record) == record);
                  }
                });
  close(fd);
  std::remove(path.c_str());
  const double megabytes = static_cast<double>(record * kRecords) / 1e6;
  std::printf("TFRecord, %lld records of %lld bytes: %.0f MB/s; by pread alone %.0f MB/s; ratio %.2f\n",
              static_cast<long long>(kRecords), static_cast<long long>(record), megabytes / ours,
              megabytes / limit, limit / ours);
  return 0;
}

// ------------------------------------------------------------------------------------------ pictures

int BenchPictures(const std::string& folder, int64_t classes) {
  proto::Job job;
  job.mutable_data()->set_classes(classes);
  job.mutable_data()->mutable_image_folder()->set_train(folder);
  const auto data = Open(job);
  const Shape& shape = data->sample_shape();
  const std::vector<uint32_t> order = OrderOf(data->size());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  TETHYS_CHECK(static_cast<int64_t>(files.size()) == data->size(),
               "the folder has other files than pictures");
  std::vector<uint8_t> values(data->sample_elements());
  const tjhandle decoder = tjInitDecompress();
  const int format = shape.size() == 2 ? TJPF_GRAY : TJPF_RGB;
  const auto [ours, limit] =
      Alternate([&] { ReadAll(*data, order); },
                [&] {
                  for (const std::string& file : files) {
                    TETHYS_CHECK(tjDecompress2(decoder, reinterpret_cast<const uint8_t*>(file.data()),
                                               file.size(), values.data(), static_cast<int>(shape[1]), 0,
                                               static_cast<int>(shape[0]), format, 0) == 0,
                                 tjGetErrorStr2(decoder));
                  }
                });
  tjDestroy(decoder);
  const auto count = static_cast<double>(data->size());
  std::printf("%s, %lld pictures of %s: %.0f a second; libjpeg-turbo alone %.0f; ratio %.2f\n",
              folder.c_str(), static_cast<long long>(data->size()), ShapeText(shape).c_str(), count / ours,
              count / limit, limit / ours);
  return 0;
}

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "tfrecord" && argc == 2) return BenchTfrecord();
  if (what == "image_folder" && argc == 4) return BenchPictures(argv[2], std::atoll(argv[3]));
  std::fprintf(stderr, "data_bench tfrecord | data_bench image_folder FOLDER CLASSES\n");
  return 2;
}

}  // namespace
}  // namespace tethys

int main(int argc, char** argv) { return tethys::Main(argc, argv); }
