#include "deploy/job_tools/flat_job.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/job/job_file.h"
#include "runtime/job/job_layers.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

class FlatJobTest : public ::testing::Test {
 protected:
  // Returns the flat text of the file, and checks that the text means the same.
  std::string Flat(const std::string& path) {
    const absl::StatusOr<std::string> flat = FlatJobTextWithComments(path);
    EXPECT_TRUE(flat.ok()) << flat.status();
    const std::string copy = directory_.Write("flat.textproto", *flat);
    const absl::StatusOr<JobLayers> before = ReadJobLayers(path), after = ReadJobLayers(copy);
    EXPECT_TRUE(after.ok()) << after.status() << *flat;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(before->job, after->job)) << *flat;
    return *flat;
  }

  testing::TempDirectory directory_;
};

TEST_F(FlatJobTest, FileWithoutBaseStaysAsItIs) {
  const std::string text = "# Why.\nepochs: 3  # Few.\n\n# The end.\n";
  EXPECT_EQ(Flat(directory_.Write("a.textproto", text)), text);
}

TEST_F(FlatJobTest, FieldsKeepTheCommentsOfTheFilesThatWroteThem) {
  directory_.Write("base.textproto", R"(# About the base.
model { lenet {} }  # Small.

data {
  # The pictures of "2".
  idx { train_images: "a#b" train_labels: 'c' }
  mean: [0.25, 0.5]  # Grey.
  classes: 10
}
# Three passes.
epochs: 3
)");
  const std::string path = directory_.Write("a.textproto", R"(# About the job.
base: "base.textproto"
epochs: 1  # One is enough.
data { classes: 7 }
)");
  EXPECT_EQ(Flat(path), R"(# About the job.
model { lenet {} }  # Small.
data {
  # The pictures of "2".
  idx { train_images: "a#b" train_labels: "c" }
  classes: 7
  mean: [0.25, 0.5]  # Grey.
}
epochs: 1  # One is enough.
)");
}

TEST_F(FlatJobTest, EveryExampleMeansTheSame) {
  int with_base = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TETHYS_SOURCE "/examples")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".textproto" || !LoadJob(path, {}).ok()) continue;  // A study is no job.
    const std::string flat = Flat(path);
    with_base += flat == *ReadFile(path) ? 0 : 1;
  }
  EXPECT_GE(with_base, 5);
}

TEST_F(FlatJobTest, MissingBaseIsAnErrorWithItsPlace) {
  const absl::Status status =
      FlatJobTextWithComments(directory_.Write("a.textproto", "base: \"none.textproto\"\n")).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("a.textproto:1:1: base"));
}

}  // namespace
}  // namespace tethys
