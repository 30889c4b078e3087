// Texts of manifests are tested where they are used: tests/integration/kubernetes_test.py reads and runs
// them.
#include "deploy/schedulers/manifest.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::string> Folder(const std::string& data) {
  proto::Data parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(data, &parsed)) << data;
  return DataFolder(parsed);
}
std::string Npy(const std::string& images, const std::string& labels) {
  return absl::StrCat("npy { train_images: \"", images, "\" train_labels: \"", labels, "\" }");
}

TEST(ManifestNameTest, JobsNameBecomesALabelOfADomainName) {
  EXPECT_EQ(ManifestName("fashion_mnist_PS.sync"), "fashion-mnist-ps-sync");
  EXPECT_EQ(ManifestName("_2nd-try_"), "job-2nd-try");
  EXPECT_EQ(ManifestName(std::string(51, 'a') + "--b"), std::string(51, 'a'));
  EXPECT_EQ(ManifestName("__"), "job");
}

TEST(ManifestNameTest, EveryMadeNameIsAccepted) {
  for (const std::string& name :
       {std::string("A_b"), std::string("7"), std::string("-"), std::string(100, 'x')}) {
    EXPECT_TRUE(CheckManifest({.name = ManifestName(name)}).ok()) << name;
  }
}

TEST(CheckManifestTest, RefusesWhatKubernetesRefuses) {
  for (const char* name : {"", "A", "1a", "a_b", "a-", "-a", "a\nb"}) {
    EXPECT_THAT(std::string(CheckManifest({.name = name}).message()), StartsWith("--name=")) << name;
  }
  for (const char* image : {"a b", "a\"", "a\nb", "/a", "a:"}) {
    EXPECT_THAT(std::string(CheckManifest({.name = "a", .image = image}).message()), StartsWith("--image="));
  }
  for (const char* claim : {"A", "a_b", "a\"", ".a"}) {
    EXPECT_THAT(std::string(CheckManifest({.name = "a", .data_claim = claim}).message()),
                StartsWith("--data="));
    EXPECT_THAT(std::string(CheckManifest({.name = "a", .results_claim = claim}).message()),
                StartsWith("--results="));
  }
  EXPECT_TRUE(CheckManifest({.name = "a-1",
                             .image = "registry.example.org:5000/my/Tethys_1@sha256:0a",
                             .data_claim = "data-1.x",
                             .results_claim = "r"})
                  .ok());
}

TEST(DataFolderTest, IsTheDeepestFolderWithAllFiles) {
  EXPECT_EQ(*Folder(Npy("/data/a/x.npy", "/data/a/y.npy")), "/data/a");
  EXPECT_EQ(*Folder(Npy("/data/a/x.npy", "/data/ab/y.npy")), "/data");
  EXPECT_EQ(*Folder(Npy("/data/all.npz#x", "/data/all.npz#y")), "/data");
  EXPECT_EQ(*Folder("image_folder { train: \"/d/pets/train\" test: \"/d/pets/test\" }"), "/d/pets");
}

TEST(DataFolderTest, PatternsEndAtTheirFirstPatternCharacter) {
  EXPECT_EQ(*Folder("tfrecord { train: \"/d/part-*/x-[0-9]\" }"), "/d");
  EXPECT_EQ(*Folder("cifar { train: \"/d/c/data_batch_?.bin\" test: \"/d/c/test.bin\" }"), "/d/c");
}

TEST(DataFolderTest, FilesOnTheChiefCountAndUrlsDoNot) {
  EXPECT_EQ(*Folder(Npy("chief:///d/x.npy", "https://example.org/y.npy")), "/d");
  EXPECT_EQ(*Folder(Npy("https://example.org/x.npy", "https://example.org/y.npy")), "");
  EXPECT_EQ(*Folder("synthetic { noise { shape: [ 8, 8, 1 ] } }"), "");
}

TEST(DataFolderTest, RefusesRelativePathsAndTheRootFolder) {
  EXPECT_THAT(std::string(Folder(Npy("x.npy", "/d/y.npy")).status().message()),
              HasSubstr("x.npy is relative"));
  EXPECT_THAT(std::string(Folder(Npy("/a/x.npy", "/b/y.npy")).status().message()),
              HasSubstr("only the folder / in common"));
}

}  // namespace
}  // namespace tethys
