// Folders of PNG files, one folder a class, numbered so that the order of their names is that of the classes.
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "deploy/data_files/writer_formats.h"
#include "runtime/data/picture.h"

namespace tethys {
namespace {

// "07" of 12 classes.
std::string ClassName(int64_t label, int64_t classes) {
  return absl::StrFormat("%0*d", static_cast<int>(absl::StrCat(classes - 1).size()), label);
}

std::string Misfit(const PartToWrite& part) {
  if (IsPicture(part.spec.shape) && part.spec.type == ValueType::kByte && part.spec.labels.shape.empty() &&
      !part.spec.labels.targets && part.label_limit() == part.classes) {
    return {};
  }
  return absl::StrCat("samples are pictures with one class each, these are ", ValueTypeText(part.spec.type),
                      " ", ShapeText(part.spec.shape), " with ", LabelText(part.spec.labels));
}

// Writes into a folder "train.tmp", which gets its name once it is whole.
class ImageFolderWriter final : public SampleWriter {
 public:
  explicit ImageFolderWriter(PartToWrite part) : part_(std::move(part)) {}
  ~ImageFolderWriter() override {
    std::error_code ignored;
    std::filesystem::remove_all(Temporary(), ignored);
  }

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    TETHYS_RETURN_IF_ERROR(CheckLabel(kImageFolderWriter, part_, labels[0], part_.classes));
    const std::string folder = absl::StrCat(Temporary(), "/", ClassName(labels[0], part_.classes));
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return absl::UnavailableError(absl::StrCat("cannot create ", folder, ": ", error.message()));
    TETHYS_ASSIGN_OR_RETURN(const std::string png, EncodePng(values, part_.spec.shape));
    const std::string path = absl::StrFormat("%s/%08d.png", folder, added_++);
    std::ofstream file(path, std::ios::binary);
    file.write(png.data(), static_cast<std::streamsize>(png.size())).flush();
    used_.insert(labels[0]);
    return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
  }

  absl::Status Commit() override {
    for (int32_t label = 0; part_.trains() && label < part_.classes; ++label) {
      if (used_.count(label) > 0) continue;
      return CannotHold(
          kImageFolderWriter, part_,
          absl::StrCat("no training sample is of class ", label, ", which therefore gets no folder"));
    }
    std::error_code error;
    std::filesystem::rename(Temporary(), part_.Path(""), error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("cannot rename ", Temporary(), " to ", part_.Path(""), ": ", error.message()));
  }

 private:
  std::string Temporary() const { return part_.Path(".tmp"); }

  const PartToWrite part_;
  int64_t added_ = 0;
  std::set<int32_t> used_;  // Classes.
};

absl::StatusOr<std::unique_ptr<SampleWriter>> Create(const PartToWrite& part) {
  return std::make_unique<ImageFolderWriter>(part);
}

void Describe(const PartToWrite& part, proto::Data& data) {
  proto::ImageFolder& folder = *data.mutable_image_folder();
  (part.trains() ? folder.mutable_train() : folder.mutable_test())->assign(part.Path(""));
}

}  // namespace

const WriterFormat kImageFolderWriter = {
    .name = "image_folder", .misfit = Misfit, .create = Create, .describe = Describe};

}  // namespace tethys
