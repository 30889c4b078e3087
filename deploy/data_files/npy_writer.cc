// NumPy arrays in .npy files, version 1 of numpy.lib.format.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/data_files/writer_formats.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

// The header is padded so that values begin at a multiple of 64 bytes.
std::string Header(const std::string& type, int64_t samples, const Shape& shape) {
  constexpr size_t kAlignment = 64, kFixed = 10;
  std::string text = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", samples, ",",
                                  shape.empty() ? "" : " ", absl::StrJoin(shape, ", "), "), }");
  text.append(kAlignment - (kFixed + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

std::string ImagesPath(const PartToWrite& part) { return part.Path("-images.npy"); }
std::string LabelsPath(const PartToWrite& part) { return part.Path("-labels.npy"); }

class NpyWriter final : public SampleWriter {
 public:
  NpyWriter(const PartToWrite& part, WholeFile images, WholeFile labels)
      : spec_(part.spec), images_(std::move(images)), labels_(std::move(labels)) {}

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    TETHYS_RETURN_IF_ERROR(
        images_.Append({reinterpret_cast<const char*>(values), static_cast<size_t>(spec_.bytes())}));
    return labels_.Append({reinterpret_cast<const char*>(labels),
                           static_cast<size_t>(spec_.labels.elements()) * sizeof(int32_t)});
  }

  absl::Status Commit() override {
    TETHYS_RETURN_IF_ERROR(images_.Commit());
    return labels_.Commit();
  }

 private:
  const SampleSpec spec_;
  WholeFile images_, labels_;
};

std::string Misfit(const PartToWrite&) { return {}; }

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  TETHYS_ASSIGN_OR_RETURN(WholeFile images, WholeFile::Create(ImagesPath(part)));
  TETHYS_ASSIGN_OR_RETURN(WholeFile labels, WholeFile::Create(LabelsPath(part)));
  const bool floats = part.spec.type == ValueType::kFloat;
  TETHYS_RETURN_IF_ERROR(images.Append(Header(floats ? "<f4" : "|u1", part.samples, part.spec.shape)));
  TETHYS_RETURN_IF_ERROR(
      labels.Append(Header(part.spec.labels.targets ? "<f4" : "<i4", part.samples, part.spec.labels.shape)));
  return std::make_unique<NpyWriter>(part, std::move(images), std::move(labels));
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::Npy& npy = *data.mutable_npy();
  (part.trains() ? npy.mutable_train_images() : npy.mutable_test_images())->assign(ImagesPath(part));
  (part.trains() ? npy.mutable_train_labels() : npy.mutable_test_labels())->assign(LabelsPath(part));
}

}  // namespace

const WriterFormat kNpyWriter = {.name = "npy", .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
