// Pictures in folders: ROOT/CLASS/NAME.png, .jpg or .jpeg. Names are held in memory. A picture is decoded
// each time it is read, from its file or from a pack (packed_pictures.h).
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
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

// The memory for each picture: 72 bytes for a Picture whose name has 24 bytes, and the picture's position in
// a pack.
int64_t BytesHeld(const proto::Data&, const SampleSpec&) { return 72 + sizeof(int64_t); }

struct Picture {
  std::string name;  // The file's name in the folder of its class.
  int32_t label = 0;
};

struct Listing {
  std::string root;
  std::vector<std::string> classes;  // The names of the classes (ClassNames).
  std::vector<Picture> pictures;     // Sorted by OrderByHash.
  std::vector<std::string> notes;    // Notes on files that are left out.

  std::string PathOf(const Picture& picture) const {
    return absl::StrCat(root, "/", classes[picture.label], "/", picture.name);
  }
};

// A remedy if the classes seem to lie in another folder than the job names: one level lower, as in an archive
// that contains one folder; or one level higher, if the folder contains folders for training and test.
std::string NestingRemedy(const std::string& root, const std::vector<std::string>& folders) {
  for (const std::string& name : folders) {
    const absl::StatusOr<NamesInFolder> inner = ListFolder(absl::StrCat(root, "/", name));
    if (!inner.ok() || !inner->pictures.empty() || inner->folders.empty()) continue;
    return absl::StrCat("; ", root, "/", name, " holds no pictures but folders (", FirstNames(inner->folders),
                        "): if these folders are the classes, name ", root, "/", name, " in the job");
  }
  return "";
}

absl::Status CheckClasses(const proto::Data& data, const Listing& listing, const LabelRules& rules) {
  TETHYS_RETURN_IF_ERROR(rules.CheckTakeClasses("data.image_folder"));
  const auto found = static_cast<int64_t>(listing.classes.size());
  if (found == rules.classes) return absl::OkStatus();
  constexpr size_t kMostNamed = 12;
  const std::vector<std::string>& names = listing.classes;
  const auto last = names.begin() + static_cast<int64_t>(std::min(kMostNamed, names.size()));
  const std::string& root = data.image_folder().train();
  return absl::InvalidArgumentError(
      absl::StrCat(root, " holds ", found, found == 1 ? " folder" : " folders", found > 0 ? " (" : "",
                   absl::StrJoin(names.begin(), last, ", "), names.size() > kMostNamed ? ", ..." : "",
                   found > 0 ? ")" : "", ", one for each class, but data.classes is ", rules.classes,
                   ": the two numbers must be equal", NestingRemedy(root, names)));
}

// The error for a class whose folder holds no picture, with the remedy.
absl::Status NoPictures(const std::string& folder, const NamesInFolder& names) {
  std::string but;
  if (!names.folders.empty()) {
    but = absl::StrCat(" but folders (", FirstNames(names.folders),
                       "), so there is one level of folders too many");
  } else if (!names.others.empty()) {
    but = absl::StrCat(" but other files (", FirstNames(names.others), "), which may have to be converted");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": the folder of a class holds no picture (.png, .jpg, .jpeg)", but,
                   ": add pictures, or remove the folder"));
}

// Paths in the folders that are not used as pictures.
struct LeftOut {
  std::vector<std::string> files;     // Files in the folders of classes.
  std::vector<std::string> folders;   // Folders in the folders of classes.
  std::vector<std::string> pictures;  // Pictures beside the folders of classes.

  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    const auto add = [&](const std::vector<std::string>& paths, absl::string_view one, absl::string_view many,
                         absl::string_view why) {
      if (paths.empty()) return;
      notes.push_back(
          absl::StrCat(paths.size(), " ", paths.size() == 1 ? one : many, why, ": ", FirstNames(paths)));
    };
    add(files, "file whose name does not end in .png, .jpg or .jpeg is",
        "files whose names do not end in .png, .jpg or .jpeg are", " left out");
    add(folders, "folder within the folder of a class is", "folders within the folders of classes are",
        " left out, including all pictures inside");
    add(pictures, "picture beside the folders of classes is", "pictures beside the folders of classes are",
        " left out");
    return notes;
  }
};

// Sorts by a hash of "CLASS/NAME". So the first and the last pictures, which limit_samples and the validation
// split select, are of all classes, and the order is the same on every host.
void OrderByHash(Listing& listing) {
  const auto key = [&](const Picture& picture) {
    const std::string name = absl::StrCat(listing.classes[picture.label], "/", picture.name);
    return std::pair(Fnv1a(name.data(), name.size()), name);
  };
  std::sort(listing.pictures.begin(), listing.pictures.end(),
            [&](const Picture& a, const Picture& b) { return key(a) < key(b); });
}

