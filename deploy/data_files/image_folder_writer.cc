// Folders of PNG files, one folder a class. The order of the folders' names must be the order of the classes:
// if the class names are in alphabetic order, they are the folders' names; otherwise each folder's name is
// the number of the class and then the name of the class.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "deploy/data_files/writer_formats.h"
#include "runtime/data/picture.h"

namespace tethys {
namespace {

// True if the folder of a class can have this name. Readers leave out hidden folders.
bool IsFolderName(const std::string& name) {
  // A number may be put before the name, and a file system accepts 255 bytes.
  constexpr size_t kMostBytes = 200;
  return !name.empty() && name.size() <= kMostBytes && name[0] != '.' && !absl::StartsWith(name, "__") &&
         !absl::StrContains(name, '/') && !absl::StrContains(name, '\\');
}

// One folder name per class: "cat"; "07-cat" if the alphabetic order of the names is not the order of the
// classes; "07" if the classes have no names.
std::vector<std::string> FoldersOf(const PartToWrite& part) {
  const std::vector<std::string>& names = part.class_names;
  const bool named = !names.empty() && std::all_of(names.begin(), names.end(), IsFolderName);
  if (named && std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end())
    return names;
  const auto digits = static_cast<int>(absl::StrCat(part.classes - 1).size());
  std::vector<std::string> folders;
  for (int64_t i = 0; i < part.classes; ++i) {
    folders.push_back(absl::StrCat(absl::StrFormat("%0*d", digits, i), named ? "-" + names[i] : ""));
  }
  return folders;
}

std::string Misfit(const PartToWrite& part) {
  if (IsPicture(part.spec.shape) && part.spec.type == ValueType::kByte && part.spec.labels.shape.empty() &&
      !part.spec.labels.targets && part.label_limit() == part.classes) {
    return {};
  }
  return absl::StrCat("samples must be pictures with one class each, but these are ",
                      ValueTypeText(part.spec.type), " ", ShapeText(part.spec.shape), " with ",
                      LabelText(part.spec.labels));
}

// Writes into a folder "train.tmp", which is renamed once it is complete.
class ImageFolderWriter final : public SampleWriter {
 public:
  explicit ImageFolderWriter(PartToWrite part) : part_(std::move(part)), folders_(FoldersOf(part_)) {}
  ~ImageFolderWriter() override {
    std::error_code ignored;
    std::filesystem::remove_all(Temporary(), ignored);
  }

  absl::Status Add(const uint8_t* values, const int32_t* labels) override {
    TETHYS_RETURN_IF_ERROR(CheckLabel(kImageFolderWriter, part_, labels[0], part_.classes));
    const std::string folder = absl::StrCat(Temporary(), "/", folders_[labels[0]]);
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
  const std::vector<std::string> folders_;  // One folder per class.
  int64_t added_ = 0;
  std::set<int32_t> used_;  // Classes that have a sample.
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
