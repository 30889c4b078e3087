// IDX files: big-endian; described in runtime/data/idx.h.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/data_files/writer_formats.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

constexpr char kBytes = 0x08, kFloats = 0x0d;
constexpr int64_t kMostClasses = 256;

std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

std::string Header(char type, int64_t samples, const Shape& shape) {
  std::string header = {0, 0, type, static_cast<char>(1 + shape.size())};
  header += BigEndian(static_cast<uint32_t>(samples));
  for (const int64_t axis : shape) header += BigEndian(static_cast<uint32_t>(axis));
  return header;
}

std::string ImagesPath(const PartToWrite& part) { return part.Path("-images.idx"); }
std::string LabelsPath(const PartToWrite& part) { return part.Path("-labels.idx"); }

std::string Misfit(const PartToWrite& part) {
  if (part.spec.shape.size() < 2) {
    return absl::StrCat("samples must be [height, width] or have more axes, but these are ",
                        ShapeText(part.spec.shape));
  }
  if (part.label_limit() > kMostClasses) {
    return absl::StrCat("labels are bytes, but data.classes is ", part.classes);
  }
  return part.samples <= UINT32_MAX ? "" : "a file can contain at most 2^32 - 1 samples";
}

class IdxWriter final : public SampleWriter {
 public:
  IdxWriter(const PartToWrite& part, WholeFile images, WholeFile labels)
      : part_(part), images_(std::move(images)), labels_(std::move(labels)) {}

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    TETHYS_RETURN_IF_ERROR(images_.Append(ValuesText(values)));
    std::string bytes;
    for (int64_t i = 0; i < part_.spec.labels.elements(); ++i) {
      if (part_.spec.labels.targets) {
        bytes += BigEndian(static_cast<uint32_t>(labels[i]));
      } else {
        TETHYS_RETURN_IF_ERROR(CheckLabel(kIdxWriter, part_, labels[i], kMostClasses));
        bytes.push_back(static_cast<char>(labels[i]));
      }
    }
    return labels_.Append(bytes);
  }

  absl::Status Commit() override {
    TETHYS_RETURN_IF_ERROR(images_.Commit());
    return labels_.Commit();
  }

 private:
  std::string ValuesText(const uint8_t* values) const {
    if (part_.spec.type == ValueType::kByte) {
      return std::string(reinterpret_cast<const char*>(values), static_cast<size_t>(part_.spec.bytes()));
    }
    std::string bytes;
    for (int64_t i = 0; i < part_.spec.elements(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
      bytes += BigEndian(bits);
    }
    return bytes;
  }

  const PartToWrite part_;
  WholeFile images_, labels_;
};

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  TETHYS_ASSIGN_OR_RETURN(WholeFile images, WholeFile::Create(ImagesPath(part)));
  TETHYS_ASSIGN_OR_RETURN(WholeFile labels, WholeFile::Create(LabelsPath(part)));
  TETHYS_RETURN_IF_ERROR(images.Append(
      Header(part.spec.type == ValueType::kFloat ? kFloats : kBytes, part.samples, part.spec.shape)));
  TETHYS_RETURN_IF_ERROR(labels.Append(
      Header(part.spec.labels.targets ? kFloats : kBytes, part.samples, part.spec.labels.shape)));
  return std::make_unique<IdxWriter>(part, std::move(images), std::move(labels));
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::Idx& idx = *data.mutable_idx();
  (part.trains() ? idx.mutable_train_images() : idx.mutable_test_images())->assign(ImagesPath(part));
  (part.trains() ? idx.mutable_train_labels() : idx.mutable_test_labels())->assign(LabelsPath(part));
}

}  // namespace

const WriterFormat kIdxWriter = {.name = "idx", .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