absl::StatusOr<Listing> List(const proto::Data& data, DataPart part, const LabelRules& rules) {
  Listing listing = {.root = RootOf(data, part), .classes = {}, .pictures = {}, .notes = {}};
  TETHYS_ASSIGN_OR_RETURN(listing.classes, ClassNames(data));
  TETHYS_RETURN_IF_ERROR(CheckClasses(data, listing, rules));
  TETHYS_ASSIGN_OR_RETURN(const NamesInFolder present, ListFolder(listing.root));
  LeftOut left_out;
  for (const std::string& picture : present.pictures) {
    left_out.pictures.push_back(absl::StrCat(listing.root, "/", picture));
  }
  for (const std::string& name : present.folders) {
    const auto found = std::lower_bound(listing.classes.begin(), listing.classes.end(), name);
    if (found == listing.classes.end() || *found != name) {
      return absl::InvalidArgumentError(absl::StrCat(
          listing.root, "/", name, ": ", data.image_folder().train(),
          " has no folder of this name: every class of the test data must be a class of the training data"));
    }
    const std::string folder = absl::StrCat(listing.root, "/", name);
    TETHYS_ASSIGN_OR_RETURN(NamesInFolder names, ListFolder(folder));
    if (names.pictures.empty()) return NoPictures(folder, names);
    for (const std::string& other : names.others) left_out.files.push_back(absl::StrCat(folder, "/", other));
    for (const std::string& inner : names.folders)
      left_out.folders.push_back(absl::StrCat(folder, "/", inner));
    for (std::string& picture : names.pictures) {
      listing.pictures.push_back(
          {.name = std::move(picture), .label = static_cast<int32_t>(found - listing.classes.begin())});
    }
  }
  OrderByHash(listing);
  listing.notes = left_out.Notes();
  if (!listing.pictures.empty()) return listing;
  return absl::InvalidArgumentError(absl::StrCat(
      listing.root, ": the folder must hold one folder of pictures for each class, but holds none"));
}

bool Resizes(const proto::Data& data) { return data.has_resize(); }

// The number of pictures, in the order of the listing, that are examined for colour, for 16 bits or for their
// size: enough to find a property that one picture in a hundred has, and few enough to open on a network
// disk.
constexpr size_t kMostLookedAt = 1024, kMostLookedAtForBits = 64, kMostLookedAtForSize = 64;

// The kind of a picture, even if its JPEG file begins with long metadata, as files of cameras do.
PictureKind KindOfFile(const std::string& path) {
  constexpr size_t kWithRemarks = 1 << 18;
  const PictureKind kind = KindOfPicture(ReadPictureBeginning(path));
  return kind.channels > 0 ? kind : KindOfPicture(ReadPictureBeginning(path, kWithRemarks));
}

// True if one of the first pictures is in colour, as far as the beginnings of their files show.
bool AnyInColour(const Listing& listing) {
  const auto last =
      listing.pictures.begin() + static_cast<int64_t>(std::min(kMostLookedAt, listing.pictures.size()));
  return std::any_of(listing.pictures.begin(), last, [&](const Picture& picture) {
    return KindOfFile(listing.PathOf(picture)).channels == 3;
  });
}

// The shape to which every picture is converted: the size of the first picture, in colour if any picture is.
absl::StatusOr<SampleSpec> SpecOf(const proto::Data& data, const Listing& listing) {
  const proto::ImageFolder& fields = data.image_folder();
  const std::string path = listing.PathOf(listing.pictures.front());
  TETHYS_ASSIGN_OR_RETURN(const auto bytes, ReadPictureFile(path));
  TETHYS_ASSIGN_OR_RETURN(Shape shape, ReadPictureShape(bytes, [&] { return path; }));
  if (Resizes(data)) shape = {data.resize().height(), data.resize().width(), shape[2]};
  if (fields.has_channels()) {
    shape[2] = fields.channels();
  } else if (shape[2] == 1 && AnyInColour(listing)) {
    shape[2] = 3;
  }
  return SampleSpec{.shape = WithoutGreyChannel(shape)};
}

// A sentence if the job does not resize and a picture, among those examined, has another size than the first.
// `shape`: the shape of the first picture.
std::string SizesNote(const proto::Data& data, const Listing& listing, const Shape& shape) {
  if (Resizes(data)) return "";
  for (size_t i = 1; i < std::min(kMostLookedAtForSize, listing.pictures.size()); ++i) {
    const std::string path = listing.PathOf(listing.pictures[i]);
    const PictureKind kind = KindOfFile(path);
    if (kind.height == 0 || kind.width == 0) continue;  // Reading this picture will report the error.
    if (kind.height == shape[0] && kind.width == shape[1]) continue;
    return absl::StrCat(
        path, " has ", kind.height, " x ", kind.width, " pixels, but ",
        listing.PathOf(listing.pictures.front()), " has ", shape[0], " x ", shape[1],
        ": training needs pictures of one size, so give it in data.resize, for example resize { height: ",
        shape[0], " width: ", shape[1], " }");
  }
  return "";
}

