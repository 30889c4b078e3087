#include "runtime/chief/job_course.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using Next = JobCourse::NextStep;

// Describes the job's phase, followed by the work that is done or due, for example "save, epoch validated,
// save tried, interrupted".
std::string CourseText(const JobCourse::State& state) {
  constexpr const char* kPhases[] = {"gather", "server setup", "worker setup", "train",    "validate",
                                     "test",   "save",         "regroup",      "stopping", "ended"};
  std::string text = kPhases[static_cast<int>(state.phase)];
  if (state.epoch_result == EpochResultStage::kTrained) absl::StrAppend(&text, ", epoch trained");
  if (state.epoch_result == EpochResultStage::kValidated) absl::StrAppend(&text, ", epoch validated");
  if (state.save == SaveStage::kDue) absl::StrAppend(&text, ", save due");
  if (state.save == SaveStage::kTried) absl::StrAppend(&text, ", save tried");
  if (state.tested) absl::StrAppend(&text, ", tested");
  if (state.interrupted) absl::StrAppend(&text, ", interrupted");
  return text;
}

// A job in the training phase. On() returns the next phase if training steps are left, Finished() the next
// phase if none are left.
class JobCourseTest : public ::testing::Test {
 protected:
  void Train(bool validates = true, bool tests = true) {
    course_ = std::make_unique<JobCourse>(validates, tests);
    for (const JobPhase phase : {JobPhase::kServerSetup, JobPhase::kWorkerSetup, JobPhase::kTrain})
      course_->Enter(phase);
  }
  void EndSegment(bool epoch_ended, bool save_due) {
    course_->SegmentEnded({.epoch_ended = epoch_ended, .save_due = save_due});
  }
  Next On() const { return course_->Next(false); }
  Next Finished() const { return course_->Next(true); }
  std::string Text() const { return CourseText(course_->state()); }

  std::unique_ptr<JobCourse> course_;
};

TEST_F(JobCourseTest, SegmentThatEndsWithinAnEpochIsFollowedByTheNextSegment) {
  Train();
  EndSegment(false, false);
  EXPECT_EQ(On(), Next::kTrain);
}

TEST_F(JobCourseTest, DueSaveComesBeforeTheNextSegment) {
  Train();
  EndSegment(false, true);
  EXPECT_EQ(On(), Next::kSave);
  course_->Enter(JobPhase::kSave);
  EXPECT_EQ(On(), Next::kTrain);
  course_->Enter(JobPhase::kTrain);
  EXPECT_EQ(Text(), "train");
}

TEST_F(JobCourseTest, SaveInterruptedByANewGroupIsDueAgain) {
  Train();
  EndSegment(false, true);
  course_->Enter(JobPhase::kSave);
  course_->Regroup(false, true);
  EXPECT_EQ(Text(), "regroup, save due");
  EXPECT_EQ(On(), Next::kSave);
}

TEST_F(JobCourseTest, ValidationInterruptedByANewGroupIsRepeated) {
  Train();
  EndSegment(true, false);
  course_->Enter(JobPhase::kValidate);
  course_->Regroup(false, false);
  EXPECT_EQ(On(), Next::kValidate);
}

TEST_F(JobCourseTest, SegmentInterruptedByANewGroupIsContinuedByThatGroup) {
  Train();
  course_->Regroup(true, false);
  EXPECT_TRUE(course_->in_segment());
  course_->Enter(JobPhase::kTrain);
  EXPECT_TRUE(course_->in_segment());
}

TEST_F(JobCourseTest, EpochIsValidatedThenReportedThenSaved) {
  Train();
  EndSegment(true, true);
  EXPECT_EQ(On(), Next::kValidate);
  course_->Enter(JobPhase::kValidate);
  course_->EpochValidated();
  EXPECT_EQ(Text(), "validate, epoch validated, save due");
  EXPECT_EQ(On(), Next::kReportEpoch);
  course_->EpochReported();
  EXPECT_EQ(On(), Next::kSave);
}

TEST_F(JobCourseTest, JobWithoutValidationReportsTheEpochAtOnce) {
  Train(false);
  EndSegment(true, false);
  EXPECT_EQ(On(), Next::kReportEpoch);
}

TEST_F(JobCourseTest, FinishedJobIsTestedThenSavedThenStops) {
  Train(false);
  EndSegment(false, false);
  EXPECT_EQ(Finished(), Next::kTest);
  course_->Enter(JobPhase::kTest);
  course_->Tested();
  EXPECT_EQ(Finished(), Next::kSave);
  course_->Enter(JobPhase::kSave);
  EXPECT_EQ(Finished(), Next::kStop);
  EXPECT_EQ(Text(), "save, save tried, tested");
}

TEST_F(JobCourseTest, SaveMadeAtTheLastBarrierIsNotRepeatedAfterTheTest) {
  Train();
  EndSegment(false, true);
  EXPECT_EQ(Finished(), Next::kSave);
  course_->Enter(JobPhase::kSave);
  EXPECT_EQ(Finished(), Next::kTest);
  course_->Enter(JobPhase::kTest);
  course_->Tested();
  EXPECT_EQ(Finished(), Next::kStop);
}

TEST_F(JobCourseTest, JobWithoutATestSplitIsSavedAtTheEndOfTheJob) {
  Train(false, false);
  EndSegment(false, false);
  EXPECT_EQ(Finished(), Next::kSave);
}

TEST_F(JobCourseTest, SaveThatBecomesDueAfterValidationFollowsTheEpochReport) {
  Train();
  EndSegment(true, false);
  course_->Enter(JobPhase::kValidate);
  course_->EpochValidated();
  course_->SaveIsDue();
  course_->EpochReported();
  EXPECT_EQ(On(), Next::kSave);
}

TEST_F(JobCourseTest, InterruptedSegmentIsFollowedByASaveThenTheJobStops) {
  Train();
  course_->Interrupt();
  EndSegment(false, false);
  EXPECT_EQ(On(), Next::kSave);
  course_->Enter(JobPhase::kSave);
  EXPECT_EQ(On(), Next::kStopInterrupted);
}

TEST_F(JobCourseTest, EpochThatEndsAtAnInterruptIsStillValidatedAndReported) {
  Train();
  EndSegment(true, false);
  course_->Interrupt();
  EXPECT_EQ(On(), Next::kValidate);
  course_->EpochValidated();
  EXPECT_EQ(On(), Next::kReportEpoch);
  course_->EpochReported();
  EXPECT_EQ(On(), Next::kSave);
}

TEST_F(JobCourseTest, InterruptDuringSaveCausesNoSecondSave) {
  Train();
  EndSegment(false, true);
  course_->Enter(JobPhase::kSave);
  course_->Interrupt();
  EXPECT_EQ(On(), Next::kStopInterrupted);
}

TEST_F(JobCourseTest, InterruptDuringAnEvaluationIsFollowedByASave) {
  Train(false);
  EndSegment(false, false);
  course_->Enter(JobPhase::kTest);
  course_->Interrupt();
  course_->Tested();
  EXPECT_EQ(Finished(), Next::kSave);
}

}  // namespace
}  // namespace tethys
