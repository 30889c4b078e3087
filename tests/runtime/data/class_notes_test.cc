// Tests notes about classes that a split lacks, and about files sorted by class.
#include "runtime/data/class_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/shard_names.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// `each` labels of every class from `first` to `last`, one class after another.
SplitLabels Sorted(int first, int last, int each, bool all = true) {
  SplitLabels split = {.labels = {}, .all = all};
  for (int label = first; label <= last; ++label) split.labels.insert(split.labels.end(), each, label);
  return split;
}

SplitLabels Mixed(int classes, int samples) {
  SplitLabels split = {.labels = {}, .all = true};
  for (int i = 0; i < samples; ++i) split.labels.push_back(i * 7 % classes);
  return split;
}

proto::Data Validated() {
  proto::Data data;
  data.set_validation_samples(100);
  return data;
}

TEST(ClassNotesTest, NoNoteIsMadeIfAllSplitsContainAllClasses) {
  LabelsOfSplits splits = {
      .train = Mixed(10, 500), .left_out = {}, .validation = Mixed(10, 100), .test = Mixed(10, 50)};
  EXPECT_THAT(ClassNotes(Validated(), 2, 10, splits), IsEmpty());
  // No notes are made for few samples, because they may lack classes by chance.
  splits.validation = Mixed(10, 3);
  splits.train.all = false;
  EXPECT_THAT(ClassNotes(Validated(), 2, 10, splits), IsEmpty());
  EXPECT_THAT(ClassNotes({}, 2, 10, {.train = Mixed(10, 8), .left_out = {}, .validation = {}, .test = {}}),
              IsEmpty());
}

TEST(ClassNotesTest, NoteNamesAClassThatIsOnlyInTheValidationSplitAndSaysWhy) {
  const LabelsOfSplits splits = {
      .train = Sorted(0, 0, 100), .left_out = {}, .validation = Sorted(1, 1, 100), .test = {}};
  EXPECT_THAT(ClassNotes(Validated(), 1, 2, splits),
              ElementsAre(AllOf(HasSubstr("no training sample has class 1, but the validation split does"),
                                HasSubstr("sorted by class"),
                                HasSubstr("data.validation_samples takes samples from the end")),
                          HasSubstr("no validation sample has class 0")));
}

TEST(ClassNotesTest, NoteNamesClassesMissingInValidationBecauseFilesAreSorted) {
  LabelsOfSplits splits = {
      .train = Sorted(0, 9, 90, false), .left_out = {}, .validation = Sorted(6, 9, 25), .test = {}};
  EXPECT_THAT(
      ClassNotes(Validated(), 1, 10, splits),
      ElementsAre(AllOf(HasSubstr("no validation sample has classes 0 to 5"), HasSubstr("sorted by class"))));
  // The training samples are now mixed, so the note need not name sorted files as the cause.
  splits.train = Mixed(10, 900);
  EXPECT_THAT(ClassNotes(Validated(), 1, 10, splits),
              ElementsAre(HasSubstr("no validation sample has classes 0 to 5")));
}

TEST(ClassNotesTest, NoteNamesLimitSamplesIfItCutsOffWholeClassesOfSortedFiles) {
  proto::Data data;
  data.set_limit_samples(500);
  const LabelsOfSplits splits = {
      .train = Sorted(0, 4, 100), .left_out = Sorted(5, 9, 100), .validation = {}, .test = {}};
  EXPECT_THAT(ClassNotes(data, 1, 10, splits),
              ElementsAre(AllOf(HasSubstr("no training sample has classes 5 to 9"),
                                HasSubstr("data.limit_samples leaves out"),
                                HasSubstr("data.limit_samples takes samples from the beginning"))));
}

TEST(ClassNotesTest, NoteNamesAClassThatIsOnlyInTheTestSplitOrInNoSplit) {
  LabelsOfSplits splits = {.train = Mixed(9, 450), .left_out = {}, .validation = {}, .test = Mixed(10, 50)};
  EXPECT_THAT(ClassNotes({}, 1, 10, splits),
              ElementsAre(AllOf(HasSubstr("no training sample has class 9, but test samples do"),
                                Not(HasSubstr("sorted")))));
  splits.test = {};
  EXPECT_THAT(ClassNotes({}, 1, 10, splits),
              ElementsAre(HasSubstr("no sample has class 9, though data.classes is 10")));
}

TEST(ClassNotesTest, NoteNamesShuffleOrShardingThatKeepsFilesSortedByClass) {
  proto::Data data;
  const LabelsOfSplits splits = {.train = Sorted(0, 9, 100), .left_out = {}, .validation = {}, .test = {}};
  EXPECT_THAT(ClassNotes(data, 4, 10, splits), IsEmpty());
  data.mutable_shuffle()->mutable_none();
  EXPECT_THAT(ClassNotes(data, 4, 10, splits),
              ElementsAre(HasSubstr("data.shuffle { none {} } keeps their order")));
  data.mutable_shuffle()->mutable_blocks();
  data.set_sharding(proto::Data::FILE);
  EXPECT_THAT(ClassNotes(data, 4, 10, splits), ElementsAre(HasSubstr("mixes only neighbouring samples"),
                                                           HasSubstr("each worker files of its own")));
  EXPECT_THAT(
      ClassNotes(data, 4, 10, {.train = Mixed(10, 900), .left_out = {}, .validation = {}, .test = {}}),
      IsEmpty());
}

TEST(ShardNamesTest, NoteNamesMissingFilesOfANumberedSet) {
  EXPECT_THAT(MissingShardNotes({"a-00000-of-00002", "a-00001-of-00002", "b.tfrecord", "c-of-3", "d-7-of-x"}),
              IsEmpty());
  EXPECT_THAT(MissingShardNotes({"d/a-00000-of-00004.tfrecord", "d/a-00001-of-00004.tfrecord",
                                 "d/a-00002-of-00004.tfrecord"}),
              ElementsAre(AllOf(HasSubstr("of the 4 files"),
                                HasSubstr("1 is missing: d/a-00003-of-00004.tfrecord"))));
  // Files are counted from 1, so none is missing.
  EXPECT_THAT(MissingShardNotes({"a-1-of-2", "a-2-of-2"}), IsEmpty());
  EXPECT_THAT(MissingShardNotes({"a-0-of-9"}),
              ElementsAre(HasSubstr("8 are missing: a-1-of-9, a-2-of-9, a-3-of-9, ...")));
}

}  // namespace
}  // namespace tethys
