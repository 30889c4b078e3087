// Pictures in folders: ROOT/CLASS/NAME.png, .jpg or .jpeg. Names are held in memory, pictures are decoded
// each time they are read, from their files or from a pack of them.
#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/random.h"
#include "runtime/data/formats.h"
#include "runtime/data/packed_pictures.h"
#include "runtime/data/picture.h"
#include "runtime/data/picture_files.h"

namespace tethys {
namespace {

const std::string& RootOf(const proto::Data& data, DataPart part) {
  return part == DataPart::kTrain ? data.image_folder().train() : data.image_folder().test();
}

bool Has(const proto::Data& data, DataPart part) { return !RootOf(data, part).empty(); }

std::string Place(const proto::Data& data) { return data.image_folder().train(); }

// The folders of the training part, sorted.
absl::StatusOr<std::vector<std::string>> ClassNames(const proto::Data& data) {
  return FolderNamesIn(data.image_folder().train());
}

// A name of 24 bytes, which string and vector make 72, and its place in a pack.
int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return 72 + sizeof(int64_t); }

struct Picture {
  std::string name;  // In the folder of its class.
  int32_t label = 0;
};

struct Listing {
  std::string root;
  std::vector<std::string> classes;  // ClassNames.
  std::vector<Picture> pictures;     // Ordered by OrderByHash.

  std::string PathOf(const Picture& picture) const {
    return absl::StrCat(root, "/", classes[picture.label], "/", picture.name);
  }
};

absl::Status CheckClasses(const proto::Data& data, const Listing& listing, const LabelRules& rules) {
  TETHYS_RETURN_IF_ERROR(rules.CheckTakeClasses("data.image_folder"));
  const auto found = static_cast<int64_t>(listing.classes.size());
  if (found == rules.classes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(data.image_folder().train(), " holds ", found,
                                                 " folders, one a class, but data.classes is ", rules.classes,
                                                 ": the two must be equal"));
}

// Sorts by a hash of "CLASS/NAME". So the first and the last pictures, which limit_samples and the validation
// split take, are of all classes, and the order is the same on every host.
void OrderByHash(Listing& listing) {
  const auto key = [&](const Picture& picture) {
    const std::string name = absl::StrCat(listing.classes[picture.label], "/", picture.name);
    return std::pair(Fnv1a(name.data(), name.size()), name);
  };
  std::sort(listing.pictures.begin(), listing.pictures.end(),
            [&](const Picture& a, const Picture& b) { return key(a) < key(b); });
}

absl::StatusOr<Listing> List(const proto::Data& data, DataPart part, const LabelRules& rules) {
  Listing listing = {.root = RootOf(data, part), .classes = {}, .pictures = {}};
  TETHYS_ASSIGN_OR_RETURN(listing.classes, ClassNames(data));
  TETHYS_RETURN_IF_ERROR(CheckClasses(data, listing, rules));
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> present, FolderNamesIn(listing.root));
  for (const std::string& name : present) {
    const auto found = std::lower_bound(listing.classes.begin(), listing.classes.end(), name);
    if (found == listing.classes.end() || *found != name) {
      return absl::InvalidArgumentError(absl::StrCat(listing.root, "/", name, ": ",
                                                     data.image_folder().train(),
                                                     " has no folder of this name: a class to test must be "
                                                     "one that is trained"));
    }
    const std::string folder = absl::StrCat(listing.root, "/", name);
    TETHYS_ASSIGN_OR_RETURN(std::vector<std::string> pictures, PictureNamesIn(folder));
    if (pictures.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder, ": the folder of a class holds no picture (.png, .jpg, .jpeg): add some, or remove it"));
    }
    for (std::string& picture : pictures) {
      listing.pictures.push_back(
          {.name = std::move(picture), .label = static_cast<int32_t>(found - listing.classes.begin())});
    }
  }
  OrderByHash(listing);
  if (!listing.pictures.empty()) return listing;
  return absl::InvalidArgumentError(
      absl::StrCat(listing.root, ": the folder holds no folders with pictures"));
}

bool Resizes(const proto::Data& data) { return data.has_resize(); }