// A sentence if the first picture with 16 bits per channel, among those examined, has only small values.
absl::StatusOr<std::string> FewBitsNote(const Listing& listing) {
  constexpr uint8_t kSmall = 64;
  for (size_t i = 0; i < std::min(kMostLookedAtForBits, listing.pictures.size()); ++i) {
    const std::string path = listing.PathOf(listing.pictures[i]);
    if (KindOfPicture(ReadPictureBeginning(path)).bits != 16) continue;
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, ReadPictureFile(path));
    const auto name = [&] { return path; };
    TETHYS_ASSIGN_OR_RETURN(const Shape shape, ReadPictureShape(bytes, name));
    std::vector<uint8_t> values(shape[0] * shape[1] * shape[2]);
    TETHYS_RETURN_IF_ERROR(DecodePicture(bytes, name, shape, /*resize=*/false, values.data()));
    const int largest = *std::max_element(values.begin(), values.end());
    if (largest >= kSmall) return "";
    return absl::StrCat(path,
                        " has 16 bits a channel, of which the upper 8 are used, so the largest value in this "
                        "picture becomes ",
                        largest,
                        " of 255; if the values have fewer than 16 bits, scale them up to 16 bits first");
  }
  return "";
}

class ImageFolderSource final : public SampleSource {
 public:
  // `packed` contains the pictures of the listing; null: each picture is read from its file. `any_colour` is
  // true if the job gives the number of channels: grey and colour pictures are then converted to this number.
  // Otherwise a colour picture is an error if the samples are grey.
  ImageFolderSource(SampleSpec spec, Listing listing, std::shared_ptr<const PackedPictures> packed,
                    bool resize, bool any_colour)
      : SampleSource(std::move(spec), static_cast<int64_t>(listing.pictures.size())),
        listing_(std::move(listing)),
        packed_(std::move(packed)),
        picture_(WithChannels(this->spec().shape)),
        resize_(resize),
        refuses_colour_(!any_colour && picture_[2] == 1) {}

  absl::Status Read(int64_t index, uint8_t* values, int32_t* labels) const override {
    if (labels != nullptr) *labels = listing_.pictures[index].label;
    if (values == nullptr) return absl::OkStatus();
    const auto path = [&] { return listing_.PathOf(listing_.pictures[index]); };
    TETHYS_ASSIGN_OR_RETURN(const auto bytes, packed_ ? packed_->Read(index) : ReadPictureFile(path()));
    if (refuses_colour_ && KindOfPicture(bytes).channels == 3) return InColour(path());
    return DecodePicture(bytes, path, picture_, resize_, values);
  }

 private:
  const Listing listing_;
  const std::shared_ptr<const PackedPictures> packed_;
  const Shape picture_;  // The shape of every picture, with an axis of channels.
  const bool resize_;
  const bool refuses_colour_;

  absl::Status InColour(const std::string& path) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is in colour, but ", listing_.PathOf(listing_.pictures.front()),
                     " and the other pictures that were examined first are grey: write "
                     "data.image_folder.channels: 3, or 1 to convert all pictures to grey"));
  }
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
  TETHYS_ASSIGN_OR_RETURN(Listing listing, List(data, part, rules));
  TETHYS_ASSIGN_OR_RETURN(SampleSpec spec, SpecOf(data, listing));
  TETHYS_ASSIGN_OR_RETURN(const std::string few_bits, FewBitsNote(listing));
  DataHeader header = {.samples = static_cast<int64_t>(listing.pictures.size()),
                       .spec = spec,
                       .values_name = listing.root,
                       .labels_name = listing.root,
                       .notes = listing.notes};
  if (!few_bits.empty()) header.notes.push_back(few_bits);
  const std::string sizes = SizesNote(data, listing, header.spec.shape);
  if (!sizes.empty()) header.notes.push_back(sizes);
  const auto source = std::make_shared<ImageFolderSource>(std::move(spec), std::move(listing), nullptr,
                                                          Resizes(data), data.image_folder().has_channels());
  header.open_labels = [source]() -> absl::StatusOr<std::shared_ptr<const SampleSource>> { return source; };
  return header;
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
                                             Resizes(data), data.image_folder().has_channels());
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
