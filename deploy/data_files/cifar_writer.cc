// Writes CIFAR-10's binary version: for each sample a byte with the label, then 32 x 32 bytes of red, 32 x 32
// bytes of green and 32 x 32 bytes of blue.
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/data_files/writer_formats.h"
#include "deploy/whole_file.h"

namespace tethys {
namespace {

constexpr int64_t kPixels = 32 * 32, kChannels = 3, kMostClasses = 256;

std::string PathOf(const PartToWrite& part) { return part.Path("_batch.bin"); }

std::string Misfit(const PartToWrite& part) {
  if (part.spec.shape != Shape{32, 32, 3} || !part.spec.labels.shape.empty() || part.spec.labels.targets ||
      part.spec.type != ValueType::kByte || part.label_limit() > kMostClasses) {
    return absl::StrCat("samples must be bytes [32, 32, 3] with one of at most 256 classes, but these are ",
                        ValueTypeText(part.spec.type), " ", ShapeText(part.spec.shape), " with ",
                        LabelText(part.spec.labels),
                        part.label_limit() > kMostClasses ? absl::StrCat(" of ", part.label_limit()) : "");
  }
  return {};
}

class CifarWriter final : public SampleWriter {
 public:
  CifarWriter(PartToWrite part, WholeFile file) : part_(std::move(part)), file_(std::move(file)) {}

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    TETHYS_RETURN_IF_ERROR(CheckLabel(kCifarWriter, part_, labels[0], kMostClasses));
    std::string record(1, static_cast<char>(labels[0]));
    for (int64_t channel = 0; channel < kChannels; ++channel) {
      for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
        record.push_back(static_cast<char>(values[pixel * kChannels + channel]));
      }
    }
    return file_.Append(record);
  }

  absl::Status Commit() override { return file_.Commit(); }

 private:
  const PartToWrite part_;
  WholeFile file_;
};

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  TETHYS_ASSIGN_OR_RETURN(WholeFile file, WholeFile::Create(PathOf(part)));
  return std::make_unique<CifarWriter>(part, std::move(file));
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::Cifar& cifar = *data.mutable_cifar();
  (part.trains() ? cifar.add_train() : cifar.add_test())->assign(PathOf(part));
}

}  // namespace

const WriterFormat kCifarWriter = {.name = "cifar", .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