// What every sample is brought to. The size of the training part's first picture holds for the test, too.
absl::StatusOr<SampleSpec> SpecOf(const proto::Data& data, const Listing& listing) {
  const proto::ImageFolder& fields = data.image_folder();
  const std::string path = listing.PathOf(listing.pictures.front());
  TETHYS_ASSIGN_OR_RETURN(const auto bytes, ReadPictureFile(path));
  TETHYS_ASSIGN_OR_RETURN(Shape shape, ReadPictureShape(bytes, [&] { return path; }));
  if (Resizes(data)) shape = {data.resize().height(), data.resize().width(), shape[2]};
  if (fields.has_channels()) shape[2] = fields.channels();
  return SampleSpec{.shape = WithoutGreyChannel(shape)};
}

class ImageFolderSource final : public SampleSource {
 public:
  // `packed` holds the pictures of the listing; null: they are read from their files.
  ImageFolderSource(SampleSpec spec, Listing listing, std::shared_ptr<const PackedPictures> packed,
                    bool resize)
      : SampleSource(std::move(spec), static_cast<int64_t>(listing.pictures.size())),
        listing_(std::move(listing)),
        packed_(std::move(packed)),
        picture_(WithChannels(this->spec().shape)),
        resize_(resize) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) *labels = listing_.pictures[index].label;
    if (values == nullptr) return absl::OkStatus();
    const auto path = [&] { return listing_.PathOf(listing_.pictures[index]); };
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, packed_ ? packed_->Read(index) : ReadPictureFile(path()));
    return DecodePicture(bytes, path, picture_, resize_, values);
  }

 private:
  const Listing listing_;
  const std::shared_ptr<const PackedPictures> packed_;
  const Shape picture_;  // With an axis of channels.
  const bool resize_;
};

// The first `most` pictures of each class.
absl::StatusOr<std::vector<std::string>> PathsOfEach(const std::string& root, size_t most) {
  std::vector<std::string> paths;
  TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> classes, FolderNamesIn(root));
  for (const std::string& name : classes) {
    const std::string folder = absl::StrCat(root, "/", name);
    TETHYS_ASSIGN_OR_RETURN(const std::vector<std::string> pictures, PictureNamesIn(folder));
    for (size_t i = 0; i < std::min(most, pictures.size()); ++i) {
      paths.push_back(absl::StrCat(folder, "/", pictures[i]));
    }
  }
  return paths;
}

absl::StatusOr<std::vector<std::string>> FirstOfEach(const proto::Data& data, DataPart part) {
  return PathsOfEach(RootOf(data, part), 1);
}

absl::StatusOr<std::vector<std::string>> EveryFile(const proto::Data& data, DataPart part) {
  return PathsOfEach(RootOf(data, part), SIZE_MAX);
}

absl::StatusOr<DataHeader> ReadHeader(const proto::Data& data, DataPart part, const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(const Listing listing, List(data, part, rules));
  TETHYS_ASSIGN_OR_RETURN(SampleSpec spec, SpecOf(data, listing));
  return DataHeader{.samples = static_cast<int64_t>(listing.pictures.size()),
                    .spec = std::move(spec),
                    .values_name = listing.root,
                    .labels_name = listing.root};
}

absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const proto::Data& data, DataPart part,
                                                         const LabelRules& rules) {
  TETHYS_ASSIGN_OR_RETURN(Listing listing, List(data, part, rules));
  TETHYS_ASSIGN_OR_RETURN(SampleSpec spec, SpecOf(data, listing));
  std::shared_ptr<const PackedPictures> packed;
  if (!data.has_cache()) {
    const auto path_of = [&](int64_t index) { return listing.PathOf(listing.pictures[index]); };
    const auto count = static_cast<int64_t>(listing.pictures.size());
    TETHYS_ASSIGN_OR_RETURN(packed, PackedPictures::Open(data.cache_dir(), count, path_of));
  }
  return std::make_shared<ImageFolderSource>(std::move(spec), std::move(listing), std::move(packed),
                                             Resizes(data));
}

}  // namespace

const DataFormat kImageFolderFormat = {.kind = proto::Data::kImageFolder,
                                       .has = Has,
                                       .files = FirstOfEach,
                                       .every_file = EveryFile,
                                       .place = Place,
                                       .class_names = ClassNames,
                                       .bytes_held = BytesHeld,
                                       .read_header = ReadHeader,
                                       .open = Open};

}  // namespace tethys
