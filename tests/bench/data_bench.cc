// Compares reading samples on one thread with reading or decoding the same bytes without Tethys. The two take
// turns, and the best of five rounds of each counts:
//
//   data_bench tfrecord                      50,000 records of 3 KiB, in a random order, checksums included,
//                                            against reading the same bytes by pread alone; the file is made
//                                            in the temporary directory
//   data_bench image_folder FOLDER CLASSES   JPEG files of one size in a random order, read as a job reads
//                                            them (small ones from a pack in the host's cache) and each from
//                                            its own file, against libjpeg-turbo alone on the same bytes in
//                                            memory, and against libjpeg-turbo after open, pread and close of
//                                            each file; FOLDER contains a folder for each of the CLASSES
//
// All files are in the system's cache after the first round, so nothing waits for a disk, and times are the
// thread's user and system time, which other programs on the machine disturb least.
//
// Limit of records: 1,000 MB/s on a thread; the goal is 0.7 of pread alone. For a record of 3 KiB, pread
// takes 1.0 us. In addition, the checksum takes 0.2 us, Protobuf, which copies the values, 0.2 us, and
// copying the values into the batch 0.1 us.
//
// Limits of images, as shares of libjpeg-turbo's rate: 0.9 of libjpeg-turbo alone if images are read as a job
// reads them; 0.9 of libjpeg-turbo after the three system calls if each image is read from its own file. The
// system calls take 3 us, half as long as decoding an image of 32 x 32 pixels.
#include <fcntl.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/random.h"
#include "runtime/data/dataset.h"
#include "runtime/tensor/batch.h"

namespace tethys {
namespace {

constexpr int kRounds = 5;

double ThreadSeconds() {
  timespec now = {};
  TETHYS_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The least time of each function over kRounds rounds, in seconds of the thread's CPU time. In each round
// every function runs once.
std::vector<double> Alternate(const std::vector<std::function<void()>>& works) {
  std::vector<double> least(works.size(), 1e9);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      const double begin = ThreadSeconds();
      works[i]();
      least[i] = std::min(least[i], ThreadSeconds() - begin);
    }
  }
  return least;
}

std::shared_ptr<const Dataset> Open(const proto::Job& job) {
  absl::StatusOr<Datasets> data = LoadDatasets(job);
  TETHYS_CHECK(data.ok(), data.status().ToString());
  return data->train;
}

// Reads samples into the rows of a batch, as a loader does.
class SampleReader {
 public:
  explicit SampleReader(std::shared_ptr<const Dataset> data)
      : data_(std::move(data)), buffer_(kRows, data_->sample_bytes()), batch_(buffer_.batch()) {}

  void ReadAll(const std::vector<uint32_t>& order) const {
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) % kRows;
      const absl::Status status =
          data_->Read(order[i], batch_.inputs + row * data_->sample_bytes(), batch_.labels + row);
      TETHYS_CHECK(status.ok(), status.ToString());
    }
  }

 private:
  static constexpr int64_t kRows = 16;
  const std::shared_ptr<const Dataset> data_;
  BatchBuffer buffer_;
  const HostBatch batch_;
};

std::vector<uint32_t> OrderOf(int64_t samples) {
  return RandomPermutation(RandomStream(1, RandomPurpose::kTest, 0), samples);
}

// ------------------------------------------------------------------------------------------ TFRecord

constexpr int64_t kRecords = 50'000, kValues = 32 * 32 * 3;

// Writes a TFRecord file with kRecords samples to `path`. Returns the size in bytes that all records have.
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
  const SampleReader reader(data);
  const std::vector<double> times =
      Alternate({[&] { reader.ReadAll(order); },
                 [&] {
                   for (const uint32_t index : order) {
                     TETHYS_CHECK(pread(fd, copy.data(), record, index * record) == record);
                   }
                 }});
  close(fd);
  std::remove(path.c_str());
  const double megabytes = static_cast<double>(record * kRecords) / 1e6;
  std::printf("TFRecord, %lld records of %lld bytes: %.0f MB/s; by pread alone %.0f MB/s; ratio %.2f\n",
              static_cast<long long>(kRecords), static_cast<long long>(record), megabytes / times[0],
              megabytes / times[1], times[1] / times[0]);
  return 0;
}

// ------------------------------------------------------------------------------------------ pictures

// Decodes JPEG files of one size with libjpeg-turbo alone. The values begin 8 bytes after a multiple of 16,
// where libjpeg-turbo is fastest (DecodeJpeg in picture.cc).
class BareDecoder {
 public:
  explicit BareDecoder(const Shape& shape)
      : height_(static_cast<int>(shape[0])),
        width_(static_cast<int>(shape[1])),
        format_(shape.size() == 2 ? TJPF_GRAY : TJPF_RGB),
        values_(kBeside + height_ * width_ * tjPixelSize[format_]) {}
  ~BareDecoder() { tjDestroy(decoder_); }
  BareDecoder(const BareDecoder&) = delete;
  BareDecoder& operator=(const BareDecoder&) = delete;

  void Decode(const char* bytes, size_t size) {
    TETHYS_CHECK(tjDecompress2(decoder_, reinterpret_cast<const uint8_t*>(bytes), size,
                               values_.data() + kBeside, width_, 0, height_, format_, 0) == 0,
                 tjGetErrorStr2(decoder_));
  }

 private:
  static constexpr int kBeside = 8;
  const tjhandle decoder_ = tjInitDecompress();
  const int height_, width_, format_;
  std::vector<uint8_t> values_;
};

int BenchPictures(const std::string& folder, int64_t classes) {
  proto::Job job;
  job.mutable_data()->set_classes(classes);
  job.mutable_data()->mutable_image_folder()->set_train(folder);
  const auto data = Open(job);
  job.mutable_data()->set_cache(proto::Data::NONE);
  const auto unpacked = Open(job);
  const Shape& shape = data->sample_shape();
  const std::vector<uint32_t> order = OrderOf(data->size());
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  TETHYS_CHECK(static_cast<int64_t>(paths.size()) == data->size(),
               "the folder has other files than pictures");
  std::vector<std::string> files;
  size_t most = 0;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    most = std::max(most, files.back().size());
  }
  BareDecoder decoder(shape);
  std::vector<char> bytes(most);
  const SampleReader reader(data), unpacked_reader(unpacked);
  const std::vector<double> times =
      Alternate({[&] { reader.ReadAll(order); }, [&] { unpacked_reader.ReadAll(order); },
                 [&] {
                   for (const uint32_t index : order)
                     decoder.Decode(files[index].data(), files[index].size());
                 },
                 [&] {
                   for (const uint32_t index : order) {
                     const int fd = open(paths[index].c_str(), O_RDONLY | O_CLOEXEC);
                     const ssize_t size = pread(fd, bytes.data(), bytes.size(), 0);
                     TETHYS_CHECK(size > 0 && close(fd) == 0, paths[index]);
                     decoder.Decode(bytes.data(), size);
                   }
                 }});
  const auto rate = [&](double time) { return static_cast<double>(data->size()) / time; };
  std::printf(
      "%s, %lld pictures of %s: %.0f a second as a job reads them, %.0f from their own files; libjpeg-turbo "
      "alone "
      "%.0f, ratios %.2f and %.2f; open, pread, close and libjpeg-turbo %.0f, ratios %.2f and %.2f\n",
      folder.c_str(), static_cast<long long>(data->size()), ShapeText(shape).c_str(), rate(times[0]),
      rate(times[1]), rate(times[2]), times[2] / times[0], times[2] / times[1], rate(times[3]),
      times[3] / times[0], times[3] / times[1]);
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
