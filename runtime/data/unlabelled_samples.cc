#include "runtime/data/unlabelled_samples.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/idx_source.h"
#include "runtime/data/npy_source.h"
#include "runtime/data/picture.h"
#include "runtime/data/picture_files.h"
#include "runtime/data/resized_source.h"

namespace tethys {
namespace {

std::shared_ptr<const Dataset> AllOf(std::shared_ptr<const SampleSource> source) {
  const int64_t count = source->size();
  return std::make_shared<const Dataset>(std::move(source), 0, count);
}

class PictureSource final : public SampleSource {
 public:
  PictureSource(const UnlabelledUse& use, std::vector<std::string> paths)
      : SampleSource({.shape = use.shape, .labels = use.labels}, static_cast<int64_t>(paths.size())),
        paths_(std::move(paths)),
        picture_(WithChannels(use.shape)),
        resize_(use.resize) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) std::fill_n(labels, spec().labels.elements(), 0);
    if (values == nullptr) return absl::OkStatus();
    const std::string& path = paths_[index];
    const auto name = [&] { return path; };
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, ReadPictureFile(path));
    TETHYS_ASSIGN_OR_RETURN(const Shape own, ReadPictureShape(bytes, name));
    if (!resize_ && (own[0] != picture_[0] || own[1] != picture_[1])) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", own[0], " x ", own[1], " pixels, but the model takes ", picture_[0], " x ",
                       picture_[1], ": add --resize to bring every picture to that size"));
    }
    return DecodePicture(bytes, name, picture_, resize_, values);
  }

 private:
  const std::vector<std::string> paths_;
  const Shape picture_;  // The shape of every picture, with an axis of channels.
  const bool resize_;
};

// `names` are the paths that predictions show, relative to `folder` unless `folder` is empty.
absl::StatusOr<UnlabelledSamples> OpenPictures(const std::string& path, const std::string& folder,
                                               std::vector<std::string> names, const UnlabelledUse& use) {
  if (!IsPicture(use.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   " has pictures, but the model takes samples of shape ",
                                                   ShapeText(use.shape), ": give an array of NumPy"));
  }
  std::vector<std::string> paths = names;
  if (!folder.empty()) {
    for (std::string& name : paths) name = absl::StrCat(folder, "/", name);
  }
  return UnlabelledSamples{.dataset = AllOf(std::make_shared<PictureSource>(use, std::move(paths))),
                           .files = std::move(names)};
}

absl::StatusOr<UnlabelledSamples> OpenFolder(const std::string& path, const UnlabelledUse& use) {
  int64_t others = 0;
  TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> names, PicturesUnder(path, others));
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat(path, ": the folder holds no picture (.png, .jpg, .jpeg)"));
  }
  TETHYS_ASSIGN_OR_RETURN(UnlabelledSamples samples, OpenPictures(path, path, std::move(names), use));
  samples.left_out = others;
  return samples;
}

absl::StatusOr<std::vector<uint8_t>> BeginningOf(const std::string& path) {
  constexpr int64_t kBytes = 16;
  TETHYS_ASSIGN_OR_RETURN(const auto file, OpenLocalFile(path));
  std::vector<uint8_t> begin(std::min(kBytes, file->size()));
  TETHYS_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(begin)));
  return begin;
}

// True if this is the beginning of an IDX file, plain or gzipped.
bool LooksLikeIdx(absl::Span<const uint8_t> begin) {
  return begin.size() >= 2 && ((begin[0] == 0 && begin[1] == 0) || (begin[0] == 0x1f && begin[1] == 0x8b));
}

// The samples of an array or an IDX file. If they are pictures and `use.resize` is set, they are resized to
// the size of `use.shape`.
UnlabelledSamples OfArray(std::shared_ptr<const SampleSource> source, const UnlabelledUse& use) {
  SampleSpec spec = source->spec();
  if (use.resize && IsPicture(spec.shape) && IsPicture(use.shape)) {
    std::copy_n(use.shape.begin(), 2, spec.shape.begin());
  }
  return {.dataset = AllOf(Resized(std::move(source), spec)), .files = {}};
}

}  // namespace

absl::StatusOr<UnlabelledSamples> OpenUnlabelled(const std::string& path, const UnlabelledUse& use) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return OpenFolder(path, use);
  if (absl::EndsWith(path, ".npy") || absl::StrContains(path, ".npz")) {
    TETHYS_ASSIGN_OR_RETURN(auto source, OpenNpySamples(path, use.labels));
    return OfArray(std::move(source), use);
  }
  TETHYS_ASSIGN_OR_RETURN(const std::vector<uint8_t> begin, BeginningOf(path));
  if (LooksLikePicture(begin)) return OpenPictures(path, "", {path}, use);
  if (!LooksLikeIdx(begin)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is neither a picture (PNG, JPEG) nor an IDX file; an array of NumPy must have a name "
                     "that ends in .npy or .npz"));
  }
  TETHYS_ASSIGN_OR_RETURN(auto source, OpenIdxImages(path, use.labels));
  return OfArray(std::move(source), use);
}

}  // namespace tethys
