// TFRecord files of tf.Example messages with the features "image" and "label", as TensorFlow Datasets has
// them for pictures; described in runtime/data/tfrecord_source.cc.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "deploy/data_files/writer_formats.h"
#include "deploy/whole_file.h"
#include "proto/example.pb.h"
#include "runtime/base/crc32c.h"
#include "runtime/data/picture.h"

namespace tethys {
namespace {

std::string PathOf(const PartToWrite& part, int file) {
  return part.Path(absl::StrFormat("-%05d-of-%05d.tfrecord", file, part.files));
}

bool WritesPictures(const PartToWrite& part) {
  return !part.raw && part.spec.type == ValueType::kByte && IsPicture(part.spec.shape);
}

template <typename Number>
std::string LittleEndian(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Writes the features in a fixed order, so that equal samples have equal bytes.
std::string Serialised(const proto::Example& example) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  example.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string Record(const std::string& payload) {
  const std::string length = LittleEndian(static_cast<uint64_t>(payload.size()));
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length)), payload,
                      LittleEndian(MaskedCrc32c(payload)));
}

std::string Misfit(const PartToWrite& part) {
  if (part.spec.shape.size() != 2 && part.spec.shape.size() != 3) {
    return absl::StrCat("samples must be [height, width] or [height, width, channels], but these are ",
                        ShapeText(part.spec.shape));
  }
  if (!part.spec.labels.targets || part.spec.labels.shape.size() <= 1) return {};
  return absl::StrCat("targets must be a row, but these are ", LabelText(part.spec.labels));
}

// File i contains the samples [i * samples / files, (i + 1) * samples / files).
class TfrecordWriter final : public SampleWriter {
 public:
  TfrecordWriter(PartToWrite part, std::vector<WholeFile> files)
      : part_(std::move(part)), files_(std::move(files)) {}

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    TETHYS_RETURN_IF_ERROR(AddImage(values, features["image"]));
    proto::Feature& label = features["label"];
    for (int64_t i = 0; i < part_.spec.labels.elements(); ++i) {
      if (part_.spec.labels.targets) {
        float target;
        std::memcpy(&target, labels + i, sizeof(target));
        label.mutable_float_list()->add_value(target);
      } else {
        label.mutable_int64_list()->add_value(labels[i]);
      }
    }
    const auto count = static_cast<int64_t>(files_.size());
    while (added_ >= (file_ + 1) * part_.samples / count) ++file_;
    ++added_;
    return files_[file_].Append(Record(Serialised(example)));
  }

  absl::Status Commit() override {
    for (WholeFile& file : files_) TETHYS_RETURN_IF_ERROR(file.Commit());
    return absl::OkStatus();
  }

 private:
  absl::Status AddImage(const uint8_t* values, proto::Feature& feature) const {
    const SampleSpec& spec = part_.spec;
    if (spec.type == ValueType::kFloat) {
      const auto* floats = reinterpret_cast<const float*>(values);
      feature.mutable_float_list()->mutable_value()->Add(floats, floats + spec.elements());
    } else if (WritesPictures(part_)) {
      TETHYS_ASSIGN_OR_RETURN(*feature.mutable_bytes_list()->add_value(), EncodePng(values, spec.shape));
    } else {
      feature.mutable_bytes_list()->add_value(values, static_cast<size_t>(spec.bytes()));
    }
    return absl::OkStatus();
  }

  const PartToWrite part_;
  std::vector<WholeFile> files_;
  int64_t added_ = 0, file_ = 0;
};

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  std::vector<WholeFile> files;
  for (int i = 0; i < part.files; ++i) {
    TETHYS_ASSIGN_OR_RETURN(WholeFile file, WholeFile::Create(PathOf(part, i)));
    files.push_back(std::move(file));
  }
  return std::make_unique<TfrecordWriter>(part, std::move(files));
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::Tfrecord& tfrecord = *data.mutable_tfrecord();
  (part.trains() ? tfrecord.add_train() : tfrecord.add_test())
      ->assign(part.files == 1 ? PathOf(part, 0) : part.Path("-*.tfrecord"));
  if (WritesPictures(part)) return;
  tfrecord.clear_shape();
  for (const int64_t axis : part.spec.shape) tfrecord.add_shape(axis);
}

}  // namespace

const WriterFormat kTfrecordWriter = {
    .name = "tfrecord", .several_files = true, .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
